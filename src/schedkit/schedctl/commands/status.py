"""`schedctl status`: the kernel and the containers, and whether they agree."""

import click

from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.session import Session
from schedkit.schedctl.show_status import show_status
from schedkit.schedctl.templates import Template, format_option


@click.command(
    cls=Command,
    short_help="Show what the kernel runs, and whether the containers agree.",
    epilog="""
    schedctl status
    schedctl status --format '{{.status}} {{.kernel.ops}}'
    schedctl status -o json | jq -r .status
    schedctl status >/dev/null || echo "something is off"
    """,
)
@output_option
@format_option("status", "", "{{.status}} {{.kernel.ops}}")
@pass_session
def command(session: Session, template: Template | None) -> int:
    """Show what the kernel runs, and whether the containers agree.

    The exit code is 0 if they agree (idle, running), 2 if they do not, and 1 if it is unknown.
    """
    return show_status(session, template)
