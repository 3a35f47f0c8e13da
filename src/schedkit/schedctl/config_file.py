"""The configuration file: TOML, a handful of keys, and a place in the file for every complaint."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from schedkit.errors import BadDataError
from schedkit.images.catalog_document import MODES, is_mode
from schedkit.images.reference import is_mirror, is_registry, is_url
from schedkit.runtimes.known import DRIVERS
from schedkit.schedctl.settings import AUTO

KEYS = ("driver", "socket", "catalogs", "insecure-registries", "mirrors", "ca-file", "trust-policy", "modes")
REGISTRY_HINT = "HOST[:PORT], without https:// and without a path"


class FileSettings(NamedTuple):
    """What one configuration file says."""

    driver: str | None = None
    socket: str | None = None
    catalogs: tuple[str, ...] = ()
    insecure_registries: tuple[str, ...] = ()
    mirrors: Mapping[str, tuple[str, ...]] = {}
    ca_file: str | None = None
    trust_policy: str | None = None
    modes: Mapping[str, Mapping[str, tuple[str, ...]]] = {}  # by scheduler and mode: flags


def parse_config(text: str, origin: str) -> FileSettings:
    """Read a configuration file's text; `origin` is its name for people."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        end = f"at line {text.count(chr(10)) + 1}, the end of the file"
        what = str(error).replace("at end of document", end)
        raise BadDataError(f"{origin}: not TOML: {what}", hint="fix the file, or move it away") from error
    except RecursionError as error:
        raise BadDataError(f"{origin}: nested too deeply", hint="fix the file, or move it away") from error
    return _Reader(text, origin, table).read()


class _Reader:
    """Takes values out of the table, each of the type it must have."""

    def __init__(self, text: str, origin: str, table: Mapping[str, object]) -> None:
        self._text = text
        self._origin = origin
        self._table = table

    def read(self) -> FileSettings:
        for key in self._table:
            if key not in KEYS:
                raise self._complaint(key, "unknown key", f"known keys: {', '.join(KEYS)}")
        driver = self._word("driver")
        if driver is not None and driver not in (AUTO, *DRIVERS):
            raise self._complaint("driver", f"unknown driver {driver!r}", f"one of: {', '.join((AUTO, *DRIVERS))}")
        socket = self._word("socket")
        if socket and driver in (None, AUTO):
            raise self._complaint("socket", "does not say which runtime listens there", 'driver = "podman" beside it')
        return FileSettings(
            driver=driver,
            socket=socket,
            catalogs=tuple(
                one if is_url(one) else self._resolve(one)
                for one in self._words("catalogs", self._table.get("catalogs", []))
            ),
            insecure_registries=self._registries("insecure-registries"),
            mirrors=self._mirrors(),
            ca_file=self._path("ca-file"),
            trust_policy=self._path("trust-policy"),
            modes=self._modes(),
        )

    def _modes(self) -> dict[str, dict[str, tuple[str, ...]]]:
        value = self._table.get("modes", {})
        example = '[modes.scx_lavd] and below it: gaming = ["--performance"]'
        if not isinstance(value, dict):
            raise self._complaint("modes", "must be a table", example)
        for scheduler, modes in value.items():
            if not isinstance(modes, dict):
                raise self._complaint(scheduler, "must be a table", example)
            for mode, flags in modes.items():
                if not is_mode(mode, flags):
                    what = "must be a list of flags" if mode in MODES else f"is not a mode: {', '.join(MODES)}"
                    raise self._complaint(mode, what, example)
        return {scheduler: {mode: tuple(flags) for mode, flags in modes.items()} for scheduler, modes in value.items()}

    def _mirrors(self) -> dict[str, tuple[str, ...]]:
        value = self._table.get("mirrors", {})
        if not isinstance(value, dict):
            raise self._complaint(
                "mirrors", "must be a table", '[mirrors] and below it: "ghcr.io" = ["mirror.example"]'
            )
        return {registry: self._mirrors_of(registry, mirrors) for registry, mirrors in value.items()}

    def _mirrors_of(self, registry: str, value: object) -> tuple[str, ...]:
        if not is_registry(registry):
            raise self._complaint(registry, "is not a registry", REGISTRY_HINT)
        mirrors = self._words(registry, value)
        for mirror in mirrors:
            if not is_mirror(mirror):
                raise self._complaint(registry, f"{mirror!r} is not a mirror", "HOST[:PORT][/PATH], without https://")
        return mirrors

    def _registries(self, key: str) -> tuple[str, ...]:
        names = self._words(key, self._table.get(key, []))
        for name in names:
            if not is_registry(name):
                raise self._complaint(key, f"{name!r} is not a registry", REGISTRY_HINT)
        return names

    def _word(self, key: str) -> str | None:
        value = self._table.get(key)
        if value is None or (isinstance(value, str) and value):
            return value
        raise self._complaint(key, "must be a text", f'{key} = "…"')

    def _path(self, key: str) -> str | None:
        value = self._word(key)
        return self._resolve(value) if value else None

    def _resolve(self, path: str) -> str:
        """Resolve a path from the file's own folder, wherever the command is run."""
        return str(Path(self._origin).parent / path)

    def _words(self, key: str, value: object) -> tuple[str, ...]:
        if isinstance(value, list) and all(isinstance(word, str) and word for word in value):
            return tuple(value)
        raise self._complaint(key, "must be a list of texts", f'{key} = ["…"]')

    def _complaint(self, key: str, what: str, hint: str) -> BadDataError:
        name = re.escape(key)
        found = re.search(rf"""^\s*\[?\s*["']?{name}["']?\s*[\]=.]""", self._text, re.MULTILINE)
        line = self._text.count("\n", 0, found.end()) + 1 if found else 1
        return BadDataError(f"{self._origin}, line {line}: {key}: {what}", hint=hint)
