"""`schedctl switch`: another scheduler, with the shortest gap."""

from typing import Any

import click

from schedkit.host.model import Switched
from schedkit.schedctl.lasting import check_restart, keep_restarting, pin
from schedkit.schedctl.modes import apply_mode
from schedkit.schedctl.options import output_option, pass_session
from schedkit.schedctl.output import Json, format_seconds, words
from schedkit.schedctl.planning import dry_run_option, plan_restarting, plan_start, show_plan
from schedkit.schedctl.requests import RequestCommand, make_request, parse_order, request_options, restart_option
from schedkit.schedctl.session import Session
from schedkit.schedctl.verification import check_trust_policy, make_verify
from schedkit.schedctl.views import SHORT_ID, attached_fields, container_fields


@click.command(
    cls=RequestCommand,
    short_help="Replace the running scheduler, with the shortest gap.",
    epilog="""
    schedctl switch scx_bpfland
    schedctl switch scx_lavd -- --performance
    schedctl switch scx_rusty --version v1.1.0 -o json | jq .gap_seconds
    """,
)
@request_options
@restart_option
@dry_run_option
@output_option
@pass_session
def command(session: Session, /, name: str, args: tuple[str, ...], dry_run: bool, **options: Any) -> None:
    """Replace the running scheduler: fetch and prepare the new one first, then stop the old one and start the new one.

    Between the two the kernel uses its own scheduler; the length of this gap is printed. If the new one does not
    attach, the old one is started again and the exit code is 15.
    """
    from schedkit.host.preparing import check_kernel
    from schedkit.host.switch import check_switch, switch

    order = parse_order(name, args, **options)
    session.check_known(name)
    session.require_root("switch")
    check_restart(session, order)
    check_trust_policy(session.settings)
    check_kernel(session.machine, name)
    order = apply_mode(session, order)
    host = session.host
    replaced = check_switch(host, name)
    request = make_request(session, order)
    if request.restart.on_failure:
        request = pin(request)
    verify = make_verify(session, host.runtimes.chosen)
    if dry_run:
        show_plan(session, plan_restarting(session, request, plan_start(session, request, verify, replaced)))
        return
    switched = switch(host, request, verify)
    keep_restarting(session, request, switched.attached)
    session.output.show(
        lambda: switched_fields(switched, request.scheduler), lambda: describe_switched(switched, request.scheduler)
    )


def switched_fields(switched: Switched, scheduler: str) -> Json:
    """Return the fields of a switch for JSON."""
    return {
        "scheduler": scheduler,
        "container": attached_fields(switched.attached),
        "replaced": container_fields(switched.replaced) if switched.replaced else None,
        "gap_seconds": None if switched.gap is None else round(switched.gap, 3),
    }


def describe_switched(switched: Switched, scheduler: str) -> str:
    """One line."""
    attached = switched.attached
    where = f"container {attached.container.name} ({attached.container.driver} {attached.container.id[:SHORT_ID]})"
    line = f"{scheduler} is attached as {words(attached.ops)}, {where}"
    if switched.replaced is None:
        return f"{line}; there was none before"
    gap = "" if switched.gap is None else f"; gap {format_seconds(switched.gap)}"
    return f"{line}, in place of {switched.replaced.name}{gap}"
