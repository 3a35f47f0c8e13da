"""Catalogs behind URLs: fetched with ETag, and kept as the last copy that was good."""

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from schedkit.errors import BadDataError, NotFoundError, SchedkitError, UnavailableError, UsageError
from schedkit.images.catalog_document import LARGEST, parse_catalog
from schedkit.images.settings import RegistrySettings

LONGEST_ETAG = 512


@dataclass(frozen=True)
class Copy:
    """A catalog as its server sent it."""

    data: bytes
    etag: str = ""


def fetch_copy(url: str, settings: RegistrySettings, known: Copy | None) -> Copy:
    """The catalog as it is now, checked; `known` itself if the server says that nothing changed."""
    from schedkit.images.transport import Transport

    _check_url(url, settings)
    about = f"the catalog {url}"
    headers = {"Accept": "application/json"} | ({"If-None-Match": known.etag} if known and known.etag else {})
    transport = Transport(settings)
    try:
        answer = transport.fetch(url, about=about, limit=LARGEST, headers=headers)
    finally:
        transport.close()
    if answer.status == 304 and known:
        return known
    if answer.status != 200:
        raise _explain(answer.status, about)
    parse_catalog(answer.body, url)
    etag = answer.headers.get("ETag", "")
    usable = etag.isascii() and etag.isprintable() and len(etag) <= LONGEST_ETAG
    return Copy(answer.body, etag if usable else "")


def read_copy(url: str, cache: Path) -> Copy | None:
    """The last good copy; None if there is none, or none that is whole."""
    try:
        document = json.loads(_path(url, cache).read_bytes())
        copy = Copy(document["data"].encode(), document["etag"])
        if document["url"] != url or not isinstance(copy.etag, str):
            return None
        parse_catalog(copy.data, url)
    except (OSError, ValueError, RecursionError, TypeError, KeyError, AttributeError, BadDataError):
        return None
    return copy


def write_copy(url: str, cache: Path, copy: Copy) -> None:
    """Keep a copy: the old one, whole, or the new one, whole, and nothing between."""
    import tempfile

    path = _path(url, cache)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".", dir=path.parent)
    try:
        with os.fdopen(handle, "w") as file:
            json.dump({"url": url, "etag": copy.etag, "data": copy.data.decode()}, file)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(name).unlink()
        raise


def _path(url: str, cache: Path) -> Path:
    from hashlib import sha256

    return cache / "catalogs" / f"{sha256(url.encode()).hexdigest()[:32]}.json"


def _check_url(url: str, settings: RegistrySettings) -> None:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.username is not None or not url.isprintable() or " " in url:
        raise UsageError(f"{url!r} is not the URL of a catalog", hint="https://HOST/PATH, without a user or password")
    if parts.scheme == "http" and not settings.may_be_plain(parts.netloc):
        raise UsageError(
            f"the catalog {url} is behind plain HTTP, where anybody on the way can change it",
            hint=f"take https, or allow it with --insecure-registry {parts.netloc}",
        )


def _explain(status: int, about: str) -> SchedkitError:
    if status in (404, 410):
        return NotFoundError(f"{about} does not exist")
    if status == 429 or status >= 500:
        return UnavailableError(f"{about}: its server has a failure (HTTP {status})")
    return BadDataError(f"{about}: its server answers with HTTP {status}")
