"""What `schedctl verify` shows."""

from typing import TYPE_CHECKING

from schedkit.errors import clean
from schedkit.schedctl.output import Json, Output, plain
from schedkit.schedctl.verification import read_trust_policy, verify_image

if TYPE_CHECKING:
    from schedkit.images.image import Image
    from schedkit.schedctl.session import Session
    from schedkit.trust.errors import Refusal
    from schedkit.trust.model import Signature, Verdict


def show_verdict(session: "Session", name: str, version: str | None) -> None:
    """Who signed an image; the refusal, with all that was tried, where nobody did whom the policy trusts."""
    from schedkit.trust.errors import Refusal, UnsignedError

    policy = read_trust_policy(session.settings)
    named = session.find(name, version)
    image = session.fetch_image(named)
    common = {
        "scheduler": named.scheduler,
        "image": image.reference,
        "digest": image.digest,
        "manifest": image.manifest.digest,
        "policy": {"source": policy.origin, "hash": policy.hash},
    }
    try:
        verdict = verify_image(session, image, policy)
    except Refusal as refusal:
        if isinstance(refusal, UnsignedError) and policy.allows_unsigned(image.repository):
            refusal.hint = f"{policy.origin} allows it to run anyway (allowUnsigned)"
        if session.output.json:
            fields = _refused_fields(session, refusal)
            session.output.show(lambda: {**common, **fields}, str)
        raise
    session.output.show(
        lambda: {**common, **_fields(verdict)}, lambda: _text(policy.origin, image, verdict, session.output)
    )


def _fields(verdict: "Verdict") -> Json:
    return {
        "verified": True,
        "reason": None,
        "rule": verdict.rule,
        "checked_at": plain(verdict.at),
        "from_cache": verdict.from_cache,
        "signatures": [_signature_fields(one) for one in verdict.signatures],
        "attempts": [],
    }


def _refused_fields(session: "Session", refusal: "Refusal") -> Json:
    return {
        "verified": False,
        "reason": refusal.reason,
        "rule": None,
        "checked_at": plain(session.machine.now()),
        "from_cache": False,
        "signatures": [],
        "attempts": [
            {"what": one.what, "who": one.who or None, "reason": one.reason.value, "problem": one.problem}
            for one in refusal.attempts
        ],
    }


def _signature_fields(signature: "Signature") -> Json:
    log = signature.log
    return {
        "who": signature.who,
        "how": signature.how.value,
        "format": signature.format.value,
        "signed_at": plain(signature.signed_at),
        "on": signature.on,
        "log": None
        if log is None
        else {"id": log.log_id, "index": log.log_index, "integrated_at": plain(log.integrated)},
    }


def _text(source: str, image: "Image", verdict: "Verdict", output: Output) -> str:
    again = f" (as found {verdict.at:%Y-%m-%d %H:%M}, without network)" if verdict.from_cache else ""
    lines = [
        f"{'image':12}{image.reference}",
        f"{'digest':12}{image.digest}",
        *([f"{'manifest':12}{image.manifest.digest}"] if image.manifest.digest != image.digest else []),
        f"{'verified':12}{output.paint('yes', 'good')}{again}",
        f"{'policy':12}{source}, rule {verdict.rule}",
    ]
    for one in verdict.signatures:
        lines += [f"{'signed by':12}{clean(one.who)}", f"{'':12}{_tell(one)}"]
        if one.on != image.digest:
            lines.append(f"{'':12}on its manifest {one.on}")
    return "\n".join(lines)


def _tell(signature: "Signature") -> str:
    when = f"signed {signature.signed_at:%Y-%m-%d %H:%M:%S %Z}" if signature.signed_at else "signed at an unknown time"
    log = signature.log
    where = f"entry {log.log_index} of the log {log.log_id[:16]}…" if log else "no log entry needed"
    return f"{signature.how.value} ({signature.format.value}), {when}, {where}"
