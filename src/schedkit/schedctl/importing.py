"""Another manager's flags as [modes.SCHEDULER] of the system's configuration file; what is there stays."""

import shlex
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from schedkit.images.catalog_document import is_mode
from schedkit.schedctl import settings
from schedkit.schedctl.config_edit import Modes, add_modes, change_file, read_text
from schedkit.schedctl.config_file import parse_config
from schedkit.schedctl.output import Json

_SAME = "the same flags are set already"


class ModeFlags(NamedTuple):
    """The flags of one mode of one scheduler."""

    scheduler: str
    mode: str
    flags: tuple[str, ...]
    why: str = ""  # they are not imported

    @property
    def setting(self) -> str:
        """Its key, as `schedctl config` shows it, and its value."""
        return f"modes.{self.scheduler}.{self.mode} = {shlex.join(self.flags) or '(no flags)'}"

    @property
    def fields(self) -> Json:
        """Return the fields for JSON output."""
        return {
            "scheduler": self.scheduler,
            "mode": self.mode,
            "flags": list(self.flags),
            "imported": not self.why,
            "why": self.why or None,
        }


class ImportedModes(NamedTuple):
    """What a file gets, and what it does not."""

    path: Path
    flags: tuple[ModeFlags, ...]

    @property
    def new(self) -> list[ModeFlags]:
        return [one for one in self.flags if not one.why]

    @property
    def left_out(self) -> list[ModeFlags]:
        return [one for one in self.flags if one.why not in ("", _SAME)]


def plan_modes(modes: Modes) -> ImportedModes:
    """Read the system's file; an error if it is invalid, or cannot be added to safely."""
    path = settings.SYSTEM_FILE
    flags, _ = _add(read_text(path), modes, path)
    return ImportedModes(path, flags)


def write_modes(modes: Modes) -> ImportedModes:
    """Add what is missing to the system's file."""
    planned = plan_modes(modes)
    if planned.new:
        change_file(planned.path, lambda text: _add(text, modes, planned.path)[1])
    return planned


def _add(text: str, modes: Modes, path: Path) -> tuple[tuple[ModeFlags, ...], str]:
    said = parse_config(text, str(path)).modes
    flags: list[ModeFlags] = []
    missing: dict[str, dict[str, tuple[str, ...]]] = {}
    for scheduler, own in modes.items():
        section = _find_section({*said, *missing}, scheduler)
        for mode, words in own.items():
            known = said.get(section, {}).get(mode)
            why = "" if is_mode(mode, list(words)) else "schedctl does not accept these flags"
            if known is not None:
                why = _SAME if known == words else "other flags are set already, and stay"
            flags.append(ModeFlags(scheduler, mode, words, why))
            if not why:
                missing.setdefault(section, {})[mode] = words
    edited = add_modes(text, missing, str(path))
    parse_config(edited, str(path))
    return tuple(flags), edited


def _find_section(said: Collection[str], scheduler: str) -> str:
    """The section that a file has for a scheduler, under whichever of its names; its own name if it has none."""
    short = scheduler.removeprefix("scx_")
    return next((name for name in (scheduler, short, f"scx_{short}") if name in said), scheduler)
