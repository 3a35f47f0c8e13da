"""May this image run? The rule for it, against every signature there is."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from schedkit.errors import BadDataError, NoAnswerError, NotFoundError, SchedkitError, UnavailableError
from schedkit.images.image import Image, Signable
from schedkit.trust.bundle import AttestationError
from schedkit.trust.collecting import Candidate, TooMuchError, find_candidates
from schedkit.trust.errors import (
    REFUSALS,
    PolicyError,
    Problem,
    Refusal,
    UnsignedError,
    UntrustedError,
    UnverifiedError,
)
from schedkit.trust.judging import Accepted, judge
from schedkit.trust.model import RefusalReason, RejectedSignature, Signature, SignerKind, Verdict
from schedkit.trust.policy import Policy, Rule
from schedkit.trust.reading import MalformedError
from schedkit.trust.roots import Roots
from schedkit.trust.verdicts import read_newest_verdict, read_verdict, write_verdict

LONGEST_PROBLEM = 600
MOST_SECONDS = 60.0
NO_RULE = Rule("none")
ADD_RULE = "add a scope for it, or keys and identities for all images"


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
        signatures = _Search(image, rule, roots).run()
    except (UnavailableError, NoAnswerError):
        kept = _recall(image, policy, rule, roots, cache)
        if kept is None:
            raise
        return kept
    except Refusal as refusal:
        if rule is NO_RULE and refusal.may_be_allowed:
            raise type(refusal)(_tell_no_rule(policy, image), hint=ADD_RULE, attempts=refusal.attempts) from refusal
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
        raise UnverifiedError(_tell_no_rule(policy, image), hint=ADD_RULE)
    raise UnverifiedError(
        f"{image.repository} may be unsigned ({rule.name}), and only its registry can say that it is",
        hint="leave out --offline",
    )


def _tell_no_rule(policy: Policy, image: Signable) -> str:
    return f"the trust policy {policy.origin} has no rule for {image.repository}"


def _recall(image: Signable, policy: Policy, rule: Rule, roots: Roots, cache: Path | None) -> Verdict | None:
    """The verdict reached before: by keys alone, or by the trusted root that is in force now."""
    if cache is None:
        return None
    kept = read_verdict(cache, image, policy.hash, root="")
    if kept or not rule.needs_root:
        return kept
    return read_verdict(cache, image, policy.hash, roots.get(rule.root).digest)


class _Search:
    """Looks at one signature after the other until enough are trusted."""

    def __init__(self, image: Signable, rule: Rule, roots: Roots) -> None:
        self._image = image
        self._rule = rule
        self._roots = roots
        self._accepted: list[Accepted] = []
        self._attempts: list[RejectedSignature] = []
        self._attested = False

    def run(self) -> tuple[Signature, ...]:
        """All signatures that are trusted; a Refusal if these are too few, NoAnswerError if looking takes too long."""
        with self._image.registry.limit(MOST_SECONDS, f"{self._image.reference}: looking for signatures"):
            return self._look()

    def _look(self) -> tuple[Signature, ...]:
        try:
            for candidate in find_candidates(self._image):
                self._try(candidate)
                if count_signers(self._accepted) >= self._rule.threshold:
                    return tuple(accepted.signature for accepted in self._accepted)
        except TooMuchError as error:
            self._attempts.append(RejectedSignature("the rest", "", str(error), RefusalReason.BAD_SIGNATURE))
        raise self._refuse()

    def _try(self, candidate: Candidate) -> None:
        try:
            self._accepted.append(judge(candidate.fetch(), candidate.digest, self._rule, self._roots))
        except AttestationError:
            self._attested = True
        except Problem as problem:
            self._note(candidate, problem.reason, problem.text, problem.who, proven=problem.proven)
        except PolicyError:
            raise  # it would be wrong for all others, too
        except MalformedError as error:
            self._note(candidate, RefusalReason.BAD_SIGNATURE, str(error))
        except (BadDataError, NotFoundError) as error:
            self._note(candidate, RefusalReason.BAD_SIGNATURE, error.message)
        except SchedkitError:
            raise  # the registry does not respond, or refuses: that says nothing about this signature
        except Exception as error:  # strangers wrote it: what nobody foresaw ends this candidate, not the search
            self._note(candidate, RefusalReason.BAD_SIGNATURE, f"it cannot be read: {type(error).__name__}")

    def _note(
        self, candidate: Candidate, reason: RefusalReason, problem: str, who: str = "", *, proven: bool = True
    ) -> None:
        self._attempts.append(RejectedSignature(candidate.what, _clean(who), _clean(problem), reason, proven))

    def _refuse(self) -> Refusal:
        image, rule, attempts = self._image, self._rule, self._attempts
        name = f"{image.reference} ({image.digest})"
        if self._accepted:
            there = "; ".join(accepted.signature.who for accepted in self._accepted)
            return UntrustedError(
                f"{name} is signed by {count_signers(self._accepted)} of the {rule.threshold} signers that the policy "
                f"wants: {there}",
                hint=f"the policy wants {rule}",
                attempts=attempts,
            )
        if not attempts:
            but = "; it has attestations, which are statements about it and no signatures" if self._attested else ""
            return UnsignedError(f"{name} is not signed{but}", hint=f"the policy wants a signature by {rule}")
        reason = next(reason for reason in RefusalReason if any(one.reason is reason for one in attempts))
        best = next(one for one in attempts if one.reason is reason)
        others = f" (and {len(attempts) - 1} more that are not trusted)" if len(attempts) > 1 else ""
        signer = "has something that is not a signature of it"
        if best.who:
            signer = f"{'is' if best.proven else 'claims to be'} signed by {best.who}"
        hint = f"the policy's rule for it: {rule.name}; who may sign: {rule}"
        if reason is RefusalReason.BAD_SIGNATURE:
            hint = f"do not run it: the image was changed, or has the signature of another image; {hint}"
        return REFUSALS[reason](f"{name} {signer}: {best.problem}{others}", hint=hint, attempts=attempts)


def count_signers(accepted: Sequence[Accepted]) -> int:
    """How many different keys and identities of the rule are met, none of them and no signer counted twice."""
    wanted: dict[str, set[object]] = {}
    for one in accepted:
        wanted.setdefault(one.signature.who, set()).update(one.wanted)
    taken: dict[object, str] = {}

    def place(who: str, seen: set[object]) -> bool:
        """Find something of the rule for this signer, moving others to something else if need be."""
        for one in wanted[who] - seen:
            seen.add(one)
            if one not in taken or place(taken[one], seen):
                taken[one] = who
                return True
        return False

    return sum(place(who, set()) for who in wanted)


def _clean(text: str) -> str:
    """Make a text safe for a terminal: strangers wrote parts of it."""
    shown = "".join(letter if letter.isprintable() else "�" for letter in text)
    return shown if len(shown) <= LONGEST_PROBLEM else f"{shown[:LONGEST_PROBLEM]}…"
