"""How rollouts stand: what a SchedExt's spec and status say of them, as values to show and to wait for."""

from collections.abc import Sequence

from schedkit.errors import ExitCode
from schedkit.sked.api.conditions import READY, STALLED, Reason
from schedkit.sked.api.requests import PROMOTE, REQUEST_LENGTH, RETRY, UNDO
from schedkit.sked.api.rollout_types import (
    COMPLETE,
    PAUSED,
    PROGRESSING,
    ROLLED_BACK,
    ROLLING_BACK,
    FailedRevision,
    RolloutGap,
    RolloutNodes,
    RolloutRequests,
    RolloutStatus,
)
from schedkit.sked.api.types import NodeCounts, PoolStatus, SchedExt
from schedkit.sked.api.workloads import ResolvedWorkload, resolve_workloads
from schedkit.sked.kube.objects import Model

# Beside the phases of a rollout, how a resource can stand.
WAITING, FAILED = "Waiting", "Failed"  # the operator has not seen it yet; it stopped, and somebody has to act
SEVEREST = (FAILED, ROLLED_BACK, ROLLING_BACK, WAITING, PROGRESSING, PAUSED, COMPLETE)
ENDS = (FAILED, ROLLED_BACK, COMPLETE)  # nothing more happens until somebody asks for it
NO_REQUESTS = RolloutRequests()
REQUESTS = {"promote": PROMOTE, "retry": RETRY, "undo": UNDO}  # as status names them, and their annotations


class PoolProgress(Model, frozen=True, kw_only=True, omit_defaults=False):
    """How one DaemonSet of a resource stands; `phase` is empty where it has no rollout."""

    pool: str
    state: str
    image: str = ""
    phase: str = ""
    step: int = 0
    steps: int = 0
    message: str = ""
    since: str | None = None
    current_revision: str = ""
    update_revision: str = ""
    failed_revision: FailedRevision | None = None
    desired: int = 0
    attached: int = 0  # nodes whose kernel has attached any revision
    nodes: RolloutNodes
    gap: RolloutGap | None = None


class RolloutProgress(Model, frozen=True, kw_only=True, omit_defaults=False):
    """How a resource stands; `state` is that of the pool that needs attention most."""

    namespace: str
    name: str
    state: str
    paused: bool
    summary: str  # the reason of its condition Ready
    message: str  # the sentence to it
    pending: tuple[str, ...]  # requests that the operator has not carried out yet
    pools: tuple[PoolProgress, ...]

    @property
    def is_settled(self) -> bool:
        """Whether nothing is under way."""
        return self.state in ENDS and all(pool.state in ENDS for pool in self.pools)

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to come: nothing that was asked for, either."""
        return self.is_settled and not self.pending

    @property
    def exit_code(self) -> ExitCode:
        """How whoever waited for it ends."""
        if self.state in (ROLLED_BACK, ROLLING_BACK):
            return ExitCode.ROLLED_BACK
        if self.state != FAILED:
            return ExitCode.OK
        failed = [pool.failed_revision for pool in self.pools if pool.state == FAILED and pool.failed_revision]
        if not failed:
            return ExitCode.FAILURE
        return ExitCode.EJECTED if failed[0].reason == Reason.EJECTED else ExitCode.NOT_ATTACHED


def read_progress(resource: SchedExt) -> RolloutProgress:
    """How a resource stands, as far as its operator has said."""
    status = resource.status
    told = {pool.name: pool for pool in status.pools}
    seen = status.observed_generation >= resource.metadata.generation
    pools = tuple(_read_pool(resource, workload, told.get(workload.pool), seen) for workload in list_claims(resource))
    ready = next((one for one in status.conditions if one.type == READY), None)
    return RolloutProgress(
        namespace=resource.metadata.namespace,
        name=resource.metadata.name,
        state=min((pool.state for pool in pools), key=SEVEREST.index, default=_read_plain(resource, seen)),
        paused=resource.spec.paused,
        summary=status.summary,
        message=ready.message if ready else "the operator has not said anything of it yet",
        pending=find_pending(resource),
        pools=pools,
    )


def list_claims(resource: SchedExt) -> Sequence[ResolvedWorkload]:
    """The DaemonSets that a resource asks for; none while it is suspended."""
    return () if resource.spec.suspend else resolve_workloads(resource)


def find_pending(resource: SchedExt) -> tuple[str, ...]:
    """Which requests of people no pool's rollout has carried out yet."""
    handled = [pool.rollout.handled or NO_REQUESTS for pool in resource.status.pools if pool.rollout]
    if not handled:
        return ()
    asked = {word: resource.metadata.annotations.get(name, "") for word, name in REQUESTS.items()}
    return tuple(
        word
        for word, value in asked.items()
        if value and all(getattr(one, word) != value[:REQUEST_LENGTH] for one in handled)
    )


def _read_pool(resource: SchedExt, workload: ResolvedWorkload, told: PoolStatus | None, seen: bool) -> PoolProgress:
    told = told or PoolStatus(name=workload.pool)
    counts = told.nodes or NodeCounts()
    rollout = told.rollout
    if workload.rollout is None or rollout is None:
        return PoolProgress(
            pool=workload.pool,
            state=WAITING if workload.rollout else _read_plain(resource, seen, counts),
            image=told.image or workload.sched,
            current_revision=told.daemon_set,
            update_revision=told.daemon_set,
            desired=counts.desired,
            attached=counts.attached,
            nodes=RolloutNodes(
                updated=counts.updated,
                attached=counts.attached,
                failed=counts.ejected + counts.quarantined,
                quarantined=counts.quarantined,
            ),
        )
    return PoolProgress(
        pool=workload.pool,
        state=_read_state(resource, rollout) if seen else WAITING,
        image=told.image or workload.sched,
        phase=rollout.phase,
        step=rollout.step,
        steps=len(workload.rollout.steps),
        message=rollout.message,
        since=rollout.since,
        current_revision=rollout.current_revision,
        update_revision=rollout.update_revision,
        failed_revision=rollout.failed_revision,
        desired=counts.desired,
        attached=counts.attached,
        nodes=rollout.nodes or RolloutNodes(),
        gap=rollout.gap,
    )


def _read_state(resource: SchedExt, rollout: RolloutStatus) -> str:
    if rollout.phase == PAUSED and is_failed(rollout):
        return FAILED
    if rollout.phase == COMPLETE:
        # That is the rollout before as long as the image that is asked for now is not verified.
        found = {condition.type: condition for condition in resource.status.conditions}
        if STALLED in found and found[STALLED].status == "True":
            return FAILED
        if PROGRESSING in found and found[PROGRESSING].reason == Reason.VERIFYING:
            return PROGRESSING
    return rollout.phase


def is_failed(rollout: RolloutStatus | PoolProgress) -> bool:
    """Whether what is asked for is what failed, so that it goes on only by somebody's word."""
    failed = rollout.failed_revision
    return failed is not None and failed.revision == rollout.update_revision and rollout.phase == PAUSED


def _read_plain(resource: SchedExt, seen: bool, counts: NodeCounts | None = None) -> str:
    """How a DaemonSet without a rollout stands: by the resource's conditions, unless those are of another pool's."""
    if not seen:
        return WAITING
    if counts and any(pool.rollout for pool in resource.status.pools):
        excused = counts.not_ready + counts.cordoned
        return COMPLETE if counts.updated + excused >= counts.desired else PROGRESSING
    conditions = {condition.type: condition.status for condition in resource.status.conditions}
    if conditions.get(STALLED) == "True":
        return FAILED
    return COMPLETE if conditions.get(READY) == "True" else PROGRESSING
