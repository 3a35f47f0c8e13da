"""The settings in effect, each with where it comes from."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from schedkit.runtimes.known import DRIVERS
from schedkit.schedctl import settings as sources
from schedkit.schedctl.config_file import KEYS, FileSettings
from schedkit.schedctl.settings import AUTO, Flags, find_user_file, read_file, read_switch

TABLES = ("mirrors", "modes")
LISTS = ("catalogs", "insecure-registries")
ALLOW_UNSIGNED = "allow-unsigned"  # by flag and variable only: no file may say it for all commands
SHOWN = (*KEYS, ALLOW_UNSIGNED)

Value = str | tuple[str, ...] | bool | None


class Origin(NamedTuple):
    """Where a value comes from: flag, environment, user, system or default, and its name there."""

    kind: str
    source: str | None = None


class Setting(NamedTuple):
    """One key, or one entry of a table; what is merged from several sources is there once for each."""

    key: str
    value: Value
    origin: Origin


class _Source(NamedTuple):
    """What one source says, by key."""

    origins: Mapping[str, Origin]
    values: Mapping[str, Value]


DEFAULT = Origin("default")


def read_effective(flags: Flags, environ: Mapping[str, str]) -> list[Setting]:
    """All settings in the order of KEYS, the source that counts most first."""
    said = [_read_flags(flags), _read_environment(environ), *_read_files(environ)]
    (driver,) = _find("driver", said)
    sockets = [*(one for one in said if _is_socket_of(driver.value, one)), _read_runtime(driver.value, environ)]
    return [one for key in SHOWN for one in _find(key, sockets if key == "socket" else said)]


def _is_socket_of(driver: Value, source: _Source) -> bool:
    """Whether the socket that a source names is the driver's: a file's is that of the driver which the file names."""
    return source.values.get("driver", driver) == driver


def _read_runtime(driver: Value, environ: Mapping[str, str]) -> _Source:
    """The variable by which the runtime's own tools take another socket; anything else that names one goes first."""
    known = DRIVERS.get(str(driver))
    return _make("environment", {"socket": (known.variable, environ.get(known.variable))} if known else {})


def _find(key: str, said: list[_Source]) -> Iterator[Setting]:
    """The first source that says something; of tables the first for each entry, of lists all."""
    found: dict[str, Setting] = {}
    for number, source in enumerate(said):
        for name, value in source.values.items():
            if name != key and not (key in TABLES and name.startswith(f"{key}.")):
                continue
            entry = f"{name} {number}" if key in LISTS else strip_prefix(name)
            found.setdefault(entry, Setting(name, value, source.origins[name]))
    if not found:
        default: Value = AUTO if key == "driver" else False if key == ALLOW_UNSIGNED else None
        yield Setting(key, default, DEFAULT)
    yield from found.values()


def strip_prefix(key: str) -> str:
    """A key of one form for [modes.lavd] and [modes.scx_lavd], which are the same scheduler's."""
    return key.replace("modes.scx_", "modes.", 1) if key.startswith("modes.scx_") else key


def _read_flags(flags: Flags) -> _Source:
    named: dict[str, tuple[str, Value]] = {
        "driver": ("--driver", flags.driver),
        "socket": ("--socket", flags.socket),
        "catalogs": ("--catalog", flags.catalogs),
        "insecure-registries": ("--insecure-registry", flags.insecure_registries),
    }
    return _make("flag", named)


def _read_environment(environ: Mapping[str, str]) -> _Source:
    catalogs = sources.split_words(environ.get("SCHEDCTL_CATALOG", ""))
    named: dict[str, tuple[str, Value]] = {
        "driver": ("SCHEDCTL_DRIVER", environ.get("SCHEDCTL_DRIVER")),
        "catalogs": ("SCHEDCTL_CATALOG", tuple(catalogs)),
        "trust-policy": ("SCHEDCTL_TRUST_POLICY", environ.get("SCHEDCTL_TRUST_POLICY")),
        ALLOW_UNSIGNED: ("SCHEDCTL_ALLOW_UNSIGNED", read_switch(environ, "SCHEDCTL_ALLOW_UNSIGNED")),
    }
    return _make("environment", named)


def _read_files(environ: Mapping[str, str]) -> Iterator[_Source]:
    for kind, path in (("user", find_user_file(environ)), ("system", sources.SYSTEM_FILE)):
        file = read_file(path)
        if file:
            yield _read_one(kind, path, file)


def _read_one(kind: str, path: Path, file: FileSettings) -> _Source:
    values: dict[str, Value] = {
        "driver": file.driver,
        "socket": file.socket,
        "catalogs": file.catalogs,
        "insecure-registries": file.insecure_registries,
        "ca-file": file.ca_file,
        "trust-policy": file.trust_policy,
        **{f"mirrors.{registry}": mirrors for registry, mirrors in file.mirrors.items()},
        **{f"modes.{name}.{mode}": flags for name, modes in file.modes.items() for mode, flags in modes.items()},
    }
    return _make(kind, {key: (str(path), value) for key, value in values.items()})


def _make(kind: str, named: Mapping[str, tuple[str, Value]]) -> _Source:
    """What is said of these, without what is not; a mode may well be without any flag."""
    said = {key: one for key, one in named.items() if one[1] or (key.startswith("modes.") and one[1] is not None)}
    return _Source(
        {key: Origin(kind, source) for key, (source, _) in said.items()},
        {key: value for key, (_, value) in said.items()},
    )
