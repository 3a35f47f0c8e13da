"""Verdicts kept for when there is no network: accepted ones only, each sealed with a key of this user."""

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedkit.images.image import Image
from schedkit.images.reference import Reference
from schedkit.trust.kept_images import decode_image, encode_image
from schedkit.trust.model import Format, How, LogEntry, Signature, Verdict

if TYPE_CHECKING:
    from schedkit.images.registry import Registry

FOLDER = "verdicts"
ABOUT = ("repository", "digest", "manifest", "policy")  # what makes a verdict one of its own
KEY = "key"
KEY_BYTES = 32
LARGEST = 32 << 20
MOST_SEARCHED = 5000


def write_verdict(cache: Path, image: Image, verdict: Verdict) -> None:
    """Keep a verdict and what it is about, in one step; OSError where that is not possible."""
    folder = cache / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = _read_private(folder / KEY) or _make_key(folder / KEY)
    sealed = asdict(verdict) | {"repository": image.repository, "image": encode_image(image)}
    content = json.dumps(sealed, default=_encode, sort_keys=True)
    path = folder / _name(image, verdict.policy)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(json.dumps({"verdict": content, "seal": _seal(key, content)}))
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def read_verdict(cache: Path, image: Image, policy: str) -> Verdict | None:
    """What was found before for this manifest and this policy; None also where it was touched by anybody else."""
    fields = _read_sealed(cache / FOLDER, cache / FOLDER / _name(image, policy))
    # The name of the file says what it is about, and anybody can rename a file.
    if fields is None or [fields[name] for name in ABOUT] != _about(image, policy):
        return None
    return _decode(fields)


def read_image(cache: Path, registry: "Registry", reference: Reference) -> Image | None:
    """The image that a reference meant when it was last verified here."""
    newest: Mapping[str, Any] | None = None
    for path in sorted((cache / FOLDER).glob("*.json"))[:MOST_SEARCHED]:
        fields = _read_sealed(cache / FOLDER, path)
        if fields is None or fields["repository"] != reference.repository:
            continue
        is_meant = fields["digest"] == reference.digest if reference.digest else fields["reference"] == str(reference)
        if is_meant and (newest is None or newest["at"] < fields["at"]):
            newest = fields
    return decode_image(newest["image"], registry, reference) if newest else None


def _read_sealed(folder: Path, path: Path) -> Mapping[str, Any] | None:
    """What we once wrote to a file; None where it is not there, or not as we left it."""
    key, data = _read_private(folder / KEY), _read_private(path)
    if not key or len(key) != KEY_BYTES or not data:
        return None
    try:
        document = json.loads(data)
        content = document["verdict"]
        if not hmac.compare_digest(_seal(key, content), document["seal"]):
            return None
        fields: Mapping[str, Any] = json.loads(content)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    # Sealed by us; but an older version may have written less.
    return fields if all(name in fields for name in ABOUT) else None


def _about(image: Image, policy: str) -> list[str]:
    return [image.repository, image.digest, image.manifest.digest, policy]


def _name(image: Image, policy: str) -> str:
    return f"{hashlib.sha256(json.dumps(_about(image, policy)).encode()).hexdigest()}.json"


def _seal(key: bytes, content: str) -> str:
    return hmac.new(key, content.encode(), "sha256").hexdigest()


def _read_private(path: Path) -> bytes | None:
    """The bytes of a file that is ours, and that nobody else may write."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            state = os.fstat(file.fileno())
            if state.st_uid != os.geteuid() or state.st_mode & 0o022:
                return None
            return file.read(LARGEST)
    except OSError:
        return None


def _make_key(path: Path) -> bytes:
    path.unlink(missing_ok=True)  # whatever is there, it is no key of ours
    key = secrets.token_bytes(KEY_BYTES)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(key)
    return key


def _encode(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(type(value).__name__)


def _decode(fields: Mapping[str, Any]) -> Verdict:
    signatures = tuple(
        Signature(
            one["who"],
            How(one["how"]),
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
        fields["rule"],
        signatures,
        at,
        from_cache=True,
    )


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
