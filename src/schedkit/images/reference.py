"""Image references: what people write, and what it means in full."""

import re
from typing import NamedTuple

HUB = "docker.io"
HUB_ALIASES = ("index.docker.io", "registry-1.docker.io")
HTTPS_PORT = ":443"
OFFICIAL = "library/"  # where the hub keeps what has a name of one word
DEFAULT_TAG = "latest"
LONGEST_NAME = 255
DIGEST_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}

_HOST_PART = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_HOST = re.compile(rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[(?P<address>[a-fA-F0-9:]+)\])(?::(?P<port>[0-9]+))?")
_PATH_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_PATH = re.compile(rf"{_PATH_PART}(?:/{_PATH_PART})*")
_TAG = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}")
_DIGEST = re.compile(r"(?P<algorithm>[a-z0-9]+):(?P<hex>[a-f0-9]+)")
_PORT_ZEROS = re.compile(r":0+(?=[0-9]+\Z)")
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")


class Reference(NamedTuple):
    """registry/path[:tag][@digest], with nothing left implicit."""

    registry: str  # host[:port]
    path: str
    tag: str | None = None
    digest: str | None = None

    @property
    def repository(self) -> str:
        """Registry and path, without tag or digest."""
        return f"{self.registry}/{self.path}"

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.repository}{tag}{digest}"


def parse_reference(text: str, *, default_tag: str | None = DEFAULT_TAG) -> Reference:
    """Docker's rules: no registry means docker.io, one word there means library/, no tag and no digest means latest."""
    from schedkit.errors import UsageError

    def wrong(part: str, why: str) -> UsageError:
        shown = text if len(text) <= 2 * LONGEST_NAME else f"{text[: 2 * LONGEST_NAME]}…"
        return UsageError(f"{shown!r} is not an image reference", hint=f"{part}: {why}")

    if _IDENTIFIER.fullmatch(text):
        raise wrong(f"{text[:12]}…", "this is an image's id; name its repository: REGISTRY/PATH@sha256:…")
    name, at, digest = text.partition("@")
    if at and not is_digest(digest):
        raise wrong(repr(digest), _explain_digest(digest))
    head, colon, tag = name.rpartition(":")
    if colon and "/" not in tag:
        name = head
        if not is_tag(tag):
            raise wrong(repr(tag), "a tag is 1 to 128 letters, digits, `_`, `.` and `-`, and starts with no `.` or `-`")
    else:
        tag = ""
    registry, path = _split(name)
    if not is_registry(registry):
        raise wrong(repr(registry), "a registry is a host name or address, with a port if it needs one")
    if not path:
        raise wrong(repr(name), "a repository is missing: REGISTRY/PATH")
    if len(path) > LONGEST_NAME:
        raise wrong(f"{path[:40]!r}…", f"a repository's path has at most {LONGEST_NAME} characters")
    if not _PATH.fullmatch(path):
        lower = "a repository's path has no capital letters"
        rule = "a repository's path is lower case letters and digits, with `.`, `_`, `__`, `-` or `/` between them"
        raise wrong(repr(path), lower if _PATH.fullmatch(path.lower()) else rule)
    registry = normalize_registry(registry)
    if not tag and not at:
        return Reference(registry, path, default_tag)
    return Reference(registry, path, tag or None, digest or None)


def normalize_registry(registry: str) -> str:
    """One name for one registry, so that policies, logins and mirrors for it are found however it is written.

    Host names ignore case, ports ignore zeros before them, IPv6 addresses have a short form, :443 is where TLS is
    anyway, and docker's hub has several names.
    """
    from schedkit.images.settings import is_loopback

    normal = _PORT_ZEROS.sub(":", _shorten_address(registry.lower()))
    if not _is_registry(normal):
        return registry  # of one word, which only its capital letters tell from a path
    short = normal.removesuffix(HTTPS_PORT)
    # A registry of one word is told from a path by its port; one on loopback without a port is tried in plain HTTP.
    if is_loopback(normal) or not _is_registry(short):
        return normal
    return HUB if short in HUB_ALIASES else short


def _shorten_address(registry: str) -> str:
    """Write the IPv6 address in brackets, if there is one, in its one short form."""
    from ipaddress import IPv6Address

    address, bracket, rest = registry.removeprefix("[").partition("]")
    if not bracket or not registry.startswith("["):
        return registry
    try:
        return f"[{IPv6Address(address)}]{rest}"
    except ValueError:
        return registry  # it is no address, and whoever connects to it will be told


def is_registry(text: str) -> bool:
    """Whether this is a host name or an address, with a port or without."""
    host = _HOST.fullmatch(text)
    if not host or len(text) > LONGEST_NAME or int(host["port"] or 0) > 65535:
        return False
    return not host["address"] or _is_address(host["address"])


def is_mirror(text: str) -> bool:
    """Whether this is a registry, with the beginning of a path or without."""
    host, _, path = text.strip("/").partition("/")
    return is_registry(host) and (not path or bool(_PATH.fullmatch(path)))


def _is_address(text: str) -> bool:
    from ipaddress import IPv6Address

    try:
        return bool(IPv6Address(text).compressed)
    except ValueError:
        return False


def is_url(source: str) -> bool:
    """Whether a source of a catalog is a URL rather than a file."""
    return source.startswith(("http://", "https://"))


def is_digest(text: str) -> bool:
    """Whether this is a digest of a kind that we can check."""
    found = _DIGEST.fullmatch(text)
    return found is not None and len(found["hex"]) == DIGEST_LENGTHS.get(found["algorithm"])


def is_tag(text: str) -> bool:
    """Whether this can be a tag."""
    return bool(_TAG.fullmatch(text))


def _is_registry(first: str) -> bool:
    """Whether a first part is a host: it has a dot, a port, or capital letters, which no path has; or is localhost."""
    return any(mark in first for mark in ".:") or first == "localhost" or first != first.lower()


def _split(name: str) -> tuple[str, str]:
    """The registry and the path: a first part is a registry only if it looks like one, as nothing marks it."""
    first, slash, rest = name.partition("/")
    if slash and _is_registry(first):
        registry, path = first, rest
    else:
        registry, path = HUB, name
    if normalize_registry(registry) == HUB and path and "/" not in path:
        path = OFFICIAL + path
    return registry, path


def _explain_digest(text: str) -> str:
    found = _DIGEST.fullmatch(text)
    if not found:
        return "a digest is ALGORITHM:HEX, with lower case letters"
    length = DIGEST_LENGTHS.get(found["algorithm"])
    if length is None:
        return f"a digest is of {', '.join(DIGEST_LENGTHS)}"
    return f"{found['algorithm']} has {length} digits, this has {len(found['hex'])}"
