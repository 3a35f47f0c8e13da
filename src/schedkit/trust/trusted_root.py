"""A sigstore trusted root: the certificate authorities, logs and timestamp authorities that are trusted."""

import hashlib
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from schedkit.trust.errors import PolicyError
from schedkit.trust.keys import KeyProblem, check_key, load_key
from schedkit.trust.reading import Fields, MalformedError, parse_object

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from schedkit.trust.keys import PublicKey

PREFIX = "application/vnd.dev.sigstore.trustedroot"
LARGEST = 1 << 20
MOST = 64  # of each thing in it

T = TypeVar("T")


class Period(NamedTuple):
    """The time in which something is trusted; None: no such limit."""

    start: datetime | None
    end: datetime | None

    def holds(self, at: datetime) -> bool:
        return (self.start is None or self.start <= at) and (self.end is None or at <= self.end)


class Log(NamedTuple):
    """A transparency log, of signatures (Rekor) or of certificates (CT log)."""

    id: bytes
    url: str
    key: "PublicKey"
    period: Period


class Authority(NamedTuple):
    """Who issues certificates, or timestamps: its chain from the issuer up to the root."""

    chain: "tuple[Certificate, ...]"
    period: Period


class TrustedRoot(NamedTuple):
    """Everything a check of keyless signatures starts from."""

    origin: str
    digest: str  # of its bytes
    logs: tuple[Log, ...]
    certificate_logs: tuple[Log, ...]
    needs_sct: bool  # it names CT logs, whether we can read them or not
    authorities: tuple[Authority, ...]
    timestamp_authorities: tuple[Authority, ...]
    left_out: tuple[str, ...] = ()  # what of it cannot be used, and why


def parse_trusted_root(data: bytes, origin: str) -> TrustedRoot:
    """Read trusted_root.json; PolicyError where it is not one.

    A log or authority that cannot be read is left out: when the public root gets one of a new kind, the others go on.
    """
    try:
        if len(data) > LARGEST:
            raise MalformedError(f"it has more than {LARGEST} bytes")
        document = parse_object(data, "it")
        kind = document.text("mediaType")
        if not kind.startswith(PREFIX):
            raise MalformedError(f"it is of a kind that we do not know: {kind[:100]!r}")
        left_out: list[str] = []

        def parse(name: str, read: Callable[[Fields], T]) -> tuple[T, ...]:
            return tuple(_parse_each(document, name, read, left_out))

        root = TrustedRoot(
            origin,
            f"sha256:{hashlib.sha256(data).hexdigest()}",
            parse("tlogs", _parse_signature_log),
            parse("ctlogs", _parse_log),
            any(True for _ in document.each("ctlogs", MOST)),
            parse("certificateAuthorities", _parse_authority),
            parse("timestampAuthorities", _parse_authority),
            tuple(left_out),
        )
        if left_out and not root.logs and not root.authorities:
            raise MalformedError("; ".join(left_out[:3]))
    except MalformedError as error:
        raise PolicyError(
            f"the trusted root {origin} cannot be used: {error}", hint="it must be a trusted_root.json of sigstore"
        ) from error
    return root


def _parse_each(document: Fields, name: str, read: Callable[[Fields], T], left_out: list[str]) -> Iterator[T]:
    for number, one in enumerate(document.each(name, MOST)):
        try:
            yield read(one)
        except (MalformedError, KeyProblem) as error:
            left_out.append(f"{name}[{number}] cannot be read: {error}")


def _parse_log(log: Fields) -> Log:
    from cryptography.exceptions import UnsupportedAlgorithm

    key = log.inner("publicKey")
    try:
        public = check_key(load_key(key.bytes("rawBytes")))
    except (MalformedError, KeyProblem):
        raise
    except (ValueError, UnsupportedAlgorithm) as error:
        raise MalformedError(f"its key cannot be used: {error}") from error
    url = log.text("baseUrl") if log.has("baseUrl") else ""
    return Log(log.inner("logId").bytes("keyId"), url, public, _parse_period(key))


def _parse_signature_log(log: Fields) -> Log:
    """A Rekor: from when on it is trusted must be said, as what it logs has no other time to be held against."""
    found = _parse_log(log)
    if found.period.start is None:
        raise MalformedError("its key has no validFor.start")
    return found


def _parse_authority(authority: Fields) -> Authority:
    from cryptography.x509 import InvalidVersion, load_der_x509_certificate

    certificates = authority.inner("certChain").each("certificates", MOST)
    try:
        chain = tuple(load_der_x509_certificate(one.bytes("rawBytes")) for one in certificates)
    except MalformedError:
        raise
    except (ValueError, InvalidVersion) as error:
        raise MalformedError("its certificate cannot be read") from error
    if not chain:
        raise MalformedError("it has no certificate")
    return Authority(chain, _parse_period(authority))


def _parse_period(owner: Fields) -> Period:
    if not owner.has("validFor"):
        return Period(None, None)
    period = owner.inner("validFor")
    if not period.has("start"):
        raise MalformedError("its validFor has no start")
    return Period(*(_parse_time(period.text(name)) if period.has(name) else None for name in ("start", "end")))


def _parse_time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise MalformedError(f"{text[:40]!r} is not a time") from error
    if time.tzinfo is None:
        raise MalformedError(f"{text[:40]!r} is a time without a zone")
    return time
