"""The status of a resource: a pure function of what was asked for and what was seen."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from schedkit.sked.api.kubernetes import Condition
from schedkit.sked.api.types import (
    CONFLICTED,
    DEGRADED,
    FAILURES_TOLD,
    PROGRESSING,
    READY,
    SUSPENDED,
    NodeCounts,
    NodeFailure,
    PoolStatus,
    SchedExtStatus,
)
from schedkit.sked.api.workloads import resolve_workloads, short_scheduler_name
from schedkit.sked.controller.claims import Claim
from schedkit.sked.controller.objects import DaemonSet, SchedExt

UNREADABLE = "Unreadable"
# Until nodes report, this is all that can be said of kernels.
ATTACHMENT = "whether the kernels attached it is unknown: no node reports"


@dataclass(frozen=True)
class Trouble:
    """Why the controller could not do its part."""

    reason: str
    message: str


@dataclass(frozen=True)
class Outcome:
    """What became of one claim."""

    claim: Claim
    seen: DaemonSet | None  # None: there is no DaemonSet (yet)
    current: bool  # whether the one seen is the one wanted
    winners: tuple[Claim, ...] = ()
    losers: tuple[Claim, ...] = ()
    nothing_left: bool = False  # the winners take every node
    waiting: str = ""  # what it waits for before it may take its nodes
    written: bool = False  # just now, and not in sight yet
    trouble: Trouble | None = None


def make_status(
    resource: SchedExt,
    outcomes: Sequence[Outcome],
    failures: Sequence[NodeFailure],
    leaving: int,
    now: str,
    trouble: Trouble | None = None,
) -> SchedExtStatus:
    """The whole status; `leaving` counts pods of DaemonSets that are no longer wanted."""
    pools = tuple(_pool(outcome) for outcome in outcomes)
    nodes = _sum([pool.nodes or NodeCounts() for pool in pools])
    conditions = [
        _ready(resource, outcomes, nodes, failures, leaving, trouble),
        _progressing(resource, outcomes, nodes, leaving),
        _degraded(failures, trouble),
        _conflicted(outcomes),
        _suspended(resource),
    ]
    generation = resource.metadata.generation
    ready = conditions[0]
    images = list(dict.fromkeys(pool.image for pool in pools if pool.image))
    return SchedExtStatus(
        observed_generation=generation,
        summary="Ready" if ready.status == "True" and ready.reason == "Ready" else ready.reason,
        scheduler=",".join(dict.fromkeys(short_scheduler_name(image) for image in images)),
        image=",".join(images),
        nodes=nodes,
        conditions=_keep_times(resource.status.conditions, conditions, generation, now),
        pools=pools,
        failures=tuple(failures[:FAILURES_TOLD]),
        failure_count=len(failures),
    )


def make_blind_status(resource: SchedExt, trouble: Trouble, now: str) -> SchedExtStatus:
    """The status while the cluster may not be looked at: everything that is seen there is unknown."""
    conditions = [
        *(_condition(type_, "Unknown", trouble.reason, trouble.message) for type_ in (READY, PROGRESSING)),
        _condition(DEGRADED, "True", trouble.reason, trouble.message),
        _condition(CONFLICTED, "Unknown", trouble.reason, trouble.message),
        _suspended(resource),
    ]
    generation = resource.metadata.generation
    workloads = () if resource.spec.suspend else resolve_workloads(resource)
    images = list(dict.fromkeys(workload.sched for workload in workloads if workload.sched))
    return SchedExtStatus(
        observed_generation=generation,
        summary=trouble.reason,
        scheduler=",".join(dict.fromkeys(short_scheduler_name(image) for image in images)),
        image=",".join(images),
        conditions=_keep_times(resource.status.conditions, conditions, generation, now),
    )


def make_unreadable_status(generation: int, before: SchedExtStatus, fault: str, now: str) -> SchedExtStatus:
    """The status of a resource whose spec is not understood, as it was stored before there was validation."""
    message = f"spec does not fit its definition: {fault}; its DaemonSets are left as they are"
    conditions = [
        _condition(READY, "False", UNREADABLE, message),
        _condition(PROGRESSING, "Unknown", UNREADABLE, message),
        _condition(DEGRADED, "True", UNREADABLE, message),
        *(_condition(type_, "Unknown", UNREADABLE, message) for type_ in (CONFLICTED, SUSPENDED)),
    ]
    return SchedExtStatus(
        observed_generation=generation,
        summary=UNREADABLE,
        conditions=_keep_times(before.conditions, conditions, generation, now),
    )


def _pool(outcome: Outcome) -> PoolStatus:
    seen = outcome.seen
    return PoolStatus(
        name=outcome.claim.workload.pool,
        daemon_set=seen.metadata.name if seen else "",
        image=outcome.claim.workload.sched,
        nodes=_counts(seen) if seen else NodeCounts(),
        excluded_by=tuple(dict.fromkeys(str(winner.owner) for winner in outcome.winners)),
    )


def _counts(seen: DaemonSet) -> NodeCounts:
    status = seen.status
    return NodeCounts(
        desired=status.desired_number_scheduled,
        scheduled=status.current_number_scheduled,
        ready=status.number_ready,
        updated=status.updated_number_scheduled,
        unavailable=status.number_unavailable,
        misscheduled=status.number_misscheduled,
    )


def _sum(counts: Sequence[NodeCounts]) -> NodeCounts:
    names = NodeCounts.__struct_fields__
    return NodeCounts(**{name: sum(getattr(count, name) for count in counts) for name in names})


def _is_settled(outcome: Outcome) -> bool:
    """Whether the DaemonSet controller has carried out what was asked of it."""
    if outcome.seen is None:
        return outcome.nothing_left
    status = outcome.seen.status
    rolled_out = status.updated_number_scheduled >= status.desired_number_scheduled
    return (
        outcome.current
        and status.observed_generation >= outcome.seen.metadata.generation
        and rolled_out
        and status.number_unavailable == 0
        and status.number_misscheduled == 0
    )


def _ready(
    resource: SchedExt,
    outcomes: Sequence[Outcome],
    nodes: NodeCounts,
    failures: Sequence[NodeFailure],
    leaving: int,
    trouble: Trouble | None,
) -> Condition:
    if trouble:
        return _condition(READY, "False", trouble.reason, trouble.message)
    if resource.spec.suspend:
        if leaving:
            return _condition(READY, "False", "Suspending", f"{leaving} pods are still on their nodes")
        return _condition(READY, "True", "Suspended", "suspended: no scheduler is run")
    if all(outcome.nothing_left for outcome in outcomes):
        return _condition(READY, "False", "Conflicted", "stronger resources have every node that this one selects")
    if failures:
        told = f"{failures[0].node}: {failures[0].message}"
        return _condition(READY, "False", failures[0].reason, f"{len(failures)} nodes fail, first {told}")
    if leaving or not all(_is_settled(outcome) for outcome in outcomes):
        return _condition(READY, "False", "Progressing", f"{nodes.ready} of {nodes.desired} pods are ready")
    if nodes.desired == 0:
        return _condition(READY, "True", "NoNodes", "no node is selected")
    return _condition(READY, "True", "Ready", f"{nodes.ready} of {nodes.desired} pods are ready; {ATTACHMENT}")


def _progressing(resource: SchedExt, outcomes: Sequence[Outcome], nodes: NodeCounts, leaving: int) -> Condition:
    if waiting := next((outcome.waiting for outcome in outcomes if outcome.waiting), ""):
        return _condition(PROGRESSING, "True", "WaitingForNodes", waiting)
    if leaving:
        return _condition(PROGRESSING, "True", "Removing", f"{leaving} pods are still on their nodes")
    if resource.spec.suspend or all(_is_settled(outcome) for outcome in outcomes):
        return _condition(PROGRESSING, "False", "Settled", "everything asked for has been carried out")
    told = f"{nodes.updated} of {nodes.desired} nodes have the newest pod, {nodes.ready} pods are ready"
    return _condition(PROGRESSING, "True", "RollingOut", told)


def _degraded(failures: Sequence[NodeFailure], trouble: Trouble | None) -> Condition:
    if trouble:
        return _condition(DEGRADED, "True", trouble.reason, trouble.message)
    if failures:
        reasons = list(dict.fromkeys(failure.reason for failure in failures))
        reason = reasons[0] if len(reasons) == 1 else "SeveralFailures"
        return _condition(DEGRADED, "True", reason, f"the scheduler does not run on {len(failures)} nodes")
    return _condition(DEGRADED, "False", "NoFailures", "no node fails")


def _conflicted(outcomes: Sequence[Outcome]) -> Condition:
    winners = _names(winner for outcome in outcomes for winner in outcome.winners)
    losers = _names(loser for outcome in outcomes for loser in outcome.losers)
    if winners:
        return _condition(CONFLICTED, "True", "Yields", f"yields the nodes that it selects too to {', '.join(winners)}")
    if losers:
        return _condition(
            CONFLICTED, "True", "GoesFirst", f"has the nodes that are selected too by {', '.join(losers)}"
        )
    return _condition(CONFLICTED, "False", "NoOverlap", "no other resource selects its nodes")


def _names(claims: Iterable[Claim]) -> list[str]:
    return list(dict.fromkeys(f"{claim.owner} (priority {claim.resource.spec.priority})" for claim in claims))


def _suspended(resource: SchedExt) -> Condition:
    if resource.spec.suspend:
        return _condition(SUSPENDED, "True", "Asked", "spec.suspend is true")
    return _condition(SUSPENDED, "False", "NotAsked", "spec.suspend is not true")


def _condition(type_: str, status: str, reason: str, message: str) -> Condition:
    return Condition(type=type_, status=status, reason=reason, message=message, last_transition_time="")


def _keep_times(
    before: Sequence[Condition], now_true: Sequence[Condition], generation: int, now: str
) -> tuple[Condition, ...]:
    """A condition's time is that of its last change of status: what did not change keeps its time."""
    known = {condition.type: condition for condition in before}
    kept = []
    for condition in now_true:
        old = known.get(condition.type)
        since = old.last_transition_time if old and old.status == condition.status else now
        kept.append(replace(condition, observed_generation=generation, last_transition_time=since))
    return tuple(kept)
