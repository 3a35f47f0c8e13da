"""One signature against one rule: every check, in order, and a Problem at the first that fails."""

from dataclasses import dataclass
from datetime import datetime

from schedkit.trust.errors import PolicyError, Problem, bad
from schedkit.trust.evidence import Evidence
from schedkit.trust.identities import Identity
from schedkit.trust.keys import Key, encode_key, is_signed_by
from schedkit.trust.log import check_log
from schedkit.trust.model import How, LogEntry, RefusalReason, Signature
from schedkit.trust.policy import Rule
from schedkit.trust.roots import Roots
from schedkit.trust.trusted_root import Log, TrustedRoot


@dataclass(frozen=True)
class Accepted:
    """A signature that counts, and whom of the rule it counts for."""

    signature: Signature
    wanted: frozenset[Key | Identity]


def judge(evidence: Evidence, digest: str, rule: Rule, roots: Roots) -> Accepted:
    """The signature, if all is right and the rule wants it; Problem if not."""
    if evidence.digest != digest:
        raise bad(f"it is a signature of {evidence.digest}, not of this image")
    keys = [key for key in rule.keys if is_signed_by(key.public, evidence.signature, evidence.message)]
    if keys:
        return _judge_key(evidence, keys, rule, roots)
    if evidence.certificate is not None:
        return _judge_certificate(evidence, evidence.certificate, rule, roots)
    raise _explain_key(evidence, rule)


def _judge_key(evidence: Evidence, keys: list[Key], rule: Rule, roots: Roots) -> Accepted:
    key = keys[0]
    entry = None
    if rule.needs_log_for_keys:
        root = roots.get(rule.root)
        try:
            entry = check_log(evidence, encode_key(key.public), _choose_logs(root, rule), root.origin)
        except Problem as problem:
            raise Problem(problem.reason, problem.text, str(key)) from problem
    found = Signature(str(key), How.KEY, evidence.format, entry.integrated if entry else None, entry, evidence.digest)
    return Accepted(found, frozenset(keys))


def _judge_certificate(evidence: Evidence, der: bytes, rule: Rule, roots: Roots) -> Accepted:
    from schedkit.trust.certificates import check_certificate, get_key, parse_certificate
    from schedkit.trust.identities import read_signer

    certificate = parse_certificate(der)
    signer = read_signer(certificate)
    if not rule.identities:
        raise Problem(RefusalReason.UNTRUSTED, f"the policy wants {rule}", str(signer))
    try:
        if not is_signed_by(get_key(certificate), evidence.signature, evidence.message):
            raise bad("the signature was not made with the key of its certificate")
        root = roots.get(rule.root)
        entry = _check_log(evidence, der, rule, root)
        times = _read_times(evidence, entry, root)
        check_certificate(certificate, times, root)
    except Problem as problem:
        raise Problem(problem.reason, problem.text, str(signer)) from problem
    wanted = frozenset(identity for identity in rule.identities if identity.matches(signer))
    if not wanted:
        raise Problem(RefusalReason.UNTRUSTED, f"the policy wants {rule}", str(signer))
    found = Signature(str(signer), How.KEYLESS, evidence.format, min(times), entry, evidence.digest)
    return Accepted(found, wanted)


def _check_log(evidence: Evidence, der: bytes, rule: Rule, root: TrustedRoot) -> LogEntry | None:
    """The entry; None only where the rule wants none and no log that counts has one."""
    logs = _choose_logs(root, rule)
    known = {log.id for log in logs}
    if not rule.needs_log_for_identities and not any(entry.log_id in known for entry in evidence.entries):
        return None
    return check_log(evidence, der, logs, root.origin)


def _read_times(evidence: Evidence, entry: LogEntry | None, root: TrustedRoot) -> list[datetime]:
    """All times that somebody who counts vouches for; a certificate is nothing without one."""
    times = [entry.integrated] if entry and entry.integrated else []
    if evidence.timestamps and root.clocks:
        from schedkit.trust.timestamps import read_times

        times += read_times(evidence.timestamps, evidence.signature, root.clocks)
    if not times:
        raise Problem(
            RefusalReason.NO_LOG_ENTRY, "neither a log nor a timestamp authority that counts says when it was signed"
        )
    return times


def _choose_logs(root: TrustedRoot, rule: Rule) -> tuple[Log, ...]:
    """The logs of a root that count for a rule."""
    if not rule.rekor_url:
        return root.logs
    logs = tuple(log for log in root.logs if log.url.rstrip("/") == rule.rekor_url)
    if not logs:
        there = ", ".join(log.url for log in root.logs) or "none"
        raise PolicyError(
            f"the trusted root {root.origin} has no log at rekorURL {rule.rekor_url}",
            hint=f"its logs: {there}; a trusted root of one's own is named with trustedRoot",
        )
    return logs


def _explain_key(evidence: Evidence, rule: Rule) -> Problem:
    """Why no key fits: a signature does not say by which key it was made, or only as a hint."""
    fingerprint = f"SHA256:{evidence.hint.rstrip('=')}" if evidence.hint else ""
    if any(key.fingerprint == fingerprint for key in rule.keys):
        return Problem(RefusalReason.BAD_SIGNATURE, "the signature was not made with that key", f"key {fingerprint}")
    if not rule.keys:
        return Problem(
            RefusalReason.UNTRUSTED, f"the policy wants {rule}", f"key {fingerprint}" if fingerprint else "a key"
        )
    return Problem(
        RefusalReason.UNTRUSTED,
        f"no key of the policy made this signature; it wants {rule}",
        f"key {fingerprint}" if fingerprint else "an unknown key",
    )
