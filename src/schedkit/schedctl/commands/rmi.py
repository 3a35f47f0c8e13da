"""`schedctl rmi`: an image that is no longer wanted."""

import click

from schedkit.errors import NotFoundError
from schedkit.host.local_images import KeptImage, KeptImages, choose_removable, describe, match, remove_images
from schedkit.runtimes.view import unseen
from schedkit.schedctl.completing import complete_image
from schedkit.schedctl.kept_images import find_places, gather, image_fields
from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.planning import dry_run_option
from schedkit.schedctl.session import Session


@click.command(
    cls=Command,
    short_help="Remove images of schedulers.",
    epilog="""
    schedctl rmi scx_rusty
    schedctl rmi ghcr.io/schedkit/scx_lavd:v1.1.0
    """,
)
@click.argument("words", nargs=-1, required=True, metavar="NAME|IMAGE|ID...", shell_complete=complete_image)
@dry_run_option
@output_option
@pass_session
def command(session: Session, words: tuple[str, ...], dry_run: bool) -> None:
    """Remove schedulers' images from all runtimes: all versions of NAME, one IMAGE, or one ID.

    An image that a container or the enabled scheduler uses is kept, and the exit code is 1.
    """
    session.require_root("rmi")
    places = find_places(session)  # before the lock, under which nobody is to wait for a network

    def choose() -> list[KeptImage]:
        kept = gather(session, places)
        wanted: list[KeptImage] = []
        for word in words:
            wanted += [one for one in _find(session, kept, word) if one not in wanted]
        return wanted

    removed, failed = choose_removable(choose()) if dry_run else remove_images(session.host, choose)
    verb = "would be removed" if dry_run else "is removed"
    session.output.show(
        lambda: {"removed": [image_fields(one) for one in removed], "dry_run": dry_run},
        lambda: "\n".join(f"{describe(one)} {verb} from {one.driver}" for one in removed),
    )
    if failed:
        raise failed[0].error


def _find(session: Session, kept: KeptImages, word: str) -> list[KeptImage]:
    entry = session.catalog.find_entry(word)
    bare = entry is not None and ":" not in word and "@" not in word
    names = {word}
    repository = None
    if entry and bare:
        repository = f"{entry.image.registry}/{entry.image.path}"
    elif entry:
        names.add(str(session.find(word).reference))
    elif "/" in word and ":" not in word.rpartition("/")[2] and "@" not in word:
        repository = word
    found = match(kept.images, frozenset(names), repository, word)
    if not found:
        what = f"no image here is {word}"
        raise (
            unseen(what, list(kept.unreachable))
            if kept.unreachable
            else NotFoundError(what, hint="`schedctl images` lists them")
        )
    return found
