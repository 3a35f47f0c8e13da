"""`schedctl inspect`: everything known of one container, as JSON."""

import click

from schedkit.schedctl.completing import complete_container
from schedkit.schedctl.options import Command, json_option, pass_session
from schedkit.schedctl.session import Session


@click.command(
    cls=Command,
    short_help="Print everything known about one container, as JSON.",
    epilog="""
    schedctl inspect
    schedctl inspect scx_rusty | jq .container.labels
    """,
)
@click.argument("id", required=False, metavar="[ID|NAME]", shell_complete=complete_container)
@json_option
@pass_session
def command(session: Session, id: str | None) -> None:
    """Print everything known about one container, and about the kernel, as JSON.

    Defaults to the running scheduler, or to the one that ended last.
    """
    from schedkit.schedctl.choosing import choose_managed
    from schedkit.schedctl.output import format_json
    from schedkit.schedctl.views import holder_fields, kernel_fields, managed_fields

    observed, managed = choose_managed(session, id)
    fields = {
        "container": {**managed_fields(managed), "labels": dict(sorted(managed.container.labels.items()))},
        "kernel": kernel_fields(observed.kernel),
        "holder": holder_fields(observed.holder),
    }
    session.output.write(f"{format_json(fields, indent=2)}\n")
