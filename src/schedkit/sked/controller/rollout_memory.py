"""What a rollout remembers of its nodes from one look to the next: times that nobody else tells, and who is at rest."""

from collections.abc import Container, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from schedkit.sked.controller.attachment import Judgement, NodeState, parse_time, read_birth
from schedkit.sked.controller.failures import is_waiting
from schedkit.sked.controller.objects import Node, Pod
from schedkit.sked.controller.reports import NodeReport
from schedkit.sked.controller.rollout_nodes import Place, PlaceState
from schedkit.sked.controller.slots import Decision


class Seen(NamedTuple):
    """What is remembered of a node from one look to the next: times that nobody else tells, and its gap."""

    revision: str
    given_at: datetime  # since when it has its revision, or should have its pod
    well_at: datetime | None = None  # when it last was attached, left alone or in time, or nobody could tell
    attachment: str = ""
    attached_at: datetime | None = None  # when this attachment was first seen
    coming: str = ""  # the slot for which a pod of another revision is to wait here
    coming_at: datetime | None = None  # since when that was seen
    is_measured: bool = False  # whether its revision has been attached here
    gap: int | None = None  # for how many milliseconds the kernel was without a scheduler before that, where known
    left: str | None = None  # what an earlier revision had attached here, until this one is; None: nobody remembers
    left_at: datetime | None = None  # since when it is to leave


class Resting(NamedTuple):
    """A node on which nothing is under way, and all that this rests on. Stores keep an object until it changes."""

    node: Node
    pod: Pod
    waiter: Pod | None  # of another revision, which waits for the slot
    judgement: Judgement
    decision: Decision
    place: Place
    seen: Seen


class Rest:
    """The nodes of one claim that are at rest, mostly nearly all of them: of these nothing is found out again."""

    def __init__(self, context: tuple[object, ...]) -> None:
        self.context = context  # what holds for all nodes
        self._resting: dict[str, Resting] = {}
        self._looked_at: datetime | None = None  # when they were last seen to be at rest

    def find(
        self, node: Node, judgement: Judgement, decision: Decision, pods: Mapping[tuple[str, str], Pod]
    ) -> Resting | None:
        """What is known of a node that is as it was."""
        known = self._resting.get(node.metadata.name)
        if (
            known is None
            or known.node is not node
            or known.judgement is not judgement
            or known.decision is not decision
        ):
            return None
        if pods.get((known.place.revision, node.metadata.name)) is not known.pod:
            return None
        return known if pods.get((known.place.coming, node.metadata.name)) is known.waiter else None

    def note(
        self,
        node: Node,
        pod: Pod | None,
        waiter: Pod | None,
        judgement: Judgement,
        decision: Decision,
        place: Place,
        seen: Seen,
    ) -> None:
        """Keep what was found out of a node, if it stays so until something changes."""
        # Where what waited runs in the place of another, that one counts too, and where time passes, so does that.
        is_plain = place.revision != place.coming and place.failed_at is None
        if pod and place.state is PlaceState.WORKING and place.revision and is_plain:
            self._resting[place.name] = Resting(node, pod, waiter, judgement, decision, place, seen)
        else:
            self._resting.pop(place.name, None)

    def keep(self, names: Container[str], now: datetime) -> None:
        """Forget all other nodes after a look: they are gone, or somebody else's."""
        for name in [name for name in self._resting if name not in names]:
            del self._resting[name]
        self._looked_at = now

    def wake(self, name: str, seen: Seen) -> Seen:
        """What is remembered of a node that may have been at rest until now: at the last look it was well."""
        if self._looked_at is None or name not in self._resting:
            return seen
        return seen._replace(given_at=self._looked_at, well_at=self._looked_at)


def remember(
    before: Seen | None, revision: str, pod: Pod | None, judgement: Judgement, excused: bool, now: datetime
) -> Seen:
    """What is known of a node after this look."""
    given_at = before.given_at if before and before.revision == revision else now
    well_at = before.well_at if before else None
    if excused or judgement.state in (NodeState.ATTACHED, NodeState.UNKNOWN):
        well_at = now
    if pod is None or judgement.state is not NodeState.ATTACHED:
        # As long as there is no pod, it counts from when there should be one; after that a pod tells it itself.
        return Seen(revision, now if pod and not is_waiting(pod) else given_at, well_at)
    attachment = f"{pod.metadata.uid} {judgement.episode}"
    known = before.attached_at if before and before.attachment == attachment else None
    return Seen(revision, now, well_at, attachment, known or now)


def remember_coming(before: Seen | None, seen: Seen, coming: str, now: datetime) -> Seen:
    known = before.coming_at if before and before.coming == coming else None
    return seen._replace(coming=coming, coming_at=(known or now) if coming else None)


def remember_left(
    before: Seen | None, seen: Seen, pod: Pod | None, judgement: Judgement, now: datetime, *, is_first: bool
) -> Seen:
    """Know a scheduler again that has to leave: an agent's report may be late, and it is not somebody else's.

    At its first look, an operator does not know it. It takes what was attached before the pod could start for it.
    """
    if seen.attachment:
        return seen._replace(left="")
    if before and before.attachment and before.revision != seen.revision:
        return seen._replace(left=before.attachment.partition(" ")[2], left_at=now)
    left, left_at = (before.left, before.left_at) if before else (None if is_first else "", None)
    if left is None and judgement.state is NodeState.FOREIGN:
        given_at = (read_birth(pod) if pod and not is_waiting(pod) else None) or seen.given_at
        since = parse_time(judgement.since)
        left = judgement.episode if since is None or since <= given_at else ""
        # A kubelet's clock may be behind; that of the API server, which tells when the pod was made, is everybody's.
        made_at = parse_time(pod.metadata.creation_timestamp) if pod else None
        left_at = min(max(given_at, made_at or given_at), now)
    return seen._replace(left=left, left_at=left_at)


def find_leaving_end(seen: Seen, judgement: Judgement, timeout: timedelta) -> datetime | None:
    """Until when what is told to be somebody else's is taken for what has to leave; None: it is another's."""
    is_the_same = judgement.state is NodeState.FOREIGN and seen.left and judgement.episode == seen.left
    return seen.left_at + timeout if is_the_same and seen.left_at else None


def remember_gap(before: Seen | None, seen: Seen, pod: Pod | None, report: NodeReport | None) -> Seen:
    """Measure with the first attachment of a revision: what comes after a crash is not the rollout's gap."""
    if before and is_same_gap(before, seen):
        return seen._replace(is_measured=True, gap=before.gap)
    if not seen.revision or not seen.attachment or pod is None or report is None:
        return seen
    is_first = not any(status.restart_count for status in pod.status.container_statuses)
    return seen._replace(is_measured=True, gap=report.status.slot.gap_milliseconds if is_first else None)


def is_same_gap(before: Seen, seen: Seen) -> bool:
    """Whether a node's gap was measured before: it has had its revision attached already."""
    return before.is_measured and before.revision == seen.revision
