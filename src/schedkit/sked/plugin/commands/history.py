"""`kubectl scx history`: earlier revisions."""

import sys
from typing import TYPE_CHECKING

import click

from schedkit.errors import UsageError, tell
from schedkit.sked.plugin.completing import complete_resource
from schedkit.sked.plugin.options import PluginCommand, everywhere_option, output_option, run

if TYPE_CHECKING:
    from schedkit.sked.plugin.history import Revision
    from schedkit.sked.plugin.session import PluginSession


@click.command(
    cls=PluginCommand,
    short_help="List the revisions that you can go back to.",
    epilog="""
    kubectl scx history web
    kubectl scx history -A
    kubectl scx history web -o json
    """,
)
@click.argument("name", required=False, shell_complete=complete_resource)
@everywhere_option
@output_option
def history(name: str | None, everywhere: bool, output: str) -> None:
    """List the revisions of a SchedExt, or of all, newest first: image, age, nodes and state.

    STATE: current is the stable one, update the one that is asked for, failed the one that failed.
    """
    if name and everywhere:
        raise UsageError("a NAME cannot be used with -A", hint="-n says in which namespace it is")
    from schedkit.sked.plugin.history import render_history
    from schedkit.sked.plugin.output import now, show

    found = run(lambda session: _gather(session, name, everywhere))
    if not found:
        tell(f"there are no revisions{f' of {name}' if name else ''}", sys.stderr)
    show(output, "revisions", found, lambda: render_history(found, now(), everywhere=everywhere) if found else "")


async def _gather(session: "PluginSession", name: str | None, everywhere: bool) -> "list[Revision]":
    from schedkit.sked.plugin.history import gather_history
    from schedkit.sked.plugin.listing import list_resources

    resources = [await session.fetch_resource(name)] if name else await list_resources(session, everywhere=everywhere)
    return await gather_history(session, resources, "" if everywhere else session.namespace)
