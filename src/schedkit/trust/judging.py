"""One signature against one rule: every check, in order, and a Problem at the first that fails."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from schedkit.trust.errors import PolicyError, Problem, bad_signature
from schedkit.trust.evidence import Evidence
from schedkit.trust.identities import Identity
from schedkit.trust.keys import VerificationKey, encode_key, is_signed_by
from schedkit.trust.log import check_log, check_periods
from schedkit.trust.model import LogEntry, RefusalReason, Signature, SignerKind
from schedkit.trust.policy import Rule
from schedkit.trust.roots import Roots

if TYPE_CHECKING:
    from schedkit.trust.trusted_root import Log, TrustedRoot


class Accepted(NamedTuple):
    """A good signature, and whose of the rule it is."""

    signature: Signature
    wanted: frozenset[VerificationKey | Identity]


def judge(evidence: Evidence, digest: str, rule: Rule, roots: Roots) -> Accepted:
    """The signature, if all is right and the rule wants it; Problem if not."""
    if evidence.digest != digest:
        raise bad_signature(f"it is a signature of {evidence.digest}, not of {digest}")
    keys = [key for key in rule.keys if is_signed_by(key.public, evidence.signature, evidence.message)]
    if keys:
        return _judge_key(evidence, keys, rule, roots)
    if evidence.certificate is not None:
        return _judge_certificate(evidence, evidence.certificate, rule, roots)
    raise _explain_key(evidence, rule)


def _judge_key(evidence: Evidence, keys: list[VerificationKey], rule: Rule, roots: Roots) -> Accepted:
    """Check a signature that a key of the rule has made.

    1. signature over the message, with the key (by `judge`)
    2. log entry, if the rule asks for one: inclusion proof or SET, and of this content, signature and key
    3. times: of the SET and of timestamp authorities; the log was trusted at each. Without any, nobody says when
    """
    key = keys[0]
    entry = None
    if rule.needs_log_for_keys:
        root = roots.get(rule.root)
        logs = _choose_logs(root, rule)
        try:
            entry = check_log(evidence, encode_key(key.public), logs, root.origin)
            check_periods(evidence, logs, _read_times(evidence, entry, root))
        except Problem as problem:
            raise Problem(problem.reason, problem.text, str(key)) from problem
    found = Signature(
        str(key), SignerKind.KEY, evidence.format, entry.integrated if entry else None, entry, evidence.digest
    )
    return Accepted(found, frozenset(keys))


def _judge_certificate(evidence: Evidence, der: bytes, rule: Rule, roots: Roots) -> Accepted:
    """Check a keyless signature, in this order, which is that of the Sigstore client specification where it has one.

    1. signature over the message, with the key of the certificate
    2. log entry: inclusion proof or SET, and of this content, signature and certificate
    3. times: of the SET and of timestamp authorities; at least one, and the log was trusted at each
    4. certificate: chain, validity, key usage and SCT, at each of these times
    5. identity and issuer, against the rule

    A rule without identities trusts no certificate, and no root is fetched for it: the first check is all there is.
    """
    from schedkit.trust.certificates import check_certificate, get_key, parse_certificate
    from schedkit.trust.identities import read_signer

    certificate = parse_certificate(der)
    signer = read_signer(certificate)
    try:
        if not is_signed_by(get_key(certificate), evidence.signature, evidence.message):
            raise bad_signature("the signature was not made with the key of its certificate")
        if not rule.identities:
            raise Problem(RefusalReason.UNTRUSTED, f"the policy wants {rule}")
        root = roots.get(rule.root)
        logs = _choose_logs(root, rule)
        entry = _find_log_entry(evidence, der, rule, logs, root.origin)
        times = _read_times(evidence, entry, root)
        if not times:
            raise Problem(
                RefusalReason.NO_LOG_ENTRY,
                "neither a trusted log nor a trusted timestamp authority says when it was signed",
            )
        check_periods(evidence, logs, times)
        check_certificate(certificate, times, root)
    except Problem as problem:
        raise Problem(problem.reason, problem.text, str(signer), proven=False) from problem
    wanted = frozenset(identity for identity in rule.identities if identity.matches(signer))
    if not wanted:
        raise Problem(RefusalReason.UNTRUSTED, f"the policy wants {rule}", str(signer))
    found = Signature(str(signer), SignerKind.KEYLESS, evidence.format, min(times), entry, evidence.digest)
    return Accepted(found, wanted)


def _find_log_entry(evidence: Evidence, der: bytes, rule: Rule, logs: "Sequence[Log]", origin: str) -> LogEntry | None:
    """The entry; None only where the rule needs none and no trusted log has one."""
    known = {log.id for log in logs}
    if not rule.needs_log_for_identities and not any(entry.log_id in known for entry in evidence.entries):
        return None
    return check_log(evidence, der, logs, origin)


def _read_times(evidence: Evidence, entry: LogEntry | None, root: "TrustedRoot") -> list[datetime]:
    """All times that a trusted log or timestamp authority confirms."""
    times = [entry.integrated] if entry and entry.integrated else []
    if evidence.timestamps and root.timestamp_authorities:
        from schedkit.trust.timestamps import read_times

        times += read_times(evidence.timestamps, evidence.signature, root.timestamp_authorities)
    return times


def _choose_logs(root: "TrustedRoot", rule: Rule) -> "tuple[Log, ...]":
    """The logs of a root that are trusted by a rule."""
    if not rule.rekor_url:
        return root.logs
    logs = tuple(log for log in root.logs if log.url.rstrip("/") == rule.rekor_url)
    if not logs:
        there = ", ".join(log.url for log in root.logs) or "none"
        raise PolicyError(
            f"the trusted root {root.origin} has no log at rekorURL {rule.rekor_url}",
            hint=f"its logs: {there}; set your own trusted root with trustedRoot",
        )
    return logs


def _explain_key(evidence: Evidence, rule: Rule) -> Problem:
    """Why no key fits: a signature does not say by which key it was made, or only as a hint."""
    fingerprint = f"SHA256:{evidence.hint.rstrip('=')}" if evidence.hint else ""
    if any(key.fingerprint == fingerprint for key in rule.keys):
        problem = "the signature was not made with that key"
        return Problem(RefusalReason.BAD_SIGNATURE, problem, f"key {fingerprint}", proven=False)
    who = f"key {fingerprint}" if fingerprint else "an unknown key" if rule.keys else "a key"
    problem = f"no key of the policy made this signature; it wants {rule}" if rule.keys else f"the policy wants {rule}"
    return Problem(RefusalReason.UNTRUSTED, problem, who, proven=not fingerprint)
