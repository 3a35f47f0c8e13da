"""What the user wants, from the command line, the environment and two files, in that order."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from schedkit.errors import BadDataError, NoPermissionError, NotFoundError, UsageError
from schedkit.runtimes.known import DRIVERS

if TYPE_CHECKING:
    from schedkit.schedctl.config_file import FileSettings

AUTO = "auto"
SYSTEM_FILE = Path("/etc/schedkit/config.toml")


class Flags(NamedTuple):
    """What the command line said; None and empty mean that it said nothing."""

    driver: str | None = None
    socket: str | None = None
    catalogs: tuple[str, ...] = ()
    insecure_registries: tuple[str, ...] = ()
    trust_policy: str | None = None
    allow_unsigned: bool = False
    offline: bool = False
    verbose: bool = False


class Settings(NamedTuple):
    """What counts."""

    driver: str  # auto, or one of DRIVERS
    sockets: Mapping[str, str]  # by driver: where its runtime listens, as the user says
    catalogs: tuple[str, ...]  # the first that knows a name counts
    insecure_registries: frozenset[str]
    mirrors: Mapping[str, tuple[str, ...]]
    ca_file: str | None
    trust_policy: str | None
    allow_unsigned: bool
    offline: bool
    verbose: bool
    cache: Path
    modes: Mapping[str, Mapping[str, tuple[str, ...]]] = {}  # by scheduler and mode: flags that replace the catalog's


def read_settings(flags: Flags, environ: Mapping[str, str], system_file: Path = SYSTEM_FILE) -> Settings:
    """Put together what the sources say; where several speak of the same, the nearest to the user counts."""
    user_file = find_user_file(environ)
    files = [file for file in (read_file(user_file), read_file(system_file)) if file]
    driver = flags.driver or environ.get("SCHEDCTL_DRIVER") or _first(file.driver for file in files) or AUTO
    if driver not in (AUTO, *DRIVERS):
        source = "" if flags.driver else " (from SCHEDCTL_DRIVER)"
        raise UsageError(f"unknown driver {driver!r}{source}", hint=f"one of: {', '.join((AUTO, *DRIVERS))}")
    if flags.socket and driver == AUTO:
        raise UsageError(
            "--socket does not say which runtime listens there", hint="add --driver, as in: --driver podman"
        )
    # A file's socket is that of the driver which the file names, also where another gets new containers.
    sockets = {file.driver: file.socket for file in reversed(files) if file.driver and file.socket}
    if flags.socket:
        sockets[driver] = flags.socket
    policy = flags.trust_policy or environ.get("SCHEDCTL_TRUST_POLICY") or _first(file.trust_policy for file in files)
    catalogs = (*flags.catalogs, *split_words(environ.get("SCHEDCTL_CATALOG", "")))
    return Settings(
        driver=driver,
        sockets=sockets,
        catalogs=(*catalogs, *(one for file in files for one in file.catalogs)),
        insecure_registries=frozenset(flags.insecure_registries).union(*(file.insecure_registries for file in files)),
        mirrors={name: mirrors for file in reversed(files) for name, mirrors in file.mirrors.items()},
        ca_file=_first(file.ca_file for file in files),
        trust_policy=policy,
        allow_unsigned=flags.allow_unsigned or read_switch(environ, "SCHEDCTL_ALLOW_UNSIGNED"),
        offline=flags.offline,
        verbose=flags.verbose,
        cache=_xdg(environ, "XDG_CACHE_HOME", ".cache"),
        modes=_join(file.modes for file in files),
    )


def find_user_file(environ: Mapping[str, str]) -> Path:
    """The configuration file of the user."""
    return _xdg(environ, "XDG_CONFIG_HOME", ".config") / "config.toml"


def _first(values: Iterable[str | None]) -> str | None:
    return next((value for value in values if value), None)


def _join(
    modes: Iterable[Mapping[str, Mapping[str, tuple[str, ...]]]],
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Flags of all files; of the same mode of the same scheduler, those of the first."""
    joined: dict[str, dict[str, tuple[str, ...]]] = {}
    for one in modes:
        for scheduler, flags in one.items():
            joined[scheduler] = {**flags, **joined.get(scheduler, {})}
    return joined


def _xdg(environ: Mapping[str, str], variable: str, default: str) -> Path:
    """Our folder in one of the user's; a relative path is to be ignored, as the specification says."""
    said = environ.get(variable, "")
    return Path(said if said.startswith("/") else f"{environ.get('HOME') or '/root'}/{default}") / "schedkit"


def split_words(text: str) -> list[str]:
    """What stands between commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def read_switch(environ: Mapping[str, str], name: str) -> bool:
    """Read a variable that says yes or no."""
    said = environ.get(name, "").strip().lower()
    if said in ("", "0", "false", "no", "off"):
        return False
    if said in ("1", "true", "yes", "on"):
        return True
    raise UsageError(f"{name} is {said!r}, which is neither yes nor no", hint=f"{name}=1 or {name}=0")


def read_file(path: Path) -> "FileSettings | None":
    """A file that is not there says nothing; one that cannot be read is an error, since it might say something."""
    try:
        text = path.read_bytes().decode()
    except (FileNotFoundError, NotADirectoryError) as error:
        if path.is_symlink():
            raise NotFoundError(f"{path} is a link to a file that does not exist", hint="remove the link") from error
        return None
    except PermissionError as error:
        hint = "it may contain settings: make it readable, or run this as root"
        raise NoPermissionError(f"no permission to read {path}", hint=hint) from error
    except UnicodeDecodeError as error:
        raise BadDataError(f"{path}: not UTF-8 text", hint="it must be a TOML file") from error
    except IsADirectoryError as error:
        raise BadDataError(f"{path} is a directory", hint="it must be a TOML file") from error
    from schedkit.schedctl.config_file import parse_config

    return parse_config(text, str(path))
