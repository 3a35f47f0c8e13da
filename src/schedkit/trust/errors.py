"""How a check of signatures ends when the image may not run: one type for each reason, with all that was tried."""

from collections.abc import Sequence

from schedkit.errors import BadDataError, ExitCode, SchedkitError
from schedkit.trust.model import RefusalReason, RejectedSignature


class PolicyError(BadDataError):
    """The policy, or a file it names, is not what it must be."""

    reason = "BadPolicy"


class MissingPolicyError(PolicyError):
    """There is no such file."""

    exit_code = ExitCode.NOT_FOUND


class Refusal(SchedkitError):
    """The image may not run; `attempts` are the signatures that were tried."""

    def __init__(self, message: str, *, hint: str = "", attempts: Sequence[RejectedSignature] = ()) -> None:
        super().__init__(message, hint=hint)
        self.attempts = tuple(attempts)

    @property
    def may_be_allowed(self) -> bool:
        """Whether the user may run it all the same: it is not signed, or by others only, and nothing else is wrong."""
        return isinstance(self, UnsignedError | UntrustedError) and all(
            attempt.reason is RefusalReason.UNTRUSTED for attempt in self.attempts
        )

    @property
    def log(self) -> tuple[str, ...]:
        """A line for each attempt, for people to read before the error."""
        return tuple(str(attempt) for attempt in self.attempts)


class UnverifiedError(SchedkitError):
    """Nothing was found out, as nobody may be asked."""

    reason = "Unverified"
    exit_code = ExitCode.UNVERIFIED


class UnsignedError(Refusal):
    """Nobody signed it."""

    reason = "Unsigned"
    exit_code = ExitCode.UNSIGNED


class UntrustedError(Refusal):
    """It is signed, by others than the policy wants."""

    reason = "Untrusted"
    exit_code = ExitCode.UNTRUSTED


class ExpiredError(Refusal):
    """A certificate was not valid when it was signed."""

    reason = "Expired"
    exit_code = ExitCode.EXPIRED


class NoLogEntryError(Refusal):
    """No transparency log has the signature."""

    reason = "NoLogEntry"
    exit_code = ExitCode.NO_LOG_ENTRY


class BadSignatureError(Refusal):
    """What is there is not a signature of this image."""

    reason = "BadSignature"
    exit_code = ExitCode.BAD_SIGNATURE


REFUSALS: dict[RefusalReason, type[Refusal]] = {
    RefusalReason.EXPIRED: ExpiredError,
    RefusalReason.NO_LOG_ENTRY: NoLogEntryError,
    RefusalReason.UNTRUSTED: UntrustedError,
    RefusalReason.BAD_SIGNATURE: BadSignatureError,
}


class Problem(Exception):
    """What is wrong with one signature; it stays in this package: Search makes a RejectedSignature of it."""

    def __init__(self, reason: RefusalReason, text: str, who: str = "", *, proven: bool = True) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text
        self.who = who
        self.proven = proven  # False: it only claims to be by them


def bad_signature(text: str) -> Problem:
    """What is there is not a signature of this image, or not as it must be."""
    return Problem(RefusalReason.BAD_SIGNATURE, text)
