"""`schedctl images`: what was pulled."""

import click

from schedkit.errors import UsageError
from schedkit.host.local_images import KeptImages, describe
from schedkit.schedctl.kept_images import find_places, gather, kept_fields
from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.output import format_bytes
from schedkit.schedctl.session import Session
from schedkit.schedctl.templates import Template, format_option, show_lines
from schedkit.schedctl.views import SHORT_ID, unreachable_fields


@click.command(
    cls=Command,
    short_help="List the schedulers' images on this machine.",
    epilog="""
    schedctl images
    schedctl images -q
    schedctl images --format '{{.id}} {{.names}}'
    schedctl images -o json | jq -r '.images[] | select(.used_by == []) | .names[]'
    """,
)
@click.option("-q", "--quiet", is_flag=True, help="Print only IDs, one per line.")
@output_option
@format_option("images", "images", "{{.id}} {{.names}}")
@pass_session
def command(session: Session, quiet: bool, template: Template | None) -> None:
    """List the schedulers' images on this machine, in all runtimes, and the containers that use them.

    In podman and docker these are images of the catalog's repositories, and images with the labels of a scheduler; in
    containerd, all images in schedctl's namespace.
    """
    if quiet and (template or session.output.json):
        other = "--format" if template else "-o json"
        raise UsageError(f"--quiet cannot be used with {other}", hint="use one of the two")
    kept = gather(session, find_places(session))
    if template:
        show_lines(session.output, template, map(kept_fields, kept.images))
        return
    session.output.show(
        lambda: {
            "images": [kept_fields(one) for one in kept.images],
            "unreachable": [unreachable_fields(one) for one in kept.unreachable],
        },
        lambda: "\n".join(one.image.id for one in kept.images) if quiet else _text(kept, session),
    )


def _text(kept: KeptImages, session: Session) -> str:
    rows = [
        (
            session.output.shorten(describe(one.image)),
            one.image.id.removeprefix("sha256:")[:SHORT_ID],
            "-" if one.image.size is None else format_bytes(one.image.size),
            one.image.driver,
            ", ".join(one.used_by) or "-",
        )
        for one in kept.images
    ]
    titles = ("IMAGE", "ID", "SIZE", "DRIVER", "USED BY")
    return session.output.table(titles, rows, elastic=("IMAGE", "USED BY"), spare=("ID", "DRIVER"))
