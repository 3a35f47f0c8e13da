"""`schedctl trial`: a scheduler for a while."""

from typing import Any

import click

from schedkit.schedctl.commands.switch import describe_switched, switched_fields
from schedkit.schedctl.durations import duration_option
from schedkit.schedctl.enable_line import format_enable
from schedkit.schedctl.lasting import check_systemd, find_program
from schedkit.schedctl.modes import apply_mode
from schedkit.schedctl.options import output_option, pass_session, read_flags
from schedkit.schedctl.output import format_span
from schedkit.schedctl.planning import dry_run_option, plan_start, show_plan
from schedkit.schedctl.requests import RequestCommand, make_request, parse_order, request_options
from schedkit.schedctl.session import Session
from schedkit.schedctl.show_lasting import trial_fields
from schedkit.schedctl.verification import check_trust_policy, make_verify

_WITHOUT_SYSTEMD = "use `schedctl switch NAME`, and `schedctl stop` to go back to the kernel's own scheduler"


@click.command(
    cls=RequestCommand,
    short_help="Try a scheduler for a while; go back unless you keep it.",
    epilog="""
    schedctl trial scx_lavd --for 10m
    schedctl trial scx_bpfland --for 1h30m -- -m performance
    schedctl keep
    """,
)
@request_options
@duration_option("--for", "seconds", default="10m", above=0.0, help="Length of the trial: 90s, 10m, 1h30m.")
@dry_run_option
@output_option
@pass_session
def command(
    session: Session, /, name: str, args: tuple[str, ...], seconds: float, dry_run: bool, **options: Any
) -> None:
    """Switch to a scheduler, and go back to what ran before (a scheduler or none) unless you run `schedctl keep`.

    A systemd unit goes back, even if the terminal is closed or schedctl is killed. If the scheduler ends or the kernel
    ejects it during the trial, it goes back at once; the journal and `schedctl status` show why. After a reboot, the
    enabled scheduler runs, or none.
    """
    from schedkit.host.preparing import check_kernel
    from schedkit.host.switch import check_switch
    from schedkit.host.trial import begin_trial, check_trial
    from schedkit.host.units import TRIAL

    order = parse_order(name, args, **options)
    session.check_known(name)
    session.require_root("trial")
    check_systemd(session, "schedctl trial", hint=_WITHOUT_SYSTEMD)
    check_trial(session.machine)
    check_trust_policy(session.settings)
    check_kernel(session.machine, name)
    enable = format_enable(order, read_flags(click.get_current_context()))
    order = apply_mode(session, order)
    host = session.host
    replaced = check_switch(host, name)
    request = make_request(session, order)
    verify = make_verify(session, host.runtimes.chosen)
    if dry_run:
        back = replaced.scheduler if replaced else "the kernel's own scheduler"
        last = f"have {TRIAL} go back to {back} after {format_span(seconds)}, unless `schedctl keep` comes in time"
        show_plan(session, plan_start(session, request, verify, replaced, and_back=True).add(last))
        return
    switched, trial = begin_trial(host, request, verify, seconds, find_program(), command=enable)
    session.output.show(
        lambda: {**switched_fields(switched, request.scheduler), "trial": trial_fields(trial)},
        lambda: (
            f"{describe_switched(switched, request.scheduler)}\non trial for {format_span(seconds)}, then back to"
            f" {trial.back_to}; `schedctl keep` keeps it"
        ),
    )
