"""`kubectl scx status`: the state of rollouts."""

import click

from schedkit.cli import Seconds
from schedkit.errors import ExitCode, UsageError
from schedkit.sked.plugin.completing import complete_resource
from schedkit.sked.plugin.options import PluginCommand, everywhere_option, output_option, run


@click.command(
    cls=PluginCommand,
    short_help="Show the state of rollouts, or follow one with -w.",
    epilog="""
    kubectl scx status
    kubectl scx status web
    kubectl scx status web -w --timeout 1800 || kubectl scx undo web
    kubectl scx status -A -o json
    """,
)
@click.argument("name", required=False, shell_complete=complete_resource)
@click.option(
    "-w",
    "--watch",
    is_flag=True,
    help="Follow the rollout until it is done: one line for each change of a node, and a progress bar.",
)
@click.option(
    "--timeout",
    type=Seconds(0.1),
    metavar="SECONDS",
    help="With -w: give up after this time [default: never].",
)
@everywhere_option
@output_option
def status(name: str | None, watch: bool, timeout: float | None, everywhere: bool, output: str) -> int:
    """Show the state of rollouts: one line for each SchedExt, or everything about one.

    For one SchedExt, the exit code is 15 if it was rolled back, 12 or 13 if its new revision failed and it waits for a
    person, 1 if it is stalled for another reason, and otherwise 0, which with -w means done.
    """
    if watch and (not name or output != "text"):
        raise UsageError("-w follows one SchedExt, as text", hint="name it: kubectl scx status NAME -w")
    if timeout is not None and not watch:
        raise UsageError("--timeout is for -w")
    if name and everywhere:
        raise UsageError("a NAME cannot be used with -A", hint="-n says in which namespace it is")
    if name and watch:
        return _follow(name, timeout)
    return _show_one(name, output) if name else _show_all(everywhere, output)


def _follow(name: str, timeout: float | None) -> int:
    from schedkit.sked.plugin.following import follow

    return run(lambda session: follow(session, name, timeout))


def _show_one(name: str, output: str) -> int:
    from schedkit.sked.plugin.output import now, show
    from schedkit.sked.plugin.rollout_text import render_progress
    from schedkit.sked.plugin.rollouts import read_progress

    progress = read_progress(run(lambda session: session.fetch_resource(name)))
    show(output, "schedExts", [progress], lambda: render_progress(progress, now()))
    return progress.exit_code


def _show_all(everywhere: bool, output: str) -> int:
    from schedkit.sked.plugin.listing import list_resources
    from schedkit.sked.plugin.output import now, show
    from schedkit.sked.plugin.rollout_text import render_list
    from schedkit.sked.plugin.rollouts import read_progress

    found = [
        read_progress(resource) for resource in run(lambda session: list_resources(session, everywhere=everywhere))
    ]
    show(output, "schedExts", found, lambda: render_list(found, now(), everywhere=everywhere) if found else "")
    return ExitCode.OK
