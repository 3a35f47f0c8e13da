"""What a rollout means for the conditions of its resource: status, reason and message of each."""

from collections.abc import Sequence

from schedkit.sked.api.conditions import Reason
from schedkit.sked.api.rollout_types import COMPLETE, PAUSED, PROGRESSING, ROLLED_BACK, ROLLING_BACK, RolloutStatus
from schedkit.sked.api.types import PoolStatus, RolloutSummary

Told = tuple[str, str, str]
WORST_FIRST = (ROLLED_BACK, ROLLING_BACK, PAUSED, PROGRESSING, COMPLETE)
REASONS = {PAUSED: Reason.PAUSED, ROLLING_BACK: Reason.ROLLING_BACK, PROGRESSING: Reason.ROLLING_OUT}


def find_worst(pools: Sequence[PoolStatus]) -> RolloutStatus | None:
    """Return the rollout that is furthest from its end."""
    rollouts = (pool.rollout for pool in pools if pool.rollout)
    return min(rollouts, key=lambda rollout: WORST_FIRST.index(rollout.phase), default=None)


def summarise(rollout: RolloutStatus) -> RolloutSummary:
    """What of a rollout stands at the top of the status."""
    return RolloutSummary(phase=rollout.phase, step=rollout.step, message=rollout.message, since=rollout.since)


def tell_progressing(rollout: RolloutStatus) -> Told | None:
    """What a rollout that is under way does or waits for; None: it is not."""
    if rollout.phase not in REASONS or _has_failed(rollout):
        return None
    return "True", REASONS[rollout.phase], rollout.message


def tell_stalled(rollout: RolloutStatus) -> Told | None:
    """That a rollout failed and nothing goes on until somebody changes something; None: it does."""
    if not _has_failed(rollout):
        return None
    reason = Reason.ROLLED_BACK if rollout.phase == ROLLED_BACK else Reason.ROLLOUT_FAILED
    return "True", reason, rollout.message


def tell_not_ready(rollout: RolloutStatus, *, failing: bool) -> Told | None:
    """Why a rollout keeps its resource from being ready; what fails on nodes comes before what is only under way."""
    if stalled := tell_stalled(rollout):
        return "False", stalled[1], stalled[2]
    if failing or not (progressing := tell_progressing(rollout)):
        return None
    return "False", Reason.PROGRESSING, progressing[2]


def _has_failed(rollout: RolloutStatus) -> bool:
    failed = rollout.failed_revision
    is_asked_for = failed is not None and failed.revision == rollout.update_revision
    return rollout.phase == ROLLED_BACK or (rollout.phase == PAUSED and is_asked_for)
