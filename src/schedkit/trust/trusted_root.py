"""A sigstore trusted root: the authorities, logs and clocks whose word counts."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from schedkit.trust.errors import PolicyError
from schedkit.trust.keys import KeyProblem, check_key
from schedkit.trust.reading import Fields, MalformedError, parse_object

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from schedkit.trust.keys import PublicKey

PREFIX = "application/vnd.dev.sigstore.trustedroot"
LARGEST = 1 << 20
MOST = 64  # of each thing in it


@dataclass(frozen=True)
class Period:
    """From when to when something counts; None: no end is known."""

    start: datetime | None
    end: datetime | None

    def holds(self, at: datetime) -> bool:
        return (self.start is None or self.start <= at) and (self.end is None or at <= self.end)


@dataclass(frozen=True)
class Log:
    """A log of signatures (Rekor) or of certificates (CT)."""

    id: bytes
    url: str
    key: "PublicKey" = field(repr=False, compare=False)
    period: Period


@dataclass(frozen=True)
class Authority:
    """Who issues certificates, or timestamps: its chain from the issuer up to the root."""

    chain: "tuple[Certificate, ...]"
    period: Period


@dataclass(frozen=True)
class TrustedRoot:
    """Everything a check of keyless signatures starts from."""

    origin: str
    logs: tuple[Log, ...]
    certificate_logs: tuple[Log, ...]
    authorities: tuple[Authority, ...]
    clocks: tuple[Authority, ...]


def parse_trusted_root(data: bytes, origin: str) -> TrustedRoot:
    """Read trusted_root.json; PolicyError where it is not one."""
    try:
        if len(data) > LARGEST:
            raise MalformedError(f"it has more than {LARGEST} bytes")
        document = parse_object(data, "it")
        kind = document.text("mediaType")
        if not kind.startswith(PREFIX):
            raise MalformedError(f"it is of a kind that we do not know: {kind[:100]!r}")
        return TrustedRoot(
            origin,
            tuple(_parse_log(log) for log in document.each("tlogs", MOST)),
            tuple(_parse_log(log) for log in document.each("ctlogs", MOST)),
            tuple(_parse_authority(one) for one in document.each("certificateAuthorities", MOST)),
            tuple(_parse_authority(one) for one in document.each("timestampAuthorities", MOST)),
        )
    except (MalformedError, KeyProblem) as error:
        raise PolicyError(
            f"the trusted root {origin} cannot be used: {error}", hint="it must be a trusted_root.json of sigstore"
        ) from error


def _parse_log(log: Fields) -> Log:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    key = log.inner("publicKey")
    try:
        public = check_key(load_der_public_key(key.bytes("rawBytes")))
    except MalformedError:
        raise
    except (ValueError, UnsupportedAlgorithm) as error:
        raise MalformedError(f"a log's key cannot be used: {error}") from error
    url = log.text("baseUrl") if log.has("baseUrl") else ""
    return Log(log.inner("logId").bytes("keyId"), url, public, _parse_period(key))


def _parse_authority(authority: Fields) -> Authority:
    from cryptography.x509 import InvalidVersion, load_der_x509_certificate

    certificates = authority.inner("certChain").each("certificates", MOST)
    try:
        chain = tuple(load_der_x509_certificate(one.bytes("rawBytes")) for one in certificates)
    except MalformedError:
        raise
    except (ValueError, InvalidVersion) as error:
        raise MalformedError("an authority's certificate cannot be read") from error
    if not chain:
        raise MalformedError("an authority has no certificate")
    return Authority(chain, _parse_period(authority))


def _parse_period(owner: Fields) -> Period:
    if not owner.has("validFor"):
        return Period(None, None)
    period = owner.inner("validFor")
    return Period(*(_parse_time(period.text(name)) if period.has(name) else None for name in ("start", "end")))


def _parse_time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise MalformedError(f"{text[:40]!r} is not a time") from error
    if time.tzinfo is None:
        raise MalformedError(f"{text[:40]!r} is a time without a zone")
    return time
