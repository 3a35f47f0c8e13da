"""The status of a resource: a pure function of what was asked for, planned and seen."""

import re
from collections.abc import Sequence

from msgspec.structs import replace

from schedkit.sked.api.conditions import (
    ATTACHED,
    CONFLICTED,
    DEGRADED,
    PROGRESSING,
    READY,
    RECONCILING,
    STALLED,
    SUSPENDED,
    VERIFIED,
    Reason,
)
from schedkit.sked.api.kubernetes import Condition
from schedkit.sked.api.rollout_types import RolloutStatus
from schedkit.sked.api.types import (
    FAILURES_TOLD,
    WINNERS_TOLD,
    NodeCounts,
    NodeFailure,
    PoolStatus,
    SchedExt,
    SchedExtStatus,
)
from schedkit.sked.api.workloads import resolve_workloads, short_scheduler_name
from schedkit.sked.controller.attachment import NodeState
from schedkit.sked.controller.failures import shorten
from schedkit.sked.controller.health import REASONS, Health
from schedkit.sked.controller.plan import Plan, Trouble
from schedkit.sked.controller.rolling import read_status
from schedkit.sked.controller.rollout_status import (
    find_worst,
    summarise,
    tell_not_ready,
    tell_progressing,
    tell_stalled,
)
from schedkit.sked.controller.steering import NOT_STEERED, Steerings
from schedkit.sked.controller.verification import describe, read_refresh, tell_pool

MESSAGE_LENGTH = 1024
# Without reports this is all that can be said of kernels.
ATTACHMENT = "whether the kernels attached it is unknown: {}"
INSTALL = "; install the agents: kubectl apply -k config/default, or agent.enabled=true in the chart"
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")


def make_status(
    plan: Plan,
    healths: Sequence[Health],
    failures: Sequence[NodeFailure],
    undecided: str,
    now: str,
    trouble: Trouble | None = None,
    steered: Steerings = NOT_STEERED,
) -> SchedExtStatus:
    """The whole status; `undecided` says why nodes cannot be labelled, if they cannot."""
    resource = plan.resource
    pools = tuple(_pool(health, _find_rollout(resource, health, steered)) for health in healths)
    rollout = find_worst(pools)
    nodes = _sum([pool.nodes or NodeCounts() for pool in pools])
    failed = sum(health.failed for health in healths)
    trouble = trouble or plan.trouble or _find_trouble(healths, undecided)
    told = tell_progressing(rollout) if rollout else None
    progressing = _condition(PROGRESSING, *told) if told else _progressing(plan, healths, nodes)
    ready = _ready(plan, healths, nodes, failures, failed, trouble)
    if rollout and not trouble and (told := tell_not_ready(rollout, failing=bool(failures))):
        ready = _condition(READY, *told)
    conditions = [
        ready,
        _attached(plan, healths, nodes),
        _condition(RECONCILING, progressing.status, progressing.reason, progressing.message),
        _stalled(trouble, failures, rollout),
        progressing,
        _degraded(healths, failures, failed, trouble),
        _conflicted(healths, nodes, undecided),
        _suspended(resource),
    ]
    judgements = [health.plan.judgement for health in healths if health.plan.judgement]
    if verified := describe(judgements):
        conditions.append(_condition(VERIFIED, *verified))
    generation = resource.metadata.generation
    images = list(dict.fromkeys(pool.image for pool in pools if pool.image))
    return SchedExtStatus(
        observed_generation=generation,
        priority=healths[0].plan.claim.priority if healths else resource.spec.priority,
        summary=conditions[0].reason,
        scheduler=",".join(dict.fromkeys(short_scheduler_name(image) for image in images)),
        image=",".join(images),
        nodes=nodes,
        conditions=_keep_times(resource.status.conditions, conditions, generation, now),
        # Which revision failed and what was carried out holds when it is no longer suspended, too.
        pools=_keep_rollouts(resource.status) if resource.spec.suspend else pools,
        current_revision=",".join(pool.rollout.current_revision for pool in pools if pool.rollout),
        update_revision=",".join(pool.rollout.update_revision for pool in pools if pool.rollout),
        rollout=summarise(rollout) if rollout else None,
        failures=tuple(failures[:FAILURES_TOLD]),
        last_handled_refresh=read_refresh(resource) if judgements else "",
        failure_count=failed,
    )


def make_blind_status(resource: SchedExt, trouble: Trouble, now: str) -> SchedExtStatus:
    """The status while the cluster may not be looked at: everything that is seen there is unknown."""
    conditions = [
        *(_condition(type_, "Unknown", trouble.reason, trouble.message) for type_ in (READY, ATTACHED, RECONCILING)),
        _condition(STALLED, "True", trouble.reason, trouble.message),
        _condition(PROGRESSING, "Unknown", trouble.reason, trouble.message),
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
        pools=_keep_rollouts(resource.status),
    )


def make_unreadable_status(generation: int, before: SchedExtStatus, fault: str, now: str) -> SchedExtStatus:
    """The status of a resource whose spec is not understood, as it was stored before there was validation."""
    message = f"spec does not fit its definition: {fault}; its DaemonSets are left as they are"
    unknown = (ATTACHED, RECONCILING, PROGRESSING, CONFLICTED, SUSPENDED)
    conditions = [
        _condition(READY, "False", Reason.UNREADABLE, message),
        *(_condition(type_, "True", Reason.UNREADABLE, message) for type_ in (STALLED, DEGRADED)),
        *(_condition(type_, "Unknown", Reason.UNREADABLE, message) for type_ in unknown),
    ]
    return SchedExtStatus(
        observed_generation=generation,
        summary=Reason.UNREADABLE,
        conditions=_keep_times(before.conditions, conditions, generation, now),
        pools=_keep_rollouts(before),
    )


def shorten_status(status: SchedExtStatus) -> SchedExtStatus:
    """A status that the API server takes when it refused the whole one: the conditions in few words."""
    conditions = tuple(replace(condition, message=shorten(condition.message, 200)) for condition in status.conditions)
    return SchedExtStatus(
        observed_generation=status.observed_generation,
        summary=status.summary,
        nodes=status.nodes,
        conditions=conditions,
        pools=_keep_rollouts(status),
        failure_count=status.failure_count,
    )


def _keep_rollouts(status: SchedExtStatus) -> tuple[PoolStatus, ...]:
    """Of pools what is remembered of their rollouts: which revision is stable, which failed, what was carried out."""
    return tuple(PoolStatus(name=pool.name, rollout=pool.rollout) for pool in status.pools if pool.rollout)


def _find_rollout(resource: SchedExt, health: Health, steered: Steerings) -> RolloutStatus | None:
    """How a claim's rollout stands: as it was, where trouble kept it from being looked at."""
    claim = health.plan.claim
    if found := steered.get(claim.identity):
        return found.status
    return read_status(resource, claim) if health.plan.trouble else None


def _pool(health: Health, rollout: RolloutStatus | None) -> PoolStatus:
    claim, seen = health.plan.claim, health.plan.seen
    pool = PoolStatus(
        name=claim.workload.pool,
        daemon_set=seen.metadata.name if seen else "",
        image=claim.workload.sched,
        nodes=health.nodes,
        excluded_by=tuple(str(winner) for winner in health.winners[:WINNERS_TOLD]),
        rollout=rollout,
    )
    runs = seen.spec.template.spec.containers[0].image if seen else ""
    return tell_pool(health.plan.judgement, runs, pool)


def _sum(counts: Sequence[NodeCounts]) -> NodeCounts:
    names = NodeCounts.__struct_fields__
    return NodeCounts(**{name: sum(getattr(count, name) for count in counts) for name in names})


def _find_trouble(healths: Sequence[Health], undecided: str) -> Trouble | None:
    for health in healths:
        if health.plan.trouble:
            return health.plan.trouble
        if undecided and health.plan.waiting and health.plan.standing.unlabelled:
            return Trouble(Reason.NOT_WRITABLE, health.plan.waiting)
        standing = health.plan.standing
        if undecided and health.plan.revisions and (standing.pending or standing.unlabelled):
            return Trouble(Reason.NOT_WRITABLE, f"sked cannot label nodes: {undecided}")
    return None


def _ready(
    plan: Plan,
    healths: Sequence[Health],
    nodes: NodeCounts,
    failures: Sequence[NodeFailure],
    failed: int,
    trouble: Trouble | None,
) -> Condition:
    if trouble:
        return _condition(READY, "False", trouble.reason, trouble.message)
    if plan.resource.spec.suspend:
        if plan.leaving:
            return _condition(READY, "False", Reason.SUSPENDING, f"{plan.leaving} pods are still on their nodes")
        return _condition(READY, "True", Reason.SUSPENDED, "suspended: no scheduler is run")
    if failures:
        first = failures[0]
        where = f"{first.node}: " if first.node else ""
        return _condition(READY, "False", first.reason, f"{failed} nodes fail, first {where}{first.message}")
    if plan.leaving or not all(health.settled for health in healths):
        told = f"{nodes.ready} of {nodes.desired} pods are ready"
        if nodes.unknown < nodes.desired:
            told += f", {nodes.attached} attached"
        return _condition(READY, "False", Reason.PROGRESSING, told)
    if nodes.desired == 0 and nodes.yielded + nodes.reserved:
        return _condition(READY, "False", Reason.CONFLICTED, "others have every node that this one selects")
    if nodes.desired == 0:
        left_out = f"no node is left: {_nodes(nodes.unfit)} left out as unfit" if nodes.unfit else "no node is selected"
        return _condition(READY, "True", Reason.NO_NODES, left_out)
    excused = nodes.not_ready + nodes.cordoned
    aside = f", {_nodes(excused)} NotReady or cordoned" if excused else ""
    if any(health.plan.narrowed for health in healths):
        aside += ", someone else changed which nodes are selected"
    if nodes.unfit:
        aside += f", {_nodes(nodes.unfit)} left out as unfit"
    if no_reports := _find_silence(healths):
        told = f"{nodes.ready} of {nodes.desired} pods are ready{aside}; {ATTACHMENT.format(no_reports)}"
        return _condition(READY, "True", Reason.READY, told)
    return _condition(READY, "True", Reason.READY, f"{_tell_attached(nodes)}{aside}")


def _attached(plan: Plan, healths: Sequence[Health], nodes: NodeCounts) -> Condition:
    if plan.resource.spec.suspend:
        return _condition(ATTACHED, "False", Reason.SUSPENDED, "suspended: no scheduler is run")
    if nodes.desired == 0:
        return _condition(ATTACHED, "False", Reason.NO_NODES, "no node is to run it")
    if no_reports := _find_silence(healths):
        return _condition(ATTACHED, "Unknown", Reason.NO_AGENTS, f"{ATTACHMENT.format(no_reports)}{INSTALL}")
    for state, reason in {**REASONS, NodeState.ATTACHING: Reason.ATTACHING}.items():
        if first := _find_first(healths, state):
            told = f"{_tell_attached(nodes)}; not {first}"
            return _condition(ATTACHED, "False", reason, told)
    if first := _find_first(healths, NodeState.UNKNOWN):
        return _condition(ATTACHED, "Unknown", Reason.NOT_REPORTED, f"{_tell_attached(nodes)}; unknown of {first}")
    return _condition(ATTACHED, "True", Reason.ATTACHED, _tell_attached(nodes))


def _find_silence(healths: Sequence[Health]) -> str:
    return next((health.kernels.no_reports for health in healths if health.kernels.no_reports), "")


def _find_first(healths: Sequence[Health], state: NodeState) -> str:
    """The first node in a state, and why it is."""
    found = [health.kernels.first[state] for health in healths if state in health.kernels.first]
    if not found:
        return ""
    name, judgement = min(found, key=lambda pair: pair[0])
    return f"{name}: {judgement.message}"


def _tell_attached(nodes: NodeCounts) -> str:
    if nodes.unknown:
        return f"{nodes.attached} attached, {nodes.unknown} unknown"
    return f"{nodes.attached} of {nodes.desired} nodes are attached"


def _progressing(plan: Plan, healths: Sequence[Health], nodes: NodeCounts) -> Condition:
    if verifying := next((health.plan.verifying for health in healths if health.plan.verifying), ""):
        return _condition(PROGRESSING, "True", Reason.VERIFYING, verifying)
    if waiting := next((health.plan.waiting for health in healths if health.plan.waiting), ""):
        return _condition(PROGRESSING, "True", Reason.WAITING_FOR_NODES, waiting)
    if pending := sorted(name for health in healths for name in health.plan.standing.pending):
        more = f" and {len(pending) - 1} more" if len(pending) > 1 else ""
        message = f"waits until another scheduler has left node {pending[0]}{more}"
        return _condition(PROGRESSING, "True", Reason.WAITING_FOR_NODES, message)
    if plan.leaving:
        return _condition(PROGRESSING, "True", Reason.REMOVING, f"{plan.leaving} pods are still on their nodes")
    if plan.resource.spec.suspend or all(health.settled for health in healths):
        return _condition(PROGRESSING, "False", Reason.SETTLED, "everything asked for has been carried out")
    told = f"{nodes.updated} of {nodes.desired} nodes have the newest pod, {nodes.ready} pods are ready"
    if nodes.unknown < nodes.desired:
        told += f", {nodes.attached} attached"
    return _condition(PROGRESSING, "True", Reason.ROLLING_OUT, told)


def _stalled(trouble: Trouble | None, failures: Sequence[NodeFailure], rollout: RolloutStatus | None) -> Condition:
    if trouble:
        return _condition(STALLED, "True", trouble.reason, trouble.message)
    if rollout and (told := tell_stalled(rollout)):
        return _condition(STALLED, *told)
    if failures and failures[0].reason == Reason.FAILED_CREATE:
        return _condition(STALLED, "True", Reason.FAILED_CREATE, failures[0].message)
    return _condition(STALLED, "False", Reason.NOT_STALLED, "nothing keeps the operator from going on")


def _degraded(
    healths: Sequence[Health], failures: Sequence[NodeFailure], failed: int, trouble: Trouble | None
) -> Condition:
    if trouble:
        return _condition(DEGRADED, "True", trouble.reason, trouble.message)
    if failures:
        reasons = list(dict.fromkeys(failure.reason for failure in failures))
        reason = reasons[0] if len(reasons) == 1 else Reason.SEVERAL_FAILURES
        return _condition(DEGRADED, "True", reason, f"the scheduler does not run on {_nodes(failed)}")
    if drifted := next((health.plan.claim.name for health in healths if health.plan.drifted), ""):
        message = f"someone else added fields to DaemonSet {drifted}; its pods may differ from spec"
        return _condition(DEGRADED, "True", Reason.MODIFIED_BY_OTHERS, message)
    return _condition(DEGRADED, "False", Reason.NO_FAILURES, "no node fails")


def _conflicted(healths: Sequence[Health], nodes: NodeCounts, undecided: str) -> Condition:
    if undecided and (names := sorted(name for health in healths for name in health.plan.standing.unlabelled)):
        message = f"other resources select {_nodes(len(names))} too, first {names[0]}, and sked cannot label nodes"
        return _condition(CONFLICTED, "True", Reason.UNDECIDED, message)
    if nodes.yielded:
        winners = list(dict.fromkeys(str(winner) for health in healths for winner in health.winners))
        told = ", ".join(winners[:3]) + (f" and {len(winners) - 3} more" if len(winners) > 3 else "")
        limited = next((f"; {cut}" for health in healths if (cut := _describe_limit(health))), "")
        return _condition(CONFLICTED, "True", Reason.YIELDS, f"yields {_nodes(nodes.yielded)} to {told}{limited}")
    if nodes.reserved:
        return _condition(CONFLICTED, "False", Reason.RESERVED, f"{_nodes(nodes.reserved)} reserved by the slot label")
    return _condition(CONFLICTED, "False", Reason.NO_OVERLAP, "no other resource has nodes that this one selects")


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _describe_limit(health: Health) -> str:
    """What the administrator's ceiling left of a priority, where it cut it."""
    claim = health.plan.claim
    asked = claim.resource.spec.priority
    return f"its priority {asked} is limited to {claim.priority}" if claim.priority != asked else ""


def _suspended(resource: SchedExt) -> Condition:
    if resource.spec.suspend:
        return _condition(SUSPENDED, "True", Reason.ASKED, "spec.suspend is true")
    return _condition(SUSPENDED, "False", Reason.NOT_ASKED, "spec.suspend is not true")


def _condition(type_: str, status: str, reason: str, message: str) -> Condition:
    """A condition within the bounds of its definition: a kubelet's reason may be any text."""
    fitting = str(reason) if _REASON.fullmatch(reason) else "Other"
    text = shorten(message, MESSAGE_LENGTH)
    return Condition(type=type_, status=status, reason=fitting, message=text, last_transition_time="")


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
