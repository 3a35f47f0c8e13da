"""How a claim fares: its nodes counted, its failures found, from the pods and nodes that are seen."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from schedkit.sked.api.conditions import Reason
from schedkit.sked.api.types import NodeCounts, NodeFailure
from schedkit.sked.controller.attachment import Judgement, NodeState
from schedkit.sked.controller.daemonsets import follows_slot
from schedkit.sked.controller.failures import (
    CRASH_LOOPING,
    MESSAGE_LENGTH,
    find_failures,
    is_ready,
    is_running,
    read_node,
    shorten,
    steady_in,
)
from schedkit.sked.controller.judgements import Judgements
from schedkit.sked.controller.objects import Node, Pod
from schedkit.sked.controller.plan import ClaimPlan
from schedkit.sked.controller.scheduling import judge_node
from schedkit.sked.controller.slots import find_given, read_next, read_slot, read_slot_of
from schedkit.sked.controller.world import World
from schedkit.sked.kube.objects import Key

# What is wrong with a kernel, and how status.failures calls it.
REASONS = {
    NodeState.DETACHED: Reason.DETACHED,
    NodeState.FOREIGN: Reason.FOREIGN_SCHEDULER,
    NodeState.EJECTED: Reason.EJECTED,
    NodeState.UNFIT: Reason.UNFIT,
}


@dataclass(frozen=True)
class Kernels:
    """What the kernels of a claim's nodes say."""

    no_reports: str = ""  # why none can be judged
    attaching: int = 0
    skipped: int = 0  # unfit nodes that are left out
    first: Mapping[NodeState, tuple[str, Judgement]] = field(default_factory=dict)  # a node for each state
    bad: Mapping[str, Judgement] = field(default_factory=dict)  # by node
    judged: Mapping[str, Judgement] = field(default_factory=dict)  # all nodes, where a rollout goes by them
    again_seconds: float | None = None


@dataclass(frozen=True)
class Health:
    """What became of one claim."""

    plan: ClaimPlan
    nodes: NodeCounts
    kernels: Kernels = Kernels()
    settled: bool = False  # whether every node that can be judged has what it should have
    failures: tuple[NodeFailure, ...] = ()
    failed: int = 0  # on how many nodes
    winners: tuple[Key, ...] = ()  # who has the nodes that it lost, some of them
    again_seconds: float | None = None  # when time alone changes the answer


def examine(world: World, judgements: Judgements, plan: ClaimPlan, now: datetime) -> Health:
    """How one claim fares."""
    winners, reserved, skipped, quarantined = _find_winners(world, plan)
    yielded = len(plan.standing.lost) - reserved - skipped - len(quarantined)
    lost = NodeCounts(yielded=yielded, reserved=reserved, unfit=skipped, quarantined=len(quarantined))
    seen = plan.seen
    if seen is None:
        # Without a DaemonSet nothing is asked of any node yet; where no node is left, none will be.
        settled = not plan.apply and not plan.waiting and not plan.trouble and not plan.verifying
        return Health(plan, lost, Kernels(world.sight.no_reports, skipped=skipped), settled, winners=winners)
    daemonsets = plan.revisions.seen if plan.revisions else (seen,)
    by_node, beside = _choose_pods(world, chain.from_iterable(map(world.workloads.pods_of, daemonsets)))
    troubled = list(chain.from_iterable(map(world.workloads.find_troubled, daemonsets)))
    nodes_of = dict(world.find_nodes(plan.claim, seen))
    counts, missing, without = _count(nodes_of.items(), plan, by_node)
    states, kernels = _judge(world, judgements, plan, nodes_of, by_node, beside, skipped, now)
    failures = [*quarantined, *_add_kernels(find_failures(troubled, now), kernels.bad, by_node)]
    failed = len(failures)
    event = next((found for one in daemonsets if (found := world.workloads.refusal(one, now))), None)
    if without and event:
        message = shorten(_strip_names(event.message, seen.metadata.name), MESSAGE_LENGTH)
        failures.insert(0, NodeFailure(node="", reason=Reason.FAILED_CREATE, message=message))
        failed += without
    updated = _count_updated(plan, by_node)
    nodes = NodeCounts(
        desired=counts.desired,
        scheduled=counts.scheduled,
        ready=counts.ready,
        updated=updated,
        unavailable=counts.desired - counts.ready,
        misscheduled=len(by_node) - counts.scheduled,
        not_ready=counts.not_ready,
        cordoned=counts.cordoned,
        attached=states[NodeState.ATTACHED],
        detached=states[NodeState.DETACHED],
        foreign=states[NodeState.FOREIGN],
        ejected=states[NodeState.EJECTED],
        unfit=states[NodeState.UNFIT] + skipped,
        unknown=states[NodeState.UNKNOWN],
        yielded=lost.yielded,
        reserved=lost.reserved,
        quarantined=lost.quarantined,
    )
    excused = counts.not_ready + counts.cordoned
    leaving = nodes.misscheduled - _count_tolerated(world, plan, by_node)
    settled = (
        plan.apply is None
        and not plan.waiting
        and not plan.verifying
        and not plan.standing.pending
        # What follows the slot is rolled by sked, which knows its pods itself: a neighbour that comes is no rollout.
        # And where there is no node, the DaemonSet controller has nothing to do that were worth waiting for.
        and (follows_slot(seen) or plan.revisions is not None or seen.is_observed or counts.desired == 0)
        and missing == 0
        and kernels.attaching == 0
        and leaving <= 0
        and updated + excused >= counts.desired
    )
    times = [time for time in (_next_look(troubled, now), kernels.again_seconds) if time is not None]
    return Health(plan, nodes, kernels, settled, tuple(failures), failed, winners, min(times, default=None))


def _judge(
    world: World,
    judgements: Judgements,
    plan: ClaimPlan,
    nodes: Mapping[str, Node],
    by_node: Mapping[str, Pod],
    beside: Mapping[str, list[Pod]],
    skipped: int,
    now: datetime,
) -> tuple[Counter[NodeState], Kernels]:
    """How many nodes are in which state by the word of their kernels, and what is worth telling of them."""
    states: Counter[NodeState] = Counter()
    judged: dict[str, Judgement] = {}
    if why := world.sight.no_reports:
        states[NodeState.UNKNOWN] = len(nodes)
        if plan.revisions:
            judged = dict.fromkeys(nodes, Judgement(NodeState.UNKNOWN, why))
        return states, Kernels(why, skipped=skipped, judged=judged)
    first: dict[NodeState, tuple[str, Judgement]] = {}
    bad: dict[str, Judgement] = {}
    attached, attaching, until = 0, 0, None
    for name, node in nodes.items():
        found = judgements.look(plan.claim, node, by_node.get(name), now, beside.get(name, ()))
        if plan.revisions:
            judged[name] = found
        if found.until is not None:
            until = found.until if until is None else min(until, found.until)
        if found.state is NodeState.ATTACHED:
            attached += 1
            continue
        states[found.state] += 1
        if found.state not in first or name < first[found.state][0]:
            first[found.state] = name, found
        if found.state in REASONS:
            bad[name] = found
        elif found.state is NodeState.ATTACHING and node.is_ready and not node.spec.unschedulable:
            attaching += 1
    states[NodeState.ATTACHED] = attached  # which nearly all are: to count them one by one here would take longer
    again = max((until - now).total_seconds(), 0.0) if until else None
    return states, Kernels("", attaching, skipped, first, bad, judged, again)


def _add_kernels(
    failures: list[NodeFailure], bad: Mapping[str, Judgement], by_node: Mapping[str, Pod]
) -> list[NodeFailure]:
    """The failures of pods, with what the kernels say: that a scheduler ends again and again is only half of it."""
    pods = {pod.metadata.name for pod in by_node.values()}  # of what waits beside them its own failure is told
    known = {failure.node: failure for failure in failures if failure.pod in pods}
    added = {}
    for name, found in bad.items():
        of_pod = known.get(name)
        if of_pod and (of_pod.reason != CRASH_LOOPING or found.state is NodeState.DETACHED):
            continue  # whatever keeps a pod from running comes first
        pod = by_node.get(name)
        # How it ended, and then what its log says, which is added to the end of the message.
        ended = f"; {of_pod.message}" if of_pod and found.state is not NodeState.FOREIGN else ""
        message = shorten(found.message + ended, MESSAGE_LENGTH)
        added[name] = NodeFailure(
            node=name, pod=pod.metadata.name if pod else "", reason=REASONS[found.state], message=message
        )
    kept = [failure for failure in failures if failure.node not in added or failure.pod not in pods]
    return sorted([*kept, *added.values()], key=lambda failure: (failure.node, failure.pod))


@dataclass
class _Counts:
    desired: int = 0
    scheduled: int = 0
    ready: int = 0
    not_ready: int = 0
    cordoned: int = 0


def _count(nodes: Iterable[tuple[str, Node]], plan: ClaimPlan, by_node: dict[str, Pod]) -> tuple[_Counts, int, int]:
    """The nodes that should run it; of those that can be judged, how many do not, and how many have no pod."""
    counts, missing, without = _Counts(), 0, 0
    for name, node in nodes:
        counts.desired += 1
        pod = by_node.get(name)
        works = pod is not None and is_ready(pod)
        counts.scheduled += pod is not None
        counts.ready += works
        can_run = node.is_ready
        counts.not_ready += not can_run
        counts.cordoned += can_run and node.spec.unschedulable
        if not works and can_run and not node.spec.unschedulable:
            missing += 1
            without += pod is None and name not in plan.standing.pending
    return counts, missing, without


def _count_tolerated(world: World, plan: ClaimPlan, by_node: dict[str, Pod]) -> int:
    """The pods on nodes that would not be given one, and keep theirs: a taint that came later evicts nobody."""
    claim = plan.claim
    elsewhere = by_node.keys() - world.placement.of(claim).keys() - plan.standing.lost.keys()
    found = (world.nodes.get("", name) for name in elsewhere)
    return sum(judge_node(claim.selector, claim.tolerations, node).stays for node in found if node)


def _choose_pods(world: World, pods: Iterable[Pod]) -> tuple[dict[str, Pod], dict[str, list[Pod]]]:
    """The pods that count, by node: where several are, that of the revision that has the slot; and those beside it."""
    by_node: dict[str, Pod] = {}
    beside: dict[str, list[Pod]] = {}
    for pod in pods:
        name = read_node(pod)
        if pod.metadata.deletion_timestamp:
            continue
        if name in by_node and (node := world.nodes.get("", name)):
            found = {read_slot_of(one): one for one in (by_node[name], pod)}
            holder, waiter = found.get(read_slot(node).value), found.get(read_next(node).value)
            running = pod if is_running(pod) else by_node[name]  # who counts where no label says it
            chosen = found.get(find_given(node, holder, waiter), running)
            beside.setdefault(name, []).append(pod if chosen is not pod else by_node[name])
            by_node[name] = chosen
        else:
            by_node[name] = pod
    return by_node, beside


def _count_updated(plan: ClaimPlan, by_node: Mapping[str, Pod]) -> int:
    seen = plan.seen
    if seen is None or plan.apply is not None:
        return 0
    if plan.revisions:
        owners = (pod.metadata.controller for pod in by_node.values())
        return sum(owner is not None and owner.name == plan.revisions.target for owner in owners)
    if follows_slot(seen) or plan.held:
        return len(by_node) - plan.old_pods
    return seen.status.updated_number_scheduled if seen.is_observed else 0


def _find_winners(world: World, plan: ClaimPlan) -> tuple[tuple[Key, ...], int, int, list[NodeFailure]]:
    """Who has the nodes that a claim lost; how many are reserved, or unfit; and those that are in quarantine."""
    winners: dict[Key, None] = {}
    reserved = skipped = 0
    quarantined = []
    for name in plan.standing.lost:
        decision = world.decision(name)
        if decision.reserved:
            reserved += 1
        elif decision.winner:
            winners[decision.winner.owner] = None
        elif (node := world.nodes.get("", name)) and (note := world.find_quarantine(node)):
            message = f"in quarantine since {note.since}: {note.reason}"
            quarantined.append(NodeFailure(node=name, reason=Reason.QUARANTINED, message=message))
        elif decision.keeps_off:
            skipped += 1
    return tuple(sorted(winners)), reserved, skipped, quarantined


def _strip_names(message: str, daemonset: str) -> str:
    """A refusal without what differs from one pod to the next."""
    plain = message.removeprefix("(combined from similar events): ").removeprefix("Error creating: ")
    return re.sub(rf'pods "{re.escape(daemonset)}-[a-z0-9]+" is', "pods are", plain)


def _next_look(pods: Iterable[Pod], now: datetime) -> float | None:
    return min((left for pod in pods if (left := steady_in(pod, now)) is not None), default=None)
