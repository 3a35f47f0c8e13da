"""A browser as Debian has it, in a room of its own: pages are looked at as a person sees them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from lab import rooms
from lab.store import Store

PROGRAM = "chromium-headless-shell"
ROOM = rooms.room(
    "room-browser",
    [PROGRAM, "fonts-dejavu-core"],
    intermediate=False,
    seconds=40,
    adds_mb=600,
    peak_mb=700,
)


def enter(store: Store, argv: Sequence[str], *, binds: Mapping[Path, str]) -> list[str]:
    """The command line that runs the browser's program there, with host folders bound in."""
    store.ensure(ROOM)
    return rooms.enter(store.path(ROOM), argv, binds=binds, own_pids=False)  # it is told to end, and not who started it
