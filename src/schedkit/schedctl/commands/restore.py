"""`schedctl restore`: back to the enabled scheduler."""

import click

from schedkit.schedctl.enabling import describe_lasted, lasted_fields, restore
from schedkit.schedctl.options import Command, output_option, pass_session
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
@output_option
@pass_session
def command(session: Session) -> None:
    """Go back to the enabled scheduler after others were tried, it was stopped, or systemd gave up on it.

    What runs is replaced, with the shortest gap, as `schedctl switch` does. While a scheduler is on trial, it goes back
    to what was before the trial, now.
    """
    from schedkit.host.trial import end_trial

    session.require_root("restore")
    ended = end_trial(session.host, session.talk.step)
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
