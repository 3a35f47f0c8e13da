"""scx_loader's choice of a scheduler: its configuration file."""

import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from schedkit.errors import BadDataError, NoPermissionError, NotFoundError, SchedkitError
from schedkit.host.model import Observed, ProgressReporter
from schedkit.host.units import is_running
from schedkit.kernel.holder import Holder

LOADER = "scx_loader.service"
# Where scx_loader looks, in this order.
LOADER_FILES = (
    *("etc/scx_loader/config.toml", "etc/scx_loader.toml"),
    *("usr/share/scx_loader/config.toml", "usr/share/scx_loader.toml"),
)
_TARGETS = ("multi-user.target", "graphical.target", "default.target")
MODES = ("auto", "gaming", "powersave", "lowlatency", "server")  # in the order of their numbers in its D-Bus interface
# The schedulers that this version of scx_loader starts, and its flags for modes that its file does not name; a mode
# that is not here has none. `make peer-check` asks it.
BUILT_IN_VERSION = "1.1.3"
BUILT_IN: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "scx_beerland": {},
    "scx_bpfland": {
        "auto": ("-m", "auto"),
        "gaming": ("-m", "all"),
        "powersave": ("-s", "20000", "-m", "powersave", "-I", "100", "-t", "100"),
        "lowlatency": ("-m", "performance", "-w"),
        "server": ("-s", "20000", "-S"),
    },
    "scx_cake": {},
    "scx_cosmos": {
        "gaming": ("-s", "700"),
        "powersave": ("-m", "powersave"),
        "lowlatency": ("-s", "700", "-m", "performance", "-w"),
    },
    "scx_flash": {},
    "scx_flow": {},
    "scx_forge": {},
    "scx_lavd": {
        "auto": ("--autopilot", "--pinned-slice-us", "500"),
        "gaming": ("--performance", "--pinned-slice-us", "500"),
        "powersave": ("--powersave", "--pinned-slice-us", "500"),
        "lowlatency": ("--performance", "--pinned-slice-us", "500"),
        "server": (
            *("--performance", "--slice-min-us", "3000", "--slice-max-us", "10000"),
            *("--pinned-slice-us", "3000"),
        ),
    },
    "scx_mlfq": {},
    "scx_p2dq": {
        "auto": ("--sched-mode", "default"),
        "gaming": ("--task-slice", "true", "-f", "--sched-mode", "performance"),
        "powersave": ("--sched-mode", "efficiency"),
        "lowlatency": ("-y", "-f", "--task-slice", "true"),
        "server": ("--keep-running",),
    },
    "scx_pandemonium": {},
    "scx_rustland": {},
    "scx_rusty": {},
    "scx_tickless": {
        "gaming": ("-f", "5000", "-s", "5000"),
        "powersave": ("-f", "50"),
        "lowlatency": ("-f", "5000", "-s", "1000"),
        "server": ("-f", "100"),
    },
}


class LoaderChoice(NamedTuple):
    """What scx_loader starts at boot."""

    scheduler: str
    mode: str
    args: tuple[str, ...] | None  # None: neither the file nor BUILT_IN has this scheduler
    origin: str
    is_built_in: bool = False  # the file does not name `args`
    modes: Mapping[str, Mapping[str, tuple[str, ...]]] = {}  # all flags that the file names, by scheduler and mode


def read_loader(root: Path, file: str | None = None) -> LoaderChoice:
    """scx_loader's choice; NotFoundError where it has none."""
    path = Path(file) if file else next((root / one for one in LOADER_FILES if (root / one).exists()), None)
    if path is None:
        raise NotFoundError(
            "scx_loader has no configuration: " + ", ".join(f"/{one}" for one in LOADER_FILES[:2]),
            hint="name it with --file; or choose for yourself: schedctl enable NAME",
        )
    try:
        text = path.read_bytes().decode()
    except FileNotFoundError as error:
        raise NotFoundError(f"{path} does not exist", hint="--file names scx_loader's TOML file") from error
    except IsADirectoryError as error:
        raise BadDataError(f"{path} is a directory", hint="--file names scx_loader's TOML file") from error
    except PermissionError as error:
        raise NoPermissionError(f"no permission to read {path}", hint="run this as root") from error
    except UnicodeDecodeError as error:
        raise BadDataError(f"{path}: not UTF-8 text", hint="it must be a TOML file") from error
    return parse_loader(text, str(path))


def parse_loader(text: str, origin: str) -> LoaderChoice:
    """Its TOML: default_sched, default_mode, and flags for each scheduler and mode."""
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadDataError(f"{origin}: not TOML: {error}") from error
    scheduler = table.get("default_sched")
    if scheduler is None:
        raise NotFoundError(
            f"{origin} names no default_sched: scx_loader starts none at boot",
            hint="choose for yourself: schedctl enable NAME",
        )
    if not isinstance(scheduler, str) or not scheduler:
        raise BadDataError(f"{origin}: default_sched is not a name: {scheduler!r}")
    mode = _read_mode(table.get("default_mode"), origin)
    modes = _read_modes(table, origin)
    flags = modes.get(scheduler, {}).get(mode)
    if flags is not None:
        return LoaderChoice(scheduler, mode, flags, origin, modes=modes)
    own = BUILT_IN.get(scheduler)
    args = None if own is None else own.get(mode, ())
    return LoaderChoice(scheduler, mode, args, origin, is_built_in=own is not None, modes=modes)


def _read_mode(value: object, origin: str) -> str:
    """Parse a mode by name, in any case; auto if none is named."""
    if value is None:
        return MODES[0]
    if isinstance(value, str) and value.lower() in MODES:
        return value.lower()
    raise BadDataError(f"{origin}: unknown default_mode {value!r}", hint=f"one of: {', '.join(MODES)}")


def _read_modes(table: Mapping[str, Any], origin: str) -> dict[str, dict[str, tuple[str, ...]]]:
    """All flags of all schedulers; keys that are no mode's are left to other versions of scx_loader."""
    scheds = table.get("scheds", {})
    if not isinstance(scheds, dict):
        raise BadDataError(f"{origin}: scheds is not a table")
    modes: dict[str, dict[str, tuple[str, ...]]] = {}
    for scheduler, entry in scheds.items():
        if not isinstance(entry, dict):
            raise BadDataError(f"{origin}: scheds.{scheduler} is not a table")
        for mode in MODES:
            flags = entry.get(f"{mode}_mode")
            if flags is None:
                continue
            if not isinstance(flags, list) or not all(isinstance(flag, str) for flag in flags):
                raise BadDataError(f"{origin}: scheds.{scheduler}.{mode}_mode is not a list of texts")
            modes.setdefault(scheduler, {})[mode] = tuple(flags)
    return modes


def makes_way(root: Path, observed: Observed) -> bool:
    """Whether the slot will be free once scx_loader is stopped: nobody else is known to have it."""
    holder = observed.holder
    return is_running(root, LOADER) and (not isinstance(holder, Holder) or holder.unit == LOADER)


def find_way_back(root: Path) -> list[tuple[str, ...]]:
    """What systemctl is to be told to have scx_loader as it is now; nothing where it neither runs nor is enabled."""
    enabled = any(os.path.lexists(root / f"etc/systemd/system/{one}.wants/{LOADER}") for one in _TARGETS)
    return [*([("enable", "--quiet")] if enabled else []), *([("start",)] if is_running(root, LOADER) else [])]


@contextmanager
def replace_loader(root: Path, progress: ProgressReporter) -> Iterator[None]:
    """Stop and disable scx_loader; if what is to take its place does not come, it is as it was before."""
    from schedkit.host.systemd import call

    back = find_way_back(root)
    try:
        if back:
            progress.step(f"stopping and disabling {LOADER}")
            call("systemctl", "disable", "--now", "--quiet", LOADER)
        yield
    except BaseException:
        for words in back:
            progress.step(f"systemctl {words[0]} {LOADER}, as before")
            try:
                call("systemctl", *words, LOADER)
            except SchedkitError as failure:  # what is told in the end is why it was in vain
                progress.warn(f"{LOADER} is not as before: {failure.message}")
        raise
