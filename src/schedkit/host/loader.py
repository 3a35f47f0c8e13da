"""scx_loader's choice of a scheduler: its configuration file."""

import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from schedkit.errors import BadDataError, NotFoundError, SchedkitError
from schedkit.host.model import ProgressReporter
from schedkit.host.units import is_running

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
    flags = _read_flags(table, scheduler, mode, origin)
    if flags is not None:
        return LoaderChoice(scheduler, mode, flags, origin)
    own = BUILT_IN.get(scheduler)
    return LoaderChoice(
        scheduler, mode, None if own is None else own.get(mode, ()), origin, is_built_in=own is not None
    )


def _read_mode(value: object, origin: str) -> str:
    """Parse a mode by name, in any case; auto if none is named."""
    if value is None:
        return MODES[0]
    if isinstance(value, str) and value.lower() in MODES:
        return value.lower()
    raise BadDataError(f"{origin}: unknown default_mode {value!r}", hint=f"one of: {', '.join(MODES)}")


def _read_flags(table: Mapping[str, Any], scheduler: str, mode: str, origin: str) -> tuple[str, ...] | None:
    scheds = table.get("scheds", {})
    entry = scheds.get(scheduler, {}) if isinstance(scheds, dict) else scheds
    flags = entry.get(f"{mode}_mode") if isinstance(entry, dict) else entry
    if flags is None:
        return None
    if isinstance(flags, list) and all(isinstance(flag, str) for flag in flags):
        return tuple(flags)
    raise BadDataError(f"{origin}: scheds.{scheduler}.{mode}_mode is not a list of texts")


@contextmanager
def replace_loader(root: Path, progress: ProgressReporter) -> Iterator[None]:
    """Stop and disable scx_loader; if what is to take its place does not come, it is as it was before."""
    from schedkit.host.systemd import call

    running = is_running(root, LOADER)
    enabled = any(os.path.lexists(root / f"etc/systemd/system/{one}.wants/{LOADER}") for one in _TARGETS)
    back = [*([("enable", "--quiet")] if enabled else []), *([("start",)] if running else [])]
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
