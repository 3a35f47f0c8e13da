"""How a claim fares: its nodes counted, its failures found, from the pods and nodes that are seen."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from schedkit.sked.api.conditions import Reason
from schedkit.sked.api.types import NodeCounts, NodeFailure
from schedkit.sked.controller.daemonsets import follows_slot
from schedkit.sked.controller.failures import MESSAGE_LENGTH, find_failures, is_ready, read_node, shorten, steady_in
from schedkit.sked.controller.objects import Node, Pod
from schedkit.sked.controller.plan import ClaimPlan
from schedkit.sked.controller.scheduling import judge_node
from schedkit.sked.controller.world import World
from schedkit.sked.kube.objects import Key


@dataclass(frozen=True)
class Health:
    """What became of one claim."""

    plan: ClaimPlan
    nodes: NodeCounts
    settled: bool = False  # whether every node that can be judged has what it should have
    failures: tuple[NodeFailure, ...] = ()
    failed: int = 0  # on how many nodes
    winners: tuple[Key, ...] = ()  # who has the nodes that it lost, some of them
    again_seconds: float | None = None  # when time alone changes the answer


def examine(world: World, plan: ClaimPlan, now: datetime) -> Health:
    """How one claim fares."""
    winners, reserved = _find_winners(world, plan)
    lost = NodeCounts(yielded=len(plan.standing.lost) - reserved, reserved=reserved)
    seen = plan.seen
    if seen is None:
        # Without a DaemonSet nothing is asked of any node yet; where no node is left, none will be.
        settled = not plan.apply and not plan.waiting and not plan.trouble
        return Health(plan, lost, settled, winners=winners)
    pods = world.pods_of(seen)
    by_node = {read_node(pod): pod for pod in pods if not pod.metadata.deletion_timestamp}
    counts, missing, without = _count(world.find_nodes(plan.claim, seen), plan, by_node)
    failures = find_failures(pods, now)
    failed = len(failures)
    event = world.refusal(seen, now)
    if without and event:
        message = shorten(_strip_names(event.message, seen.metadata.name), MESSAGE_LENGTH)
        failures.insert(0, NodeFailure(node="", reason=Reason.FAILED_CREATE, message=message))
        failed += without
    updated = _count_updated(plan, len(by_node))
    nodes = NodeCounts(
        desired=counts.desired,
        scheduled=counts.scheduled,
        ready=counts.ready,
        updated=updated,
        unavailable=counts.desired - counts.ready,
        misscheduled=len(by_node) - counts.scheduled,
        not_ready=counts.not_ready,
        cordoned=counts.cordoned,
        yielded=lost.yielded,
        reserved=lost.reserved,
    )
    excused = counts.not_ready + counts.cordoned
    leaving = nodes.misscheduled - _count_tolerated(world, plan, by_node)
    settled = (
        plan.apply is None
        and not plan.waiting
        and not plan.standing.pending
        # What follows the slot is rolled by sked, which knows its pods itself: a neighbour that comes is no rollout.
        and (follows_slot(seen) or seen.is_observed)
        and missing == 0
        and leaving <= 0
        and updated + excused >= counts.desired
    )
    return Health(plan, nodes, settled, tuple(failures), failed, winners, _next_look(pods, now))


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
        counts.not_ready += not node.is_ready
        counts.cordoned += node.is_ready and node.spec.unschedulable
        if not works and node.is_ready and not node.spec.unschedulable:
            missing += 1
            without += pod is None and name not in plan.standing.pending
    return counts, missing, without


def _count_tolerated(world: World, plan: ClaimPlan, by_node: dict[str, Pod]) -> int:
    """The pods on nodes that would not be given one, and keep theirs: a taint that came later evicts nobody."""
    claim = plan.claim
    elsewhere = by_node.keys() - world.placement.of(claim).keys() - plan.standing.lost.keys()
    found = (world.nodes.get("", name) for name in elsewhere)
    return sum(judge_node(claim.selector, claim.tolerations, node).stays for node in found if node)


def _count_updated(plan: ClaimPlan, pods: int) -> int:
    seen = plan.seen
    if seen is None or plan.apply is not None:
        return 0
    if follows_slot(seen):
        return pods - plan.old_pods
    return seen.status.updated_number_scheduled if seen.is_observed else 0


def _find_winners(world: World, plan: ClaimPlan) -> tuple[tuple[Key, ...], int]:
    """Who has the nodes that a claim lost, and how many of these nobody has because a person said so."""
    winners: dict[Key, None] = {}
    reserved = 0
    for name in plan.standing.lost:
        decision = world.decision(name)
        if decision.reserved:
            reserved += 1
        elif decision.winner:
            winners[decision.winner.owner] = None
    return tuple(sorted(winners)), reserved


def _strip_names(message: str, daemonset: str) -> str:
    """A refusal without what differs from one pod to the next."""
    plain = message.removeprefix("(combined from similar events): ").removeprefix("Error creating: ")
    return re.sub(rf'pods "{re.escape(daemonset)}-[a-z0-9]+" is', "pods are", plain)


def _next_look(pods: Iterable[Pod], now: datetime) -> float | None:
    return min((left for pod in pods if (left := steady_in(pod, now)) is not None), default=None)
