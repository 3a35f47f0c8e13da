"""`schedctl prune`: all images that nothing uses."""

import click

from schedkit.host.local_images import KeptImage, choose_removable, describe, remove_images
from schedkit.runtimes.local_image import ImageInUseError
from schedkit.schedctl.kept_images import find_places, gather, image_fields
from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.output import format_bytes
from schedkit.schedctl.planning import dry_run_option
from schedkit.schedctl.session import Session


@click.command(
    cls=Command,
    short_help="Remove images of schedulers that no container uses.",
    epilog="""
    schedctl prune --dry-run
    schedctl prune
    """,
)
@dry_run_option
@output_option
@pass_session
def command(session: Session, dry_run: bool) -> None:
    """Remove the schedulers' images that no container uses, from all runtimes.

    The image of the enabled scheduler is kept, but not older versions of it, which `schedctl update` leaves behind.
    Other images are never removed: `schedctl images --help` tells you which images are schedulers'.
    """
    session.require_root("prune")
    places = find_places(session)  # before the lock, under which nobody is to wait for a network

    def choose() -> list[KeptImage]:
        return [one for one in gather(session, places).images if not one.used_by]

    removed, failed = choose_removable(choose()) if dry_run else remove_images(session.host, choose)
    freed = sum(one.size or 0 for one in removed)
    verb = "would be removed" if dry_run else "is removed"
    session.output.show(
        lambda: {"removed": [image_fields(one) for one in removed], "bytes": freed, "dry_run": dry_run},
        lambda: "\n".join(
            [*(f"{describe(one)} {verb} from {one.driver}" for one in removed), f"{format_bytes(freed)} in all"]
            if removed
            else ["nothing to remove"]
        ),
    )
    for one in failed:
        session.progress.warn(one.error.message)
    lost = [
        one.error for one in failed if not isinstance(one.error, ImageInUseError)
    ]  # somebody else's container is fine
    if lost:
        raise lost[0]
