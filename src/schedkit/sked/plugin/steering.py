"""What people ask of rollouts: which patch that is, and when there is nothing to ask for. Pure functions."""

from datetime import UTC, datetime

from schedkit.errors import SchedkitError
from schedkit.pages import name_page
from schedkit.sked.api.conditions import VERIFIED
from schedkit.sked.api.requests import PROMOTE, REFRESH, RETRY
from schedkit.sked.api.rollout_types import COMPLETE, PAUSED
from schedkit.sked.api.types import SchedExt
from schedkit.sked.api.workloads import resolve_workloads
from schedkit.sked.plugin.history import NoRolloutError
from schedkit.sked.plugin.rollouts import is_failed, read_progress
from schedkit.sked.plugin.session import Patch


class NothingToDoError(SchedkitError):
    """What was asked for does not fit how things stand."""

    reason = "NothingToDo"


def annotate(name: str, *, prefix: str = "") -> Patch:
    """An annotation with a value that it has not had."""
    return {"metadata": {"annotations": {name: f"{prefix}{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"}}}


def set_paused(resource: SchedExt, paused: bool) -> tuple[Patch | None, str]:
    """Stop a rollout where it is, or let it go on."""
    name = resource.metadata.name
    _need_rollout(resource)
    word = "paused" if paused else "not paused"
    if resource.spec.paused == paused:
        waits = "" if paused else _tell_wait(resource)
        return None, f"{name} is {word} already{waits}"
    told = f"{name} is {word}" + ("; nodes that are being changed finish" if paused else _tell_wait(resource))
    return {"spec": {"paused": paused}}, told


def promote(resource: SchedExt) -> tuple[Patch, str]:
    """Go on past a pause step."""
    name = resource.metadata.name
    _need_rollout(resource)
    if resource.spec.paused:
        raise NothingToDoError(f"{name} is paused by spec.paused", hint=f"`kubectl scx resume {name}` continues it")
    pools = read_progress(resource).pools
    waiting = [pool for pool in pools if pool.phase == PAUSED and not is_failed(pool)]
    if not waiting:
        if any(is_failed(pool) for pool in pools):
            hint = f"`kubectl scx retry {name}` tries it again, `kubectl scx undo {name}` goes back"
            raise NothingToDoError(f"{name} stopped as its new revision failed", hint=hint)
        phases = ", ".join(dict.fromkeys(pool.state for pool in pools))
        raise NothingToDoError(f"{name} does not wait at a pause step: {phases}")
    return annotate(PROMOTE), f"{name} continues; `kubectl scx status {name} -w` follows"


def retry(resource: SchedExt) -> tuple[Patch, str]:
    """Try what failed once more."""
    name = resource.metadata.name
    _need_rollout(resource)
    failed = [pool.failed_revision.revision for pool in read_progress(resource).pools if pool.failed_revision]
    if not failed:
        raise NothingToDoError(f"no revision of {name} has failed")
    return annotate(RETRY), f"{name} tries {' and '.join(failed)} again; `kubectl scx status {name} -w` follows"


def refresh(resource: SchedExt) -> tuple[Patch, str]:
    """Ask the operator to resolve and verify the images again."""
    name = resource.metadata.name
    if resource.status.observed_generation and not is_verifying(resource):
        raise NothingToDoError(
            f"sked resolves no images of {name}: it does not verify images in this cluster",
            hint=f"how to have images verified: {name_page('sked/verification.md')}",
        )
    return annotate(REFRESH), f"the images of {name} are resolved and verified again; `kubectl scx verify {name}` shows"


def is_verifying(resource: SchedExt) -> bool:
    """Whether the operator verifies images: it says so on every resource that it has seen."""
    return any(condition.type == VERIFIED for condition in resource.status.conditions)


def _need_rollout(resource: SchedExt) -> None:
    if not any(claim.rollout for claim in resolve_workloads(resource)):
        raise NoRolloutError(
            f"{resource.metadata.name} has no spec.rollout: its nodes follow at the pace of spec.updateStrategy",
            hint="add spec.rollout to control its rollout",
        )


def _tell_wait(resource: SchedExt) -> str:
    """What a rollout waits for besides."""
    phases = {pool.phase for pool in read_progress(resource).pools}
    return "" if phases - {COMPLETE, ""} else "; no rollout is in progress"
