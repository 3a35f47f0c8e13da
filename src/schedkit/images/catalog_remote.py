"""Catalogs behind URLs: fetched with ETag, and kept as the last copy that was good."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from schedkit import __version__
from schedkit.errors import BadDataError, NotFoundError, SchedkitError, UnavailableError, UsageError
from schedkit.images.catalog_document import LARGEST, parse_catalog
from schedkit.images.settings import RegistrySettings

if TYPE_CHECKING:
    from schedkit.images.transport import Answer, Transport

# The project's own catalog as it is now. It is asked for by `schedctl catalog update`, and by nothing else.
PUBLISHED = "https://github.com/schedkit/schedkit/releases/download/catalog/catalog.json"
SIGNATURE_SUFFIX = ".sigstore.json"  # after a URL: where the signature of its catalog is
UPLOAD = "retry in a minute, in case a new catalog is being uploaded"
LONGEST_ETAG = 512
_PIN = "#sha256="  # after a URL: the catalog's digest, as a person read it elsewhere


class Copy(NamedTuple):
    """A catalog as its server sent it."""

    data: bytes
    etag: str = ""


FetchSignature = Callable[[int], bytes | None]  # of at most that many bytes; None if there is none
# Whether a catalog's signature is good: an error if not. Packages above this one know how to tell.
CheckSignature = Callable[[bytes, FetchSignature], None]


def fetch_copy(
    url: str, settings: RegistrySettings, known: Copy | None, check_signature: CheckSignature | None = None
) -> Copy:
    """The catalog as it is now, checked; `known` itself if the server says that nothing changed.

    The ETag is that of the catalog: its signature is fetched each time, and never kept.
    """
    from schedkit.images.transport import Transport

    address, wanted = split_pin(url)
    _check_url(address, settings)
    headers = {"Accept": "application/json"} | ({"If-None-Match": known.etag} if known and known.etag else {})
    transport = Transport(settings)
    try:
        answer = transport.fetch(address, about=f"the catalog {address}", limit=LARGEST, headers=headers)
        copy = known if known and answer.status == 304 else _read_answer(answer, address, wanted)
        if check_signature:  # of one that is unchanged, too: the policy may be another one by now
            check_signature(copy.data, lambda limit: _fetch_signature(transport, address, limit))
    finally:
        transport.close()
    return copy


def _read_answer(answer: "Answer", address: str, wanted: str) -> Copy:
    about = f"the catalog {address}"
    if answer.status != 200:
        raise _explain(answer.status, about, hint=UPLOAD if address == PUBLISHED else "")
    if wanted and _digest(answer.body) != wanted:
        raise BadDataError(
            f"{about} is not the one that was asked for: its digest is sha256:{_digest(answer.body)}",
            hint="look at what changed in it before you ask for this digest",
        )
    parse_catalog(answer.body, address)
    etag = answer.headers.get("etag", "")
    usable = etag.isascii() and etag.isprintable() and len(etag) <= LONGEST_ETAG
    return Copy(answer.body, etag if usable else "")


def _fetch_signature(transport: "Transport", address: str, limit: int) -> bytes | None:
    about = f"the signature of the catalog {address}"
    headers = {"Accept": "application/json"}
    answer = transport.fetch(f"{address}{SIGNATURE_SUFFIX}", about=about, limit=limit, headers=headers)
    if answer.status in (404, 410):
        return None
    if answer.status != 200:
        raise _explain(answer.status, about)
    return answer.body


def read_copy(url: str, cache: Path) -> Copy | None:
    """The last good copy; None if there is none, or none that is whole and ours.

    Of the published catalog, one that another version of schedctl fetched is none: the built-in one may be newer.
    """
    address, wanted = split_pin(url)
    try:
        with _path(address, cache).open("rb") as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():  # as in the home that sudo may leave in HOME
                return None
            document = json.load(file)
        copy = Copy(document["data"].encode(), document["etag"])
        if document["url"] != address or not isinstance(copy.etag, str):
            return None
        if (wanted and _digest(copy.data) != wanted) or (address == PUBLISHED and document["by"] != __version__):
            return None
        parse_catalog(copy.data, url)
    except (OSError, ValueError, RecursionError, TypeError, KeyError, AttributeError, BadDataError):
        return None
    return copy


def write_copy(url: str, cache: Path, copy: Copy) -> None:
    """Keep a copy: the old one, whole, or the new one, whole, and nothing between."""
    import tempfile

    address, _ = split_pin(url)
    path = _path(address, cache)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".", dir=path.parent)
    try:
        with os.fdopen(handle, "w") as file:
            json.dump({"url": address, "etag": copy.etag, "data": copy.data.decode(), "by": __version__}, file)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(name).unlink()
        raise


def split_pin(url: str) -> tuple[str, str]:
    """A URL, and the digest after it, in hexadecimal; empty where there is none."""
    address, mark, digest = url.partition(_PIN)
    if mark and (len(digest) != 64 or digest.strip("0123456789abcdef")):
        raise UsageError(f"{url!r} ends with a digest that is none", hint=f"URL{_PIN} and 64 lower case digits")
    return address, digest


def pin(url: str, digest: str) -> str:
    """A URL with the digest that its catalog must have: sha256:HEX."""
    return f"{split_pin(url)[0]}{_PIN}{digest.removeprefix('sha256:')}"


def _digest(data: bytes) -> str:
    from hashlib import sha256

    return sha256(data).hexdigest()


def _path(address: str, cache: Path) -> Path:
    name = "published" if address == PUBLISHED else _digest(address.encode())[:32]
    return cache / "catalogs" / f"{name}.json"


def _check_url(url: str, settings: RegistrySettings) -> None:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.username is not None or parts.fragment or not url.isprintable() or " " in url:
        raise UsageError(f"{url!r} is not the URL of a catalog", hint="https://HOST/PATH, without a user or password")
    if parts.scheme == "http" and not settings.may_be_plain(parts.netloc):
        raise UsageError(
            f"the catalog {url} is behind plain HTTP, where anybody on the way can change it",
            hint=f"take https, or allow it with --insecure-registry {parts.netloc}",
        )


def _explain(status: int, about: str, *, hint: str = "") -> SchedkitError:
    if status in (404, 410):
        return NotFoundError(f"{about} does not exist", hint=hint)
    if status == 429 or status >= 500:
        return UnavailableError(f"{about}: its server has an internal error (HTTP {status})")
    return BadDataError(f"{about}: its server answers with HTTP {status}")
