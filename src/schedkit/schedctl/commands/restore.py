"""`schedctl restore`: back to the enabled scheduler."""

import click

from schedkit.schedctl.enabling import describe_lasted, lasted_fields, plan_restore, restore
from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.planning import DryRun, dry_run_option, name_container, show_plan
from schedkit.schedctl.session import Session
from schedkit.schedctl.show_lasting import trial_fields


@click.command(
    cls=Command,
    short_help="Go back to the enabled scheduler.",
    epilog="""
    schedctl switch scx_bpfland
    schedctl restore
    """,
)
@dry_run_option
@output_option
@pass_session
def command(session: Session, dry_run: bool) -> None:
    """Go back to the enabled scheduler: after trying others, after `schedctl stop`, or after systemd gave up.

    The running scheduler is replaced with the shortest gap, as with `schedctl switch`. During a trial, `restore` ends
    the trial and goes back to what ran before it.
    """
    from schedkit.host.trial import end_trial

    session.require_root("restore")
    if dry_run:
        show_plan(session, _plan_end_of_trial(session) or plan_restore(session))
        return
    ended = end_trial(session.host, session.progress.step)
    if ended:
        session.output.show(
            lambda: {
                **dict.fromkeys(("enabled", "container", "replaced", "gap_seconds")),
                "trial": trial_fields(ended),
            },
            lambda: f"the trial of {ended.scheduler} is over: back to {ended.back_to}",
        )
        return
    lasted = restore(session)
    session.output.show(lambda: {**lasted_fields(lasted), "trial": None}, lambda: describe_lasted(lasted))


def _plan_end_of_trial(session: Session) -> DryRun | None:
    from schedkit.host.trial import find_on_trial, find_trial

    trial = find_trial(session.machine)
    if trial is None:
        return None
    mine = find_on_trial(session.host, trial)
    steps = [f"stop and remove {name_container(mine.container)}, which is on trial"] if mine else []
    if trial.before:
        steps.append(f"start the container {trial.before.name} again, which was before")
    return DryRun(tuple(steps), trial.before.scheduler if trial.before else None)
