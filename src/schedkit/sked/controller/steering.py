"""What a rollout does next, from what is seen of its nodes; and what the labels and the status say of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from schedkit.sked.api.conditions import Reason
from schedkit.sked.api.requests import PENDING, SLOT, make_slot
from schedkit.sked.api.rollout_types import COMPLETE, ROLLED_BACK, ROLLING_BACK, RolloutNodes, RolloutStatus
from schedkit.sked.api.types import NodeFailure, SchedExt
from schedkit.sked.controller.attachment import Judgement, NodeState, parse_time, read_image
from schedkit.sked.controller.claims import Claim, Identity
from schedkit.sked.controller.daemonsets import find_waiter
from schedkit.sked.controller.failure_logs import ALL_READ, Unread
from schedkit.sked.controller.failures import (
    find_pull_fault,
    find_waiting,
    has_begun,
    is_waiting,
    read_node,
)
from schedkit.sked.controller.judged_places import find_there, make_place, summarise_gaps
from schedkit.sked.controller.objects import Node, Pod
from schedkit.sked.controller.progress import Cause, Progress, Requests
from schedkit.sked.controller.pulls import PULL, PullPod, judge_pull, make_pull_pod, name_pull_pod
from schedkit.sked.controller.quarantine import read_quarantine
from schedkit.sked.controller.rolling import (
    RevisionPlan,
    find_newest,
    note_asked,
    read_progress,
    read_requests,
    read_status,
    tell_progress,
)
from schedkit.sked.controller.rollout import Course, advance
from schedkit.sked.controller.rollout_memory import (
    Rest,
    Seen,
    is_same_gap,
    remember,
    remember_coming,
    remember_gap,
    remember_left,
)
from schedkit.sked.controller.rollout_nodes import Place, PlaceState, read_timeout
from schedkit.sked.controller.slots import Assignment, find_given, read_next, read_slot
from schedkit.sked.controller.workloads import CONTROLLER
from schedkit.sked.controller.world import World
from schedkit.sked.kube.objects import Key

Pullers = Mapping[tuple[str, str], Pod]  # by revision and node
WAITER_STARTS = timedelta(seconds=3)  # until what waits looks at the kernel, and its kubelet is at rest again
WAITER_SECONDS = timedelta(seconds=60)  # for so long a pod is waited for that is to wait for the slot
UNSEEN = timedelta(seconds=60)  # for so long a pod may be there before it is seen


@dataclass(frozen=True)
class Steered:
    """What was decided of a rollout."""

    assignment: Assignment
    status: RolloutStatus
    pull: tuple[PullPod, ...] = ()
    drop: tuple[Pod, ...] = ()  # pods that have pulled what they were to pull
    gaps: tuple[int, ...] = ()  # for how many milliseconds nodes were without that got another revision just now
    again_seconds: float | None = None


Steerings = Mapping[Identity, Steered]  # by claim: what was decided of its rollout
NOT_STEERED: Steerings = {}


class Steering:
    """Decides of rollouts, look by look; remembers times that nobody else tells, and whose label is on its way."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._seen: dict[Identity, dict[str, Seen]] = {}
        self._rest: dict[Identity, Rest] = {}
        # Nodes that were taken off a revision while their label still says it: what is written may not be seen yet, and
        # by the next look another node may be first.
        self._taken: dict[tuple[Identity, str], str] = {}
        self._without_pulls: set[Key] = set()  # resources for which no pods may be made
        # By node, the name of the pod that was to pull and could not be made, as there is one of that name; since when.
        self._names_taken: dict[tuple[Identity, str], tuple[str, datetime]] = {}

    def steer(
        self,
        claim: Claim,
        revisions: RevisionPlan,
        judged: Mapping[str, Judgement],
        failures: Sequence[NodeFailure],
        now: datetime,
        *,
        unread: Unread = ALL_READ,
        quarantined: int = 0,
        verified: bool = True,
    ) -> Steered:
        """What a claim's rollout does next; `judged` are its nodes by name."""
        resource = find_newest(self._world, claim)
        known = read_status(resource, claim)
        pullers = self._find_pullers(revisions)
        progress = read_progress(known, revisions)
        requests = read_requests(resource, known, revisions)
        retried = revisions.target if _is_retry(progress, requests, revisions.target) else ""
        places, gaps = self._find_places(claim, revisions, judged, failures, unread, pullers, retried, now)
        if not verified and not revisions.chosen:  # what a person goes back to was verified when it was made
            requests = replace(requests, held=True)
        # Of what is not known yet nothing is moved, and neither to what is not there.
        target = revisions.target or (known.update_revision if known else "")
        if not revisions.target:
            requests = Requests(paused=True)
        course = advance(claim.rollout, progress, target, places, requests, now)
        told = self._tell(claim, course, places, target, quarantined)
        status = note_asked(told, resource, known, revisions, self._find_kept(resource))
        again = (course.again - now).total_seconds() if course.again else None
        is_noted = course.progress == progress
        pull, drop = self._plan_pulls(revisions, target, course, places, pullers) if is_noted else ((), ())
        assignment = self._assign(claim, revisions, course, progress if progress.update else course.progress)
        if not is_noted:
            assignment = replace(assignment, values=self._find_carried_out(claim, course.progress.failed))
        self._note_taken(claim, assignment)
        # What was there before the first revision was not a scheduler.
        return Steered(assignment, status, pull, drop, tuple(gaps if progress.current else ()), again)

    def _find_kept(self, resource: SchedExt) -> frozenset[str]:
        """The revisions of all pools of a resource."""
        found = self._world.daemonsets.find(CONTROLLER, resource.metadata.uid)
        return frozenset(seen.metadata.name for seen in found if not seen.metadata.deletion_timestamp)

    def _note_taken(self, claim: Claim, assignment: Assignment) -> None:
        find_node, identity, slots = self._world.nodes.get, claim.identity, assignment.slots
        for taken in [taken for taken in self._taken if not find_node("", taken[1])]:
            del self._taken[taken]
        for name, value in assignment.values.items():
            node = find_node("", name)
            label = node.metadata.labels.get(SLOT, "") if node else ""
            if label != value and label in slots:
                self._taken[identity, name] = label
            elif self._taken:
                self._taken.pop((identity, name), None)

    def _find_pullers(self, revisions: RevisionPlan) -> Pullers:
        """The pods that bring images to nodes, by revision and node."""
        return {
            (seen.metadata.name, pod.spec.node_name): pod
            for seen in revisions.seen
            for pod in self._world.pods.find(PULL, str(seen.metadata.key))
            if any(owner.uid == seen.metadata.uid for owner in pod.metadata.owner_references)
        }

    def _plan_pulls(
        self, revisions: RevisionPlan, target: str, course: Course, places: Iterable[Place], pullers: Pullers
    ) -> tuple[tuple[PullPod, ...], tuple[Pod, ...]]:
        """Which pods are to pull images, and which have done so."""
        revision = revisions.find(target)
        if revision is None or course.progress.phase in (ROLLING_BACK, ROLLED_BACK, COMPLETE):
            return (), tuple(pod for pod in pullers.values() if not pod.metadata.deletion_timestamp)
        # They go before the old scheduler does: what a kubelet clears away meanwhile would make the gap longer.
        waiting = {place.name for place in places if place.revision != target and not place.arrived}
        pull = tuple(make_pull_pod(revision, node) for node in course.pulls if (target, node) not in pullers)
        drop = (pod for (name, node), pod in pullers.items() if name != target or node not in waiting)
        return pull, tuple(pod for pod in drop if not pod.metadata.deletion_timestamp)

    def give_up_pulls(self, resource: Key) -> bool:
        """Go on without bringing images to nodes first; whether that is new."""
        is_new = resource not in self._without_pulls
        self._without_pulls.add(resource)
        return is_new

    def note_pulls(self, claim: Claim, pods: Iterable[PullPod], made: Iterable[bool], now: datetime) -> bool:
        """Take in which pods that pull could not be made, as there is one of their name; whether any is new."""
        is_new = False
        for pod, is_made in zip(pods, made, strict=True):
            if not is_made:
                key, name = (claim.identity, pod.spec.node_name), pod.metadata.name
                if self._names_taken.get(key, ("", now))[0] != name:
                    self._names_taken[key] = name, now
                    is_new = True
        return is_new

    def forget(self, resource: Key) -> None:
        """A resource is gone."""
        self._without_pulls.discard(resource)
        for taken in [taken for taken in self._names_taken if taken[0][0] == resource]:
            del self._names_taken[taken]
        for identity in [identity for identity in self._seen if identity[0] == resource]:
            del self._seen[identity]
            self._rest.pop(identity, None)
        for key in [key for key in self._taken if key[0][0] == resource]:
            del self._taken[key]

    def _assign(self, claim: Claim, revisions: RevisionPlan, course: Course, noted: Progress) -> Assignment:
        namespace = claim.key.namespace
        slots = {seen.metadata.name: make_slot(seen.metadata.key) for seen in revisions.seen}
        values = {}
        for node, revision in course.revisions.items():
            values[node] = slots.get(revision) or (make_slot(Key(namespace, revision)) if revision else PENDING)
        coming = {node: slots[revision] for node, revision in course.coming.items() if revision in slots}
        # Which quarantines end follows from this, so it goes by what is noted down.
        back = noted.phase in (ROLLING_BACK, ROLLED_BACK)
        live = frozenset([noted.current] if back else [noted.current, noted.update])
        main = course.progress.current or course.progress.update
        return Assignment(claim.name, main, frozenset(slots.values()), live, values, coming)

    def _find_carried_out(self, claim: Claim, failed: Cause | None) -> dict[str, str]:
        """What was assigned before, where nodes have it: before the next stage is noted down, nobody else gets it.

        And nobody gets a revision back that failed: a node that has it keeps it, unless somebody takes it away.
        """
        before = self._world.workloads.find_assignment(claim)
        assigned = before.values.items() if before else ()
        bad = make_slot(Key(claim.key.namespace, failed.revision)) if failed else ""
        return {name: value for name, value in assigned if value != bad and self._world.read_slot(name) == value}

    def _find_places(
        self,
        claim: Claim,
        revisions: RevisionPlan,
        judged: Mapping[str, Judgement],
        failures: Sequence[NodeFailure],
        unread: Unread,
        pullers: Pullers,
        retried: str,
        now: datetime,
    ) -> tuple[list[Place], list[int]]:
        """The nodes as the rollout sees them, and the gaps of those that got another revision since the last look."""
        names = {make_slot(seen.metadata.key): seen.metadata.name for seen in revisions.seen}
        pods = {
            (seen.metadata.name, read_node(pod)): pod
            for seen in revisions.seen
            for pod in self._world.workloads.pods_of(seen)
            if not pod.metadata.deletion_timestamp
        }
        waits = frozenset(seen.metadata.name for seen in revisions.seen if find_waiter(seen))
        failed = {(failure.node, failure.pod): failure for failure in failures if failure.pod}
        busy = {failure.node for failure in failures} | {node for _, node in pullers}
        gaps: list[int] = []
        places = self._find_quarantined(claim, judged, retried)
        left_alone = {place.name for place in places}
        rest = self._find_rest(claim, revisions, names, waits)
        before, after = self._seen.get(claim.identity, {}), {}
        find_node, find_decision, identity = self._world.nodes.get, self._world.decision, claim.identity
        for name, judgement in judged.items():
            node = find_node("", name)
            if node is None or name in left_alone:
                continue
            decision = find_decision(name)
            key = identity, name
            is_resting = name not in busy and key not in self._taken and key not in self._names_taken
            if is_resting and (known := rest.find(node, judgement, decision, pods)):
                places.append(known.place)
                after[name] = known.seen
                continue
            was = rest.wake(name, before[name]) if name in before else None
            coming = names.get(read_next(node).value, "")
            waiter = pods.get((coming, name))
            value = find_given(node, pods.get((names.get(read_slot(node).value, ""), name)), waiter)
            revision = names.get(value, "") if value else find_there(name, revisions, pods)
            if value and self._taken.get(key) == value:
                revision = ""
            pod = pods.get((revision, name))
            skipped = self._is_skipped(node, judgement)
            excused = skipped or self._waits_for_another(node, pod)
            seen = remember_coming(was, remember(was, revision, pod, judgement, excused, now), coming, now)
            seen = remember_left(was, seen, pod, judgement, now, is_first=identity not in self._seen)
            report = self._world.sight.reports.get("", name)
            seen = after[name] = remember_gap(was, seen, pod, report)
            if seen.gap is not None and was and not is_same_gap(was, seen):
                gaps.append(seen.gap)
            place = make_place(
                claim, node, seen, pod, judgement, failed.get((name, pod.metadata.name)) if pod else None, skipped, now
            )
            if pod and (until := unread.get(pod.metadata.name)) and place.state is PlaceState.FAILED:
                place = place._replace(state=PlaceState.STARTING, failed_at=until, held=True)
            place = _note_waiting(place, seen, waiter, waits, now)
            if coming == revisions.target and waiter and (is_waiting(waiter) or has_begun(waiter)):
                place = place._replace(arrived=True)
            elif claim.owner not in self._without_pulls:
                place = self._note_pull(claim, place, pod, revisions, pullers, now)
            rest.note(node, pod if is_resting and value else None, waiter, judgement, decision, place, seen)
            places.append(place)
        self._seen[claim.identity] = after
        rest.keep(after, now)
        return places, gaps

    def _find_rest(
        self, claim: Claim, revisions: RevisionPlan, names: Mapping[str, str], waits: frozenset[str]
    ) -> Rest:
        wanted = revisions.find(revisions.target)
        image = wanted.spec.template.spec.containers[0].image if wanted else ""
        pulls = claim.owner not in self._without_pulls
        context = (revisions.target, image, frozenset(names.items()), waits, pulls, claim.rollout)
        known = self._rest.get(claim.identity)
        if known and known.context == context:
            return known
        if known and (seen := self._seen.get(claim.identity)):
            self._seen[claim.identity] = {name: known.wake(name, found) for name, found in seen.items()}
        rest = self._rest[claim.identity] = Rest(context)
        return rest

    def _note_pull(
        self, claim: Claim, place: Place, pod: Pod | None, revisions: RevisionPlan, pullers: Pullers, now: datetime
    ) -> Place:
        """A node, knowing whether the image of the new revision is there."""
        wanted, key = revisions.find(revisions.target), (claim.identity, place.name)
        taken, taken_at = self._names_taken.get(key, ("", now))
        if wanted is None or place.revision == revisions.target:
            self._names_taken.pop(key, None)
            return place
        if pod and read_image(pod) == wanted.spec.template.spec.containers[0].image:
            return place  # it runs it already, with other arguments
        puller = pullers.get((revisions.target, place.name))
        if puller is None and taken == name_pull_pod(revisions.target, place.name):
            # Somebody else's pod has its name: that is no reason to wait forever.
            return place._replace(pulled=now >= taken_at + UNSEEN, failed_at=taken_at + UNSEEN)
        self._names_taken.pop(key, None)
        fault = judge_pull(puller) if puller else None
        if puller is None or fault is None:
            return place._replace(pulled=puller is not None)
        since = parse_time(puller.metadata.creation_timestamp) or now
        late = now >= since + read_timeout(claim.rollout)
        unpullable = (fault or "it takes too long") if late else ""
        return place._replace(pulled=False, unpullable=unpullable, failed_at=since + read_timeout(claim.rollout))

    def _find_quarantined(self, claim: Claim, nodes: Iterable[str], retried: str) -> list[Place]:
        """The nodes where a revision failed so often that they are left without a scheduler.

        Before another try that ends; until it is gone from the node, a successor would take it for a new failure, even
        where a person has reserved the node: as soon as they lift that.
        """
        places, world = [], self._world
        for name in (*world.standing(claim).lost, *(nodes if retried else ())):
            node = world.nodes.get("", name)
            if node is None:
                continue
            note = None if world.decision(name).reserved else world.find_quarantine(node)
            if note is None and retried and (written := read_quarantine(node)) and written.revision == retried:
                note = written
            if note and note.sched_ext == str(claim.owner):
                ejected = Place(name, note.revision, PlaceState.FAILED, reason=Reason.EJECTED, message=note.reason)
                places.append(ejected._replace(skipped=True, quarantined=True))
        return places

    def _is_skipped(self, node: Node, judgement: Judgement) -> bool:
        """Whether a node is left alone: nothing can be done to it now, or nothing would come of it."""
        if not node.is_ready or node.spec.unschedulable or judgement.state is NodeState.FOREIGN:
            return True
        report = self._world.sight.find_fresh(node)
        unfit = report is not None and report.is_unfit
        return unfit or bool(self._world.decision(node.metadata.name).reserved)

    def _waits_for_another(self, node: Node, pod: Pod | None) -> bool:
        """Whether a node's pod waits as it should: what was attached before takes its time to leave."""
        report = self._world.sight.find_fresh(node) if pod and is_waiting(pod) else None
        return report is not None and report.is_held

    def _tell(
        self, claim: Claim, course: Course, places: Iterable[Place], target: str, quarantined: int
    ) -> RolloutStatus:
        nodes = RolloutNodes(
            updated=course.updated,
            attached=course.attached,
            failed=course.failed,
            quarantined=quarantined,
            skipped=course.skipped,
        )
        moved = [place.name for place in places if place.revision == target and place.state is PlaceState.WORKING]
        seen = self._seen.get(claim.identity, {})
        gaps = [seen[name].gap for name in moved if name in seen]
        gap = summarise_gaps(gaps) if course.progress.current else None
        message = course.message if target else "waits until the image is verified"
        return msgspec.structs.replace(tell_progress(course.progress, message), nodes=nodes, gap=gap)


def _is_retry(progress: Progress, requests: Requests, target: str) -> bool:
    """Whether a person wants another try, and what was tried before is being brought back, or is about to be."""
    if progress.failed:
        return requests.retry and progress.failed.revision == target
    return progress.phase == ROLLING_BACK


def _note_waiting(place: Place, seen: Seen, waiter: Pod | None, waits: frozenset[str], now: datetime) -> Place:
    """A node, knowing whose pod waits there, and whose may."""
    if place.state is not PlaceState.WORKING:
        return place  # nobody leaves whom another would wait for
    if waiter and (waiting := find_waiting(waiter)):
        started_at = parse_time(waiting.started_at)
        if started_at and started_at <= now < started_at + WAITER_STARTS:
            return place._replace(waits_for=waits, failed_at=started_at + WAITER_STARTS)
        is_early = started_at is not None and started_at > now  # by a wrong clock
        return place._replace(waiting=seen.coming, waits_for=waits, failed_at=started_at if is_early else None)
    late_at = seen.coming_at + WAITER_SECONDS if seen.coming_at else None
    if late_at is None or now < late_at:
        return place._replace(waits_for=waits, failed_at=late_at)
    # A node may have no room for two pods, or its kubelet other cares: then it goes without.
    return place._replace(waits_for=waits - {seen.coming}, unpullable=find_pull_fault(waiter) if waiter else "")
