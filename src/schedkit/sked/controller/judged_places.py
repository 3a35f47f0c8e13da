"""One node as a rollout sees it, made of its pod and of what was judged of its kernel. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from schedkit.sked.api.conditions import Reason
from schedkit.sked.api.rollout_types import RolloutGap
from schedkit.sked.api.types import NodeFailure
from schedkit.sked.controller.attachment import Judgement, NodeState, parse_time, read_birth, read_start
from schedkit.sked.controller.claims import Claim
from schedkit.sked.controller.failures import CRASH_LOOPING, is_ready, is_running, is_waiting
from schedkit.sked.controller.objects import Node, Pod
from schedkit.sked.controller.rolling import RevisionPlan
from schedkit.sked.controller.rollout_memory import Seen, find_leaving_end
from schedkit.sked.controller.rollout_nodes import Place, PlaceState, read_timeout

BROKEN = (Reason.EJECTED, Reason.UNFIT, CRASH_LOOPING)  # of which no time will make anything else


def find_there(node: str, revisions: RevisionPlan, pods: Mapping[tuple[str, str], Pod]) -> str:
    """The revision that a node has where no label says it: what runs there, and not what waits."""
    there = [seen.metadata.name for seen in revisions.seen if (seen.metadata.name, node) in pods]
    running = [name for name in there if is_running(pods[name, node])]
    return (running or there or [""])[-1]


def make_place(
    claim: Claim,
    node: Node,
    seen: Seen,
    pod: Pod | None,
    judgement: Judgement,
    failure: NodeFailure | None,
    skipped: bool,
    now: datetime,
) -> Place:
    """A node with its pod, what was judged of it, and its failure if it has one."""
    # What waits for the slot has not been given it for as long as it is there.
    given_at = (None if pod and is_waiting(pod) else read_birth(pod)) or seen.given_at
    # A node that was well, or that started again, is given the whole time again: a reboot is nobody's failure.
    began = (given_at, min(read_start(pod) or given_at, now), seen.well_at or given_at)
    failed_at = max(began) + read_timeout(claim.rollout)
    state, reason, message = PlaceState.STARTING, str(Reason.NOT_ATTACHED_IN_TIME), judgement.message
    if failure:
        message = failure.message
        if failure.reason in BROKEN:
            state, reason = PlaceState.FAILED, failure.reason
    if state is not PlaceState.FAILED:
        if judgement.state is NodeState.ATTACHED and pod:
            state = PlaceState.WORKING
        elif judgement.state is NodeState.UNKNOWN:
            state = PlaceState.UNKNOWN
        elif seen.revision and now >= failed_at:
            state = PlaceState.FAILED
    return Place(
        node.metadata.name,
        seen.revision,
        state,
        skipped=skipped,
        leaving_until=find_leaving_end(seen, judgement, read_timeout(claim.rollout)),
        ready=pod is not None and is_ready(pod),
        # Of one that was attached before its agent looked, only what has been seen since then counts.
        attached_at=(parse_time(judgement.since) or seen.attached_at) if state is PlaceState.WORKING else None,
        given_at=given_at,
        failed_at=failed_at if state is PlaceState.STARTING else None,
        coming=seen.coming,
        reason=reason,
        message=message,
        labels=node.metadata.labels,
    )


def summarise_gaps(gaps: Iterable[int | None]) -> RolloutGap | None:
    """How long nodes were without a scheduler; None: it is known of none."""
    known = sorted(gap for gap in gaps if gap is not None)
    if not known:
        return None
    middle = len(known) // 2  # counted from both ends: of an even number there are two
    median = round((known[middle] + known[~middle]) / 2)
    return RolloutGap(median_milliseconds=median, worst_milliseconds=known[-1])
