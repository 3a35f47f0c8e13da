"""The transparency log: that an entry is in it, and that it is the entry of this signature by this signer."""

import base64
import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from schedkit.trust.errors import Problem, bad
from schedkit.trust.evidence import Entry, Evidence, Proof
from schedkit.trust.keys import is_signed_by
from schedkit.trust.model import LogEntry, RefusalReason
from schedkit.trust.reading import MalformedError, decode_base64
from schedkit.trust.trusted_root import Log

if TYPE_CHECKING:
    from schedkit.trust.keys import PublicKey

MOST_NOTE_SIGNATURES = 16
LATEST = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


def check_log(evidence: Evidence, signer: bytes, logs: Sequence[Log], origin: str) -> LogEntry:
    """The entry that one of these logs holds of this signature by this signer (certificate or key, in DER).

    All entries that come along must be right: one that is not is a sign of tampering.
    """
    from schedkit.trust.log_body import check_body

    if not evidence.entries:
        raise Problem(RefusalReason.NO_LOG_ENTRY, "it comes without an entry of a transparency log")
    found = []
    for entry in evidence.entries:
        log = next((log for log in logs if log.id == entry.log_id), None)
        if log is None:
            raise Problem(
                RefusalReason.NO_LOG_ENTRY,
                f"its entry is in the log {entry.log_id.hex()[:16]}…, which is none of those that count ({origin})",
            )
        found.append(_check_entry(entry, log, proof_needed=evidence.proof_needed))
        check_body(entry.body, evidence, signer)
    # The one whose time is vouched for says more.
    return next((one for one in found if one.integrated), found[0])


def _check_entry(entry: Entry, log: Log, *, proof_needed: bool) -> LogEntry:
    """That the log holds the entry, by all that it says to prove it."""
    if entry.promise is None and entry.proof is None:
        raise Problem(RefusalReason.NO_LOG_ENTRY, "its log entry comes without a proof")
    if proof_needed and entry.proof is None:
        raise Problem(RefusalReason.NO_LOG_ENTRY, "its log entry comes without a proof of inclusion")
    index, integrated = entry.index, None
    if entry.proof is not None:
        check_inclusion(entry.body, entry.proof)
        check_checkpoint(entry.proof, log.key)
        index = entry.proof.index
    if entry.promise is not None:
        integrated = _check_promise(entry, entry.promise, log)
        index = entry.index  # in the whole log, where the proof's may be one of a part of it
    return LogEntry(entry.log_id.hex(), index, integrated)


def _check_promise(entry: Entry, promise: bytes, log: Log) -> datetime:
    """The time that the log signed together with the entry."""
    if entry.integrated is None or entry.integrated > LATEST:
        raise bad("its log entry has a promise and no time")
    signed = {
        "body": base64.b64encode(entry.body).decode(),
        "integratedTime": entry.integrated,
        "logID": entry.log_id.hex(),
        "logIndex": entry.index,
    }
    # RFC 8785: with plain texts and whole numbers, that is sorted keys and no spaces.
    message = json.dumps(signed, separators=(",", ":"), sort_keys=True).encode()
    if not is_signed_by(log.key, promise, message):
        raise bad("its log entry is not signed by the log: the entry, or its time, was changed")
    integrated = datetime.fromtimestamp(entry.integrated, UTC)
    if not log.period.holds(integrated):
        raise bad(f"its log entry is of {integrated:%Y-%m-%d}, when the log's key did not count")
    return integrated


def check_inclusion(body: bytes, proof: Proof) -> None:
    """That the hashes lead from the entry to the root (RFC 6962, 2.1.1)."""
    if not 0 <= proof.index < proof.tree_size:
        raise bad("its log entry is said to lie outside of the log")
    node = hashlib.sha256(b"\0" + body).digest()
    index, last = proof.index, proof.tree_size - 1
    for other in proof.hashes:
        if last == 0 or len(other) != hashlib.sha256().digest_size:
            raise bad("the proof that its log entry is in the log is of the wrong length")
        if index & 1 or index == last:
            node = hashlib.sha256(b"\1" + other + node).digest()
            while not index & 1 and index:
                index, last = index >> 1, last >> 1
        else:
            node = hashlib.sha256(b"\1" + node + other).digest()
        index, last = index >> 1, last >> 1
    if last != 0 or node != proof.root:
        raise bad("the proof that its log entry is in the log does not hold")


def check_checkpoint(proof: Proof, key: "PublicKey") -> None:
    """That the log signed the root (a signed note: text, an empty line, and signatures)."""
    text, gap, signatures = proof.checkpoint.partition("\n\n")
    lines = text.split("\n")
    if not gap or len(lines) < 3:
        raise bad("its log entry comes without a checkpoint that can be read")
    # Witnesses may sign it too; which signature is the log's own, only its key can tell.
    if not any(_is_noted(line, key, f"{text}\n") for line in signatures.split("\n")[:MOST_NOTE_SIGNATURES]):
        raise bad("the checkpoint of its log entry is not signed by the log")
    if lines[2] != base64.b64encode(proof.root).decode():
        raise bad("the checkpoint of its log entry is of another state of the log than the proof")


def _is_noted(line: str, key: "PublicKey", text: str) -> bool:
    """Whether a line below a note is its signature by this key: a dash, a name, and four bytes of hint before it."""
    words = line.split(" ")
    if len(words) != 3 or words[0] != "—":
        return False
    try:
        return is_signed_by(key, decode_base64(words[2], "a signature")[4:], text.encode())
    except MalformedError:
        return False
