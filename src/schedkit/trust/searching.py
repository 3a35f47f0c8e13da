"""One signature after the other against one rule, and one answer: who signed, or why it is refused."""

from collections.abc import Iterable, Sequence

from schedkit.errors import BadDataError, NotFoundError, SchedkitError
from schedkit.trust.bundle import AttestationError
from schedkit.trust.collecting import Candidate, TooMuchError
from schedkit.trust.errors import REFUSALS, PolicyError, Problem, Refusal, UnsignedError, UntrustedError
from schedkit.trust.judging import Accepted, judge
from schedkit.trust.model import RefusalReason, RejectedSignature, Signature
from schedkit.trust.policy import Policy, Rule
from schedkit.trust.reading import MalformedError
from schedkit.trust.roots import Roots

LONGEST_PROBLEM = 600
ADD_RULE = "add a scope for it, or keys and identities for all images"


class Search:
    """Looks at one signature after the other until enough are trusted.

    `name` is what they sign, and `changed` what to do if none of them does; both are for people.
    """

    def __init__(self, name: str, rule: Rule, roots: Roots, *, changed: str) -> None:
        self._name = name
        self._rule = rule
        self._roots = roots
        self._changed = changed
        self._accepted: list[Accepted] = []
        self._attempts: list[RejectedSignature] = []
        self._attested = False

    def run(self, candidates: Iterable[Candidate]) -> tuple[Signature, ...]:
        """All signatures that are trusted; a Refusal if these are too few."""
        try:
            for candidate in candidates:
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
        name, rule, attempts = self._name, self._rule, self._attempts
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
            hint = f"{self._changed}; {hint}"
        return REFUSALS[reason](f"{name} {signer}: {best.problem}{others}", hint=hint, attempts=attempts)


def tell_no_rule(policy: Policy, repository: str) -> str:
    """Why a policy trusts nobody with what is in a repository."""
    return f"the trust policy {policy.origin} has no rule for {repository}"


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
