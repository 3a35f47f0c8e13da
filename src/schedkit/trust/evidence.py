"""One signature with all that proves it, whatever format it came in."""

from typing import NamedTuple

from schedkit.trust.model import Format

MOST_ENTRIES = 8  # log entries with one signature
MOST_TIMESTAMPS = 8
MOST_HASHES = 64  # steps from a leaf to the root of a log: more entries than there ever will be


class Proof(NamedTuple):
    """That an entry is in a log: the way from it to a root that the log signed."""

    log_index: int
    tree_size: int
    root: bytes
    hashes: tuple[bytes, ...]
    checkpoint: str


class EvidenceEntry(NamedTuple):
    """A log entry as it was brought along; nothing of it is checked."""

    body: bytes
    log_id: bytes
    log_index: int
    integrated: int | None  # seconds since 1970; only a SET confirms it
    promise: bytes | None  # the log's signature of the entry and its time (SET)
    proof: Proof | None


class Evidence(NamedTuple):
    """A signature, parsed; nothing of it is checked."""

    format: Format
    digest: str  # what it says that it signs
    message: bytes  # the bytes that were signed
    payload: bytes  # what the message wraps: the same, or a statement
    signature: bytes
    certificate: bytes | None  # DER; None where it was made with a key
    hint: str  # which key it says it was made with, if it says
    entries: tuple[EvidenceEntry, ...]
    timestamps: tuple[bytes, ...]  # RFC 3161, DER
    proof_needed: bool  # a SET alone is not enough in this format
