"""`schedctl verify`: who signed an image, or why it may not run."""

import click

from schedkit.schedctl.completing import complete_scheduler
from schedkit.schedctl.options import Command, output_option, pass_session, version_option
from schedkit.schedctl.session import Session
from schedkit.schedctl.show_verdict import show_verdict
from schedkit.schedctl.trust_options import offline_option, policy_option


@click.command(
    cls=Command,
    short_help="Show who signed an image, and whether it may run.",
    epilog="""
    schedctl verify scx_rusty
    schedctl verify ghcr.io/example/my_scheduler:edge --trust-policy policy.yaml
    schedctl verify scx_rusty -o json | jq -r '.signatures[].who'
    """,
)
@click.argument("name", metavar="NAME|IMAGE", shell_complete=complete_scheduler)
@version_option
@policy_option
@offline_option
@output_option
@pass_session
def command(session: Session, name: str, version: str | None) -> None:
    """Show who signed an image, how, when and with which log entry, or why it may not run, for each signature.

    `run`, `switch` and `pull` decide by the same rules. The exit code tells you the cause: 'schedctl help exit-codes'.
    """
    show_verdict(session, name, version)
