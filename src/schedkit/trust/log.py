"""The transparency log: that an entry is in it, and that it is the entry of this signature by this signer."""

import base64
import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from schedkit.trust.errors import Problem, bad_signature
from schedkit.trust.evidence import Evidence, EvidenceEntry, Proof
from schedkit.trust.keys import is_signed_by
from schedkit.trust.model import LogEntry, RefusalReason
from schedkit.trust.reading import MalformedError, decode_base64

if TYPE_CHECKING:
    from schedkit.trust.trusted_root import Log

MOST_NOTE_SIGNATURES = 16
HINT_BYTES = 4  # of a note's signature: which key made it
LATEST = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


def check_log(evidence: Evidence, signer: bytes, logs: "Sequence[Log]", origin: str) -> LogEntry:
    """The entry that one of these logs holds of this signature by this signer (certificate or key, in DER).

    All entries of these logs must be right: one that is not is a sign of tampering. What is said to be in another log
    nobody can check; such an entry is none, and does no harm beside a right one.
    """
    from schedkit.trust.log_body import check_body

    if not evidence.entries:
        raise Problem(RefusalReason.NO_LOG_ENTRY, "it comes without an entry of a transparency log")
    found = []
    for entry in evidence.entries:
        log = next((log for log in logs if log.id == entry.log_id), None)
        if log:
            found.append(_check_entry(entry, log, proof_needed=evidence.proof_needed))
            check_body(entry.body, evidence, signer)
    if not found:
        unknown = ", ".join(f"{entry.log_id.hex()[:16]}…" for entry in evidence.entries)
        raise Problem(
            RefusalReason.NO_LOG_ENTRY, f"its log entry is in {unknown}, which is not a trusted log ({origin})"
        )
    # The one whose time is confirmed says more.
    return next((one for one in found if one.integrated), found[0])


def check_periods(evidence: Evidence, logs: "Sequence[Log]", times: Sequence[datetime]) -> None:
    """That each trusted log in which it has an entry was one at all these times: a retired log's key may be stolen."""
    for entry in evidence.entries:
        periods = [log.period for log in logs if log.id == entry.log_id]
        for time in times:
            if periods and not any(period.holds(time) for period in periods):
                raise bad_signature(
                    f"it was signed on {time:%Y-%m-%d}, when the log {entry.log_id.hex()[:16]}… was not trusted"
                )


def _check_entry(entry: EvidenceEntry, log: "Log", *, proof_needed: bool) -> LogEntry:
    """That the log holds the entry, by all that it says to prove it."""
    if entry.promise is None and entry.proof is None:
        raise Problem(RefusalReason.NO_LOG_ENTRY, "its log entry comes without a proof")
    if proof_needed and entry.proof is None:
        raise Problem(RefusalReason.NO_LOG_ENTRY, "its log entry comes without a proof of inclusion")
    index, integrated = entry.log_index, None
    if entry.proof is not None:
        check_inclusion(entry.body, entry.proof)
        # With a SET the log itself says where the entry is; without, the proof does, and its size must be the log's.
        check_checkpoint(entry.proof, log, sized=entry.promise is None)
        index = entry.proof.log_index
    if entry.promise is not None:
        integrated = _check_set(entry, entry.promise, log)
        index = entry.log_index  # in the whole log, where the proof's may be one of a part of it
    return LogEntry(entry.log_id.hex(), index, integrated)


def _check_set(entry: EvidenceEntry, promise: bytes, log: "Log") -> datetime:
    """The time that the log signed together with the entry (SET, signed entry timestamp)."""
    if entry.integrated is None or entry.integrated > LATEST:
        raise bad_signature("its log entry has a SET and no time")
    signed = {
        "body": base64.b64encode(entry.body).decode(),
        "integratedTime": entry.integrated,
        "logID": entry.log_id.hex(),
        "logIndex": entry.log_index,
    }
    # RFC 8785: with plain texts and whole numbers, that is sorted keys and no spaces.
    message = json.dumps(signed, separators=(",", ":"), sort_keys=True).encode()
    if not is_signed_by(log.key, promise, message):
        raise bad_signature("the SET of its log entry is not the log's: the entry, or its time, was changed")
    return datetime.fromtimestamp(entry.integrated, UTC)


def check_inclusion(body: bytes, proof: Proof) -> None:
    """That the hashes lead from the entry to the root (RFC 6962, 2.1.1)."""
    if not 0 <= proof.log_index < proof.tree_size:
        raise bad_signature("its log entry is said to lie outside of the log")
    node = hashlib.sha256(b"\0" + body).digest()
    index, last = proof.log_index, proof.tree_size - 1
    for other in proof.hashes:
        if last == 0 or len(other) != hashlib.sha256().digest_size:
            raise bad_signature("the proof that its log entry is in the log is of the wrong length")
        if index & 1 or index == last:
            node = hashlib.sha256(b"\1" + other + node).digest()
            while not index & 1 and index:
                index, last = index >> 1, last >> 1
        else:
            node = hashlib.sha256(b"\1" + node + other).digest()
        index, last = index >> 1, last >> 1
    if last != 0 or node != proof.root:
        raise bad_signature("the proof that its log entry is in the log does not hold")


def check_checkpoint(proof: Proof, log: "Log", *, sized: bool) -> None:
    """That the log signed the root, and if `sized` the size (a signed note: text, an empty line, and signatures)."""
    text, gap, signatures = proof.checkpoint.partition("\n\n")
    lines = text.split("\n")
    if not gap or len(lines) < 3:
        raise bad_signature("its log entry comes without a checkpoint that can be read")
    # Witnesses may sign it too: the log's own signature has the name and the key hint of the log.
    if not any(_is_noted(line, log, text) for line in signatures.split("\n")[:MOST_NOTE_SIGNATURES]):
        raise bad_signature("the checkpoint of its log entry is not signed by the log")
    if lines[2] != base64.b64encode(proof.root).decode() or (sized and lines[1] != str(proof.tree_size)):
        raise bad_signature("the checkpoint of its log entry is of another state of the log than the proof")


def _is_noted(line: str, log: "Log", text: str) -> bool:
    """Whether a line below a note is this log's signature of it: a dash, a name, and a key hint before the rest."""
    words = line.split(" ")
    if len(words) != 3 or words[0] != "—":
        return False
    # The first line of the note is the log's name; Rekor v1 puts the number of its tree behind it.
    if text.partition("\n")[0].partition(" - ")[0] != words[1]:
        return False
    try:
        signed = decode_base64(words[2], "a signature")
    except MalformedError:
        return False
    return signed[:HINT_BYTES] == log.id[:HINT_BYTES] and is_signed_by(
        log.key, signed[HINT_BYTES:], f"{text}\n".encode()
    )
