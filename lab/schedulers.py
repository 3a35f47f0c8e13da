"""The schedulers the lab runs: small fixtures, one for each way to behave, and real ones out of the scx project."""

from pathlib import Path

from lab import paths, rooms
from lab.store import Artefact, Build, Store

SOURCES = Path(__file__).parent / "fixtures"
VERSIONS = {"scx_rusty": "1.1.4", "scx_bpfland": "1.1.4"}


def read_texts(*places: Path) -> tuple[str, ...]:
    """The texts an artefact is made from, folders in a fixed order: a part of its key."""
    files = [file for place in places for file in ([place] if place.is_file() else sorted(place.iterdir()))]
    return tuple(text for file in files for text in (file.name, file.read_text()))


def _build_fixtures(build: Build) -> None:
    room = build.need(rooms.COMPILE)
    rooms.run_script(build, room, paths.RECIPES / "fixtures.sh", binds={SOURCES / "scx": "/fixtures"})


def write_cargo_settings(store: Store) -> None:
    """Have cargo in a room reach the crates as this host does."""
    home = store.downloads / "cargo"
    home.mkdir(exist_ok=True)
    settings = Path.home() / ".cargo/config.toml"
    if settings.exists():
        (home / "config.toml").write_bytes(settings.read_bytes())


def _build_schedulers(build: Build) -> None:
    write_cargo_settings(build.store)
    wanted = " ".join(f"{name}@{version}" for name, version in VERSIONS.items())
    rooms.run_script(build, build.need(rooms.COMPILE), paths.RECIPES / "schedulers.sh", env={"SCHEDULERS": wanted})


# Static binaries NAME-VERSION, and `pause-1` for pod sandboxes.
FIXTURES = Artefact(
    "fixtures",
    read_texts(SOURCES / "scx", paths.RECIPES / "fixtures.sh"),
    _build_fixtures,
    needs=(rooms.COMPILE,),
    intermediate=True,
    seconds=3,
    adds_mb=15,
    peak_mb=20,
)

# bin/NAME, and runtime/: the root folder of shared libraries they need.
SCHEDULERS = Artefact(
    "schedulers",
    (*VERSIONS, *VERSIONS.values(), *read_texts(paths.RECIPES / "schedulers.sh")),
    _build_schedulers,
    needs=(rooms.COMPILE,),
    intermediate=True,
    seconds=240,
    adds_mb=220,
    peak_mb=1700,
)
