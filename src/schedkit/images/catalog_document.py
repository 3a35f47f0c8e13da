"""A catalog's JSON, checked: {"NAME": {"imageURI": "REGISTRY/PATH", "description": "…"}}.

Beside these an entry may say what it is good for ("goodFor"), which flags it takes for a purpose ("modes"), and that it
is not for everybody to see ("hidden").
"""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from schedkit.errors import BadDataError, UsageError
from schedkit.images.reference import Reference, parse_reference

LARGEST = 1 << 20
MOST_ENTRIES = 5000
LONGEST_DESCRIPTION = 500
MODES = ("auto", "gaming", "lowlatency", "powersave", "server")
MOST_FLAGS = 50
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class CatalogEntry(NamedTuple):
    """One scheduler."""

    name: str
    image: Reference  # without tag or digest, unless the catalog pins one
    description: str = ""
    origin: str = ""  # which catalog it came from: `built-in`, a path, a URL
    good_for: str = ""
    modes: Mapping[str, tuple[str, ...]] = {}  # flags by mode; those that are missing have none
    hidden: bool = False


def parse_catalog(data: bytes, origin: str) -> dict[str, CatalogEntry]:
    """All entries, or BadDataError: a catalog is right as a whole or not used."""
    if len(data) > LARGEST:
        raise BadDataError(f"the catalog {origin} has more than {LARGEST} bytes")
    try:
        document = json.loads(data, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise BadDataError(f"the catalog {origin} is incomplete, or not JSON: {error}") from error
    if not isinstance(document, dict):
        raise BadDataError(f"the catalog {origin} is not an object of names")
    if len(document) > MOST_ENTRIES:
        raise BadDataError(f"the catalog {origin} has more than {MOST_ENTRIES} entries")
    return {name: _parse_entry(name, entry, origin) for name, entry in document.items()}


def _parse_entry(name: str, entry: object, origin: str) -> CatalogEntry:
    def wrong(why: str) -> BadDataError:
        return BadDataError(f"the catalog {origin}: the entry {name[:64]!r} {why}")

    if not _NAME.fullmatch(name):
        raise wrong("has an invalid name: letters, digits, `_`, `.` and `-`, at most 64")
    if not isinstance(entry, dict) or not isinstance(entry.get("imageURI"), str):
        raise wrong("has no imageURI")
    try:
        image = parse_reference(entry["imageURI"], default_tag=None)
    except UsageError as error:
        raise wrong(f"has an imageURI that is not an image: {error.hint}") from error
    for key in ("description", "goodFor"):
        text = entry.get(key, "")
        if not isinstance(text, str) or not text.isprintable() or len(text) > LONGEST_DESCRIPTION:
            raise wrong(f"has a {key} that is not one line of text of at most {LONGEST_DESCRIPTION} characters")
    if not isinstance(entry.get("hidden", False), bool):
        raise wrong("has a hidden that is neither true nor false")
    modes = entry.get("modes", {})
    if not isinstance(modes, dict) or not all(is_mode(mode, flags) for mode, flags in modes.items()):
        raise wrong(f"has modes that are not lists of flags by one of: {', '.join(MODES)}")
    return CatalogEntry(
        name,
        image,
        entry.get("description", ""),
        origin,
        entry.get("goodFor", ""),
        {mode: tuple(flags) for mode, flags in modes.items()},
        entry.get("hidden", False),
    )


def is_mode(mode: str, flags: object) -> bool:
    """Whether this is a mode that is known, and flags that a command line can have."""
    return (
        mode in MODES
        and isinstance(flags, list)
        and len(flags) <= MOST_FLAGS
        and all(isinstance(flag, str) and flag.isprintable() and 0 < len(flag) <= 1000 for flag in flags)
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two meanings for one name are a fault, not a choice for the reader."""
    table = dict(pairs)
    if len(table) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice[:64]!r} is there twice")
    return table
