"""`schedctl ps`: the schedulers' containers over all runtimes."""

import click

from schedkit.errors import UsageError
from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.session import Session
from schedkit.schedctl.show_containers import show_containers
from schedkit.schedctl.templates import Template, format_option


@click.command(
    cls=Command,
    short_help="List the schedulers' containers.",
    epilog="""
    schedctl ps
    schedctl ps --all
    schedctl ps -q | xargs -n 1 schedctl stop
    schedctl ps --format '{{.name}} {{.attached}}'
    schedctl ps -o json | jq -r '.containers[].id'
    """,
)
@click.option("-a", "--all", "everything", is_flag=True, help="Include containers that have ended or never started.")
@click.option("-q", "--quiet", is_flag=True, help="Print only IDs, one per line.")
@output_option
@format_option("ps", "containers", "{{.name}} {{.attached}}")
@pass_session
def command(session: Session, everything: bool, quiet: bool, template: Template | None) -> None:
    """List the schedulers' containers in all runtimes that respond, and whether the kernel has attached them.

    For a container that does not run, UPTIME shows its state and exit code instead.
    """
    if quiet and template:
        raise UsageError("--quiet cannot be used with --format", hint="use one of the two")
    if quiet and session.output.json:
        raise UsageError("--quiet cannot be used with -o json", hint="schedctl ps -o json | jq -r '.containers[].id'")
    show_containers(session, everything=everything, quiet=quiet, template=template)
