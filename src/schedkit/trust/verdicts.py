"""Verdicts kept for when there is no network: accepted ones only, each sealed with a key of this user."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedkit.images.image import Image, Signable
from schedkit.images.reference import Reference
from schedkit.trust.kept_images import decode_image, encode_image
from schedkit.trust.model import Format, LogEntry, Signature, SignerKind, Verdict
from schedkit.trust.sealed import SealedFolder

if TYPE_CHECKING:
    from schedkit.images.registry import Registry

FOLDER = "verdicts"
MOST_SEARCHED = 5000
ABOUT = ("repository", "digest", "manifest", "policy", "root")  # what makes a verdict one of its own


def write_verdict(cache: Path, image: Image, verdict: Verdict) -> None:
    """Keep a verdict and what it is about; OSError where that is not possible."""
    fields = verdict._asdict() | {
        "signatures": [one._asdict() | {"log": _encode_entry(one.log)} for one in verdict.signatures],
        "repository": image.repository,
        "image": encode_image(image),
    }
    content = json.dumps(fields, default=_encode, sort_keys=True)
    SealedFolder(cache / FOLDER).write(_name(image, verdict.policy, verdict.root), content)


def read_verdict(cache: Path, image: Signable, policy: str, root: str) -> Verdict | None:
    """What was found before for this manifest, policy and root; None also where anybody else touched it."""
    fields = _read(SealedFolder(cache / FOLDER), _name(image, policy, root))
    return _decode(fields) if fields else None


def read_newest_verdict(cache: Path, image: Signable, policy: str) -> Verdict | None:
    """What was last found for this manifest and policy, by whatever root."""
    about = (image.repository, image.digest, image.manifest.digest, policy)
    newest: Mapping[str, Any] | None = None
    for fields in _read_all(cache):
        found = (fields["repository"], fields["digest"], fields["manifest"], fields["policy"])
        if found == about and (newest is None or newest["at"] < fields["at"]):
            newest = fields
    return _decode(newest) if newest else None


def read_image(cache: Path, registry: "Registry", reference: Reference, policy: str) -> Image | None:
    """The image that a reference meant when it was last verified here with this policy."""
    newest: Mapping[str, Any] | None = None
    for fields in _read_all(cache):
        if (fields["repository"], fields["policy"]) != (reference.repository, policy):
            continue
        is_meant = fields["digest"] == reference.digest if reference.digest else fields["reference"] == str(reference)
        if is_meant and (newest is None or newest["at"] < fields["at"]):
            newest = fields
    return decode_image(newest["image"], registry, reference) if newest else None


def _read_all(cache: Path) -> Iterator[Mapping[str, Any]]:
    folder = SealedFolder(cache / FOLDER)
    found = (_read(folder, name) for name in folder.names()[:MOST_SEARCHED])
    return (fields for fields in found if fields)


def _read(folder: SealedFolder, name: str) -> Mapping[str, Any] | None:
    """Sealed by us; but an older version may have written less."""
    content = folder.read(name)
    fields: Mapping[str, Any] = json.loads(content) if content else {}
    return fields if all(name in fields for name in ABOUT) else None


def _name(image: Signable, policy: str, root: str) -> str:
    about = [image.repository, image.digest, image.manifest.digest, policy, root]
    return f"{hashlib.sha256(json.dumps(about).encode()).hexdigest()}.json"


def _encode_entry(entry: LogEntry | None) -> dict[str, Any] | None:
    return {"log_id": entry.log_id, "index": entry.log_index, "integrated": entry.integrated} if entry else None


def _encode(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(type(value).__name__)


def _decode(fields: Mapping[str, Any]) -> Verdict:
    signatures = tuple(
        Signature(
            one["who"],
            SignerKind(one["how"]),
            Format(one["format"]),
            _time(one["signed_at"]),
            LogEntry(one["log"]["log_id"], one["log"]["index"], _time(one["log"]["integrated"]))
            if one["log"]
            else None,
            one["on"],
        )
        for one in fields["signatures"]
    )
    at = datetime.fromisoformat(fields["at"])
    return Verdict(
        fields["digest"],
        fields["manifest"],
        fields["reference"],
        fields["policy"],
        fields["root"],
        fields["rule"],
        signatures,
        at,
        from_cache=True,
    )


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
