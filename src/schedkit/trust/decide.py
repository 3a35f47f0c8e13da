"""May this image run? The rule for it, against every signature there is."""

from contextlib import suppress
from datetime import datetime
from pathlib import Path

from schedkit.errors import NoAnswerError, UnavailableError
from schedkit.images.image import Image, Signable
from schedkit.trust.collecting import find_candidates
from schedkit.trust.errors import Refusal, UnverifiedError
from schedkit.trust.model import SignerKind, Verdict
from schedkit.trust.policy import Policy, Rule
from schedkit.trust.roots import Roots
from schedkit.trust.searching import ADD_RULE, Search, tell_no_rule
from schedkit.trust.verdicts import read_newest_verdict, read_verdict, write_verdict

MOST_SECONDS = 60.0
NO_RULE = Rule("none")
CHANGED = "do not run it: the image was changed, or has the signature of another image"


def verify(
    image: Signable,
    policy: Policy,
    *,
    roots: Roots,
    cache: Path | None,
    offline: bool,
    now: datetime,
    by_any_root: bool = False,
) -> Verdict:
    """Who signed this image; a Refusal if nobody does whom the policy trusts.

    Of an index without a manifest chosen from it, only signatures of the index itself are looked at.

    A verdict reached before is used only where the network does not respond, or with `offline`, and only if policy and
    trusted root are the same as then; with `by_any_root` only the policy has to be.
    """
    rule = policy.for_image(image.repository)
    if rule is None:
        # Nobody's signature is trusted. What is there is looked at all the same: a bad one is worse than none.
        rule = Rule("allowUnsigned") if policy.allows_unsigned(image.repository) else NO_RULE
    if offline:
        _check_rule_can_accept(rule, policy, image)
        kept = _recall(image, policy, rule, roots, cache)
        if kept is None and by_any_root and cache:
            kept = read_newest_verdict(cache, image, policy.hash)
        if kept is None:
            raise UnverifiedError(
                f"{image.repository}@{image.manifest.digest} was not verified here before with this policy and this "
                "trusted root, and without network it cannot be",
                hint="verify it once with network",
            )
        return kept
    try:
        with image.registry.limit(MOST_SECONDS, f"{image.reference}: looking for signatures"):
            search = Search(f"{image.reference} ({image.digest})", rule, roots, changed=CHANGED)
            signatures = search.run(find_candidates(image))
    except (UnavailableError, NoAnswerError):
        kept = _recall(image, policy, rule, roots, cache)
        if kept is None:
            raise
        return kept
    except Refusal as refusal:
        if rule is NO_RULE and refusal.may_be_allowed:
            told = tell_no_rule(policy, image.repository)
            raise type(refusal)(told, hint=ADD_RULE, attempts=refusal.attempts) from refusal
        raise
    # Only keys without a log do without a trusted root, which may have to be fetched.
    by_root = rule.needs_log_for_keys or any(one.how is SignerKind.KEYLESS for one in signatures)
    root = roots.get(rule.root).digest if by_root else ""
    verdict = Verdict(
        image.digest, image.manifest.digest, image.reference, policy.hash, root, rule.name, signatures, now
    )
    if cache and isinstance(image, Image):
        with suppress(OSError):  # the next check without network will have to do without
            write_verdict(cache, image, verdict)
    return verdict


def _check_rule_can_accept(rule: Rule, policy: Policy, image: Signable) -> None:
    """UnverifiedError where nobody's signature is trusted, as no verdict can have been kept then."""
    if rule.keys or rule.identities:
        return
    if rule is NO_RULE:
        raise UnverifiedError(tell_no_rule(policy, image.repository), hint=ADD_RULE)
    raise UnverifiedError(
        f"{image.repository} may be unsigned ({rule.name}), and only its registry can say that it is",
        hint="leave out --offline",
    )


def _recall(image: Signable, policy: Policy, rule: Rule, roots: Roots, cache: Path | None) -> Verdict | None:
    """The verdict reached before: by keys alone, or by the trusted root that is in force now."""
    if cache is None:
        return None
    kept = read_verdict(cache, image, policy.hash, root="")
    if kept or not rule.needs_root:
        return kept
    return read_verdict(cache, image, policy.hash, roots.get(rule.root).digest)
