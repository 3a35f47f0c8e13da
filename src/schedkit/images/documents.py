"""Manifests, indexes, configurations and lists, from a registry's bytes to checked values."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from schedkit.errors import BadDataError
from schedkit.images.image import Platform
from schedkit.images.oci import INDEXES, MANIFESTS, Descriptor
from schedkit.images.reference import is_digest, is_tag

SCHEMA_1 = (
    "application/vnd.docker.distribution.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v1+prettyjws",
)
IMAGE_CONFIGS = ("application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json")

# The fields of manifests, indexes and what is in them, by their name without case.
FIELDS = {
    name.casefold(): name
    for name in (
        *("schemaVersion", "mediaType", "artifactType", "config", "layers", "manifests", "subject", "annotations"),
        *("digest", "size", "urls", "data", "platform"),
        *("os", "architecture", "variant", "os.version", "os.features", "features"),
    )
}
LARGEST_BLOB = 64 << 30
MOST_OF_A_TIME = 64  # characters
MOST_ENTRIES = 1000  # layers of a manifest, manifests of an index


class Annotated(NamedTuple):
    """A descriptor with what its document says about it."""

    media_type: str
    digest: str
    size: int
    artifact_type: str = ""
    annotations: Mapping[str, str] = {}
    platform: Platform | None = None

    @property
    def bare(self) -> Descriptor:
        """Just what identifies the content."""
        return Descriptor(self.media_type, self.digest, self.size)


class Manifest(NamedTuple):
    """One image or artefact."""

    config: Descriptor
    layers: tuple[Annotated, ...]
    artifact_type: str = ""
    annotations: Mapping[str, str] = {}


class Index(NamedTuple):
    """Manifests, usually one for each platform."""

    manifests: tuple[Annotated, ...]


class Config(NamedTuple):
    """What an image says of itself."""

    platform: Platform
    labels: Mapping[str, str]
    created: str = ""  # as it is written there, which is nobody's promise


def make_digest(data: bytes, algorithm: str = "sha256") -> str:
    """The digest of these bytes."""
    return f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}"


def check_digest(data: bytes, digest: str, about: str) -> None:
    """BadDataError unless these bytes have this digest."""
    actual = make_digest(data, digest.partition(":")[0])
    if actual != digest:
        raise BadDataError(f"{about}: {digest} was asked for and bytes with {actual} came")


def parse_document(media_type: str, data: bytes, about: str) -> Manifest | Index:
    """A manifest or an index, as its media type says; one that could be read as both is refused."""
    document = _load(data, about)
    _check_names(document, about)
    if media_type in SCHEMA_1 or document.get("schemaVersion") == 1:
        raise BadDataError(
            f"{about} is in the old schema 1 of manifests, which has no digest to hold on to",
            hint="push it again with a tool from after 2017",
        )
    if document.get("mediaType", media_type) != media_type or ("manifests" in document) == ("layers" in document):
        raise BadDataError(f"{about}: a manifest that does not say clearly what it is")
    if media_type in INDEXES:
        return Index(tuple(_descriptor(entry, about) for entry in _list(document, "manifests", about)))
    if media_type in MANIFESTS:
        return Manifest(
            config=_descriptor(document.get("config"), about).bare,
            layers=tuple(_descriptor(entry, about) for entry in _list(document, "layers", about)),
            artifact_type=_text(document, "artifactType", about),
            annotations=_texts(document, "annotations", about),
        )
    raise BadDataError(f"{about}: {media_type[:100]!r} is not a kind of manifest that we know")


def find_media_type(data: bytes, content_type: str, about: str) -> str:
    """What a document says it is; the header counts where it is silent, as OCI allows."""
    said = _load(data, about).get("mediaType")
    if isinstance(said, str) and said:
        return said
    return content_type.partition(";")[0].strip().lower()


def parse_config(data: bytes, about: str) -> Config:
    """An image's configuration."""
    document = _load(data, about)
    platform = _platform(document, about)
    inner = document.get("config") or {}
    if platform is None or not isinstance(inner, dict):
        raise BadDataError(f"{about}: its configuration does not say which platform it is for")
    labels = _texts(inner, "Labels", about)
    created = document.get("created")
    return Config(
        platform,
        {_printable(name): _printable(value) for name, value in labels.items()},
        _printable(created[:MOST_OF_A_TIME]) if isinstance(created, str) else "",
    )


def parse_tags(data: bytes, about: str) -> list[str]:
    """One page of a list of tags."""
    tags = _load(data, about).get("tags")
    if tags is None:
        return []
    if not isinstance(tags, list) or not all(isinstance(tag, str) and is_tag(tag) for tag in tags):
        raise BadDataError(f"{about}: the list of tags has something in it that is not a tag")
    return tags


def _load(data: bytes, about: str) -> dict[str, Any]:
    try:
        document = json.loads(data, object_pairs_hook=_unique)
    except _TwiceError as error:
        raise BadDataError(f"{about}: the registry sent JSON with the key {error.args[0]!r} twice") from error
    except (ValueError, RecursionError) as error:
        raise BadDataError(f"{about}: the registry sent something that is not JSON, or only a part of it") from error
    if not isinstance(document, dict):
        raise BadDataError(f"{about}: the registry sent JSON that is not an object")
    return document


class _TwiceError(Exception):
    """A key is in an object twice; which one counts, each reader decides for itself."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for name, value in pairs:
        if name in table:
            raise _TwiceError(name[:40])
        table[name] = value
    return table


def _check_names(document: dict[str, Any], about: str) -> None:
    """Refuse keys that Go takes for another: it ignores case and keeps the last, so `Manifests` hides `manifests`."""
    left: list[object] = [document]
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += value
        if not isinstance(value, dict):
            continue
        seen = set()
        for name, inner in value.items():
            folded = name.casefold()
            if folded in seen or FIELDS.get(folded, name) != name:
                raise BadDataError(f"{about}: the key {name[:40]!r} differs from another only in case")
            seen.add(folded)
            if name != "annotations":  # its keys are free, and compared exactly by everybody
                left.append(inner)


def _descriptor(entry: object, about: str) -> Annotated:
    if not isinstance(entry, dict):
        raise BadDataError(f"{about}: a descriptor is missing or not an object")
    media_type, digest, size = entry.get("mediaType"), entry.get("digest"), entry.get("size")
    if not isinstance(media_type, str) or not media_type.isprintable() or len(media_type) > 255:
        raise BadDataError(f"{about}: a descriptor without a media type")
    if not isinstance(digest, str) or not is_digest(digest):
        raise BadDataError(f"{about}: a descriptor whose digest cannot be checked: {str(digest)[:100]!r}")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= LARGEST_BLOB:
        raise BadDataError(f"{about}: {digest} with an invalid size: {str(size)[:30]}")
    platform = entry.get("platform")
    return Annotated(
        media_type,
        digest,
        size,
        artifact_type=_text(entry, "artifactType", about),
        annotations=_texts(entry, "annotations", about),
        platform=_platform(platform, about) if isinstance(platform, dict) else None,
    )


def _platform(document: dict[str, Any], about: str) -> Platform | None:
    """The platform, or None if there is none; words that are no words are refused, as they get printed."""
    parts = [_text(document, name, about) for name in ("os", "architecture", "variant")]
    if not all(len(part) <= 64 and part.isprintable() for part in parts):
        raise BadDataError(f"{about}: an invalid platform")
    return Platform(*parts) if parts[0] and parts[1] else None


def _printable(text: str) -> str:
    """Labels are for people: what could change a terminal, or cannot be written to one, is taken out."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "�" for letter in text)


def _list(document: dict[str, Any], name: str, about: str) -> list[object]:
    entries = document.get(name)
    if not isinstance(entries, list):
        raise BadDataError(f"{about}: {name} is not a list")
    if len(entries) > MOST_ENTRIES:
        raise BadDataError(f"{about}: more than {MOST_ENTRIES} {name}")
    return entries


def _text(document: dict[str, Any], name: str, about: str) -> str:
    value = document.get(name) or ""
    if not isinstance(value, str):
        raise BadDataError(f"{about}: {name} is not text")
    return value


def _texts(document: dict[str, Any], name: str, about: str) -> dict[str, str]:
    table = document.get(name) or {}
    if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
        raise BadDataError(f"{about}: {name} are not all text")
    return table
