"""What a check of signatures finds: who signed what, how and when, or what was wrong with each try."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple


class SignerKind(StrEnum):
    """What a signer is known by."""

    KEY = "key"
    KEYLESS = "keyless"


class Format(StrEnum):
    """How the signature lies in the registry."""

    COSIGN_V2 = "cosign-v2"  # a layer under the tag sha256-<hex>.sig
    BUNDLE = "bundle"  # a sigstore bundle that refers to the image, as cosign v3 makes it


class RefusalReason(StrEnum):
    """Why a signature is not trusted; the nearest to acceptance comes first and names the refusal as a whole."""

    EXPIRED = "expired"
    NO_LOG_ENTRY = "no-log-entry"
    UNTRUSTED = "untrusted"
    BAD_SIGNATURE = "bad-signature"


class LogEntry(NamedTuple):
    """An entry of a transparency log, checked and bound to one signature."""

    log_id: str  # hexadecimal
    log_index: int
    integrated: datetime | None  # None where the log does not confirm a time


class Signature(NamedTuple):
    """A trusted signature."""

    who: str  # `key SHA256:… (path)` or `subject (issuer)`
    how: SignerKind
    format: Format
    signed_at: datetime | None  # None where nobody confirms a time
    log: LogEntry | None
    on: str  # the digest it names: the index's or the manifest's


class RejectedSignature(NamedTuple):
    """A signature that was tried and is not trusted."""

    what: str  # where it lies: `sha256-….sig layer 2`, `referrer sha256:…`
    who: str  # whom it is by, or claims to be by; empty where it does not say
    problem: str
    reason: RefusalReason
    proven: bool = True  # False: it only claims to be by them

    def __str__(self) -> str:
        by = "by" if self.proven else "that claims to be by"
        return f"{self.what}{f' {by} {self.who}' if self.who else ''}: {self.problem}"


class Verdict(NamedTuple):
    """This image may run, and why."""

    digest: str  # of what the reference named
    manifest: str  # the digest of this platform's manifest: the verdict is for that one, and no other of an index
    reference: str
    policy: str  # the hash of the policy
    root: str  # the digest of the trusted root that was used; empty where none was needed
    rule: str  # which rule of the policy is for this image
    signatures: tuple[Signature, ...]
    at: datetime  # when that was found
    from_cache: bool = False  # reached before, and reused as the network could or should not be asked

    @property
    def who(self) -> str:
        """All signers in one line."""
        return "; ".join(signature.who for signature in self.signatures)
