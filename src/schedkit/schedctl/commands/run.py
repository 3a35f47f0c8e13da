"""`schedctl run`: a scheduler into the kernel's slot."""

from typing import Any

import click

from schedkit.errors import UsageError
from schedkit.host.model import Attachment, Managed, RunResult, Switched
from schedkit.schedctl.commands.switch import describe_switched, switched_fields
from schedkit.schedctl.following import follow_logs
from schedkit.schedctl.lasting import check_restart, keep_restarting, pin
from schedkit.schedctl.modes import apply_mode
from schedkit.schedctl.options import output_option, pass_session
from schedkit.schedctl.output import format_seconds, words
from schedkit.schedctl.planning import (
    DryRun,
    dry_run_option,
    name_container,
    plan_restarting,
    plan_start,
    show_plan,
)
from schedkit.schedctl.requests import RequestCommand, make_request, parse_order, request_options, restart_option
from schedkit.schedctl.session import Session
from schedkit.schedctl.verification import check_trust_policy, make_verify
from schedkit.schedctl.views import SHORT_ID

TAIL = 10  # lines of what it said before, where it runs already
_FOLLOW = "show its output until Ctrl-C, and then stop it"


@click.command(
    cls=RequestCommand,
    short_help="Run a scheduler and wait until the kernel has attached it.",
    epilog="""
    schedctl run scx_rusty
    schedctl run scx_lavd --version v1.1.0 -- --performance
    schedctl run ghcr.io/example/my_scheduler:edge --attach
    schedctl run scx_bpfland --restart on-failure:5
    schedctl run lavd --mode gaming
    schedctl run scx_rusty --name mine --replace
    """,
)
@request_options
@restart_option
@dry_run_option
@click.option(
    "-a", "--attach", is_flag=True, help="Stay in the foreground and show its output; Ctrl-C stops the scheduler."
)
@click.option("--replace", is_flag=True, help="Replace the running scheduler, as `schedctl switch` does, and its name.")
@click.option("--no-wait", is_flag=True, help="Return when the container has started, without waiting for the kernel.")
@output_option
@pass_session
def command(
    session: Session, /, name: str, args: tuple[str, ...], attach: bool, no_wait: bool, dry_run: bool, **options: Any
) -> int | None:
    """Run a scheduler and wait until the kernel has attached it.

    NAME is a name from `schedctl list` (`lavd` stands for `scx_lavd`), IMAGE any image reference. Arguments after -- go
    to the scheduler. If it does not attach, schedctl removes its container and shows the cause and the scheduler's last
    lines of output; the exit code tells you the cause, too.

    With --attach, schedctl takes over a container that runs the same image with the same arguments and is attached.
    --replace never replaces a scheduler that schedctl does not manage.
    """
    from schedkit.host.preparing import check_kernel
    from schedkit.host.run import check_run, find_same, remove_unattached, run
    from schedkit.host.switch import check_switch, switch
    from schedkit.kernel.state import read_state

    if attach and options["restart"] != "no":
        raise UsageError("--attach ends with the scheduler, --restart does not", hint="choose one of the two")
    order = parse_order(name, args, wait=not no_wait, **options)
    session.check_known(name)
    session.require_root("run")
    check_restart(session, order)
    check_trust_policy(session.settings)
    check_kernel(session.machine, name)
    order = apply_mode(session, order)
    host = session.host
    same = (
        find_same(
            host,
            lambda: str(session.find(name, order.version).reference),
            order.args,
            order.container,
            order.files,
            unprivileged=order.unprivileged,
        )
        if attach and not order.replace
        else None
    )
    if same and dry_run:
        show_plan(session, _plan_takeover(same))
        return None
    if same:
        if same.attachment is Attachment.YES:
            session.progress.step(
                f"{same.container.name} ({same.container.driver}) is attached already: its output follows"
            )
            ops = read_state(session.machine.root).ops
            return follow_logs(session, same.container, ops if isinstance(ops, str) else None, tail=TAIL)
        remove_unattached(host, same)
    replaced = None
    if order.replace:
        replaced = check_switch(host, name)
    else:
        check_run(host, name)
    request = make_request(session, order)
    if request.restart.on_failure:
        request = pin(request)
    verify = make_verify(session, host.runtimes.chosen)
    if dry_run:
        plan = plan_restarting(session, request, plan_start(session, request, verify, replaced))
        show_plan(session, plan.add(_FOLLOW) if attach else plan)
        return None
    switched = switch(host, request, verify) if order.replace else Switched(run(host, request, verify), None, None)
    attached = switched.attached
    keep_restarting(session, request, attached)
    text = describe_switched(switched, request.scheduler) if switched.replaced else _text(attached, request.scheduler)
    if attach:
        session.progress.step(text)
        return follow_logs(session, attached.container, attached.ops)
    session.output.show(lambda: switched_fields(switched, request.scheduler), lambda: text)
    return None


def _plan_takeover(same: Managed) -> DryRun:
    where = name_container(same.container)
    if same.attachment is Attachment.YES:
        return DryRun((f"take over {where}, which is attached already", _FOLLOW), same.scheduler)
    return DryRun((f"remove {where}, which runs and is not attached", "start it again", _FOLLOW), same.scheduler)


def _text(attached: RunResult, scheduler: str) -> str:
    container = attached.container
    where = f"container {container.name} ({container.driver} {container.id[:SHORT_ID]})"
    if attached.ops is None:
        return f"{scheduler} was started, {where}; `schedctl status` shows whether it is attached"
    return f"{scheduler} is attached as {words(attached.ops)} after {format_seconds(attached.seconds)}, {where}"
