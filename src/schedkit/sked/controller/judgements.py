"""What has been judged of each node's kernel, judged again only where something changed; and what that taught."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from schedkit.sked.controller.attachment import (
    SLACK,
    Judgement,
    NodeState,
    judge,
    parse_time,
    read_digest,
    read_start,
    tell_ejection,
)
from schedkit.sked.controller.claims import Claim, Identity
from schedkit.sked.controller.objects import Node, Pod
from schedkit.sked.controller.reports import NodeReport
from schedkit.sked.controller.sight import Sight
from schedkit.sked.controller.slots import read_slot_of
from schedkit.sked.kube.objects import Key

TOLD = (NodeState.ATTACHED, NodeState.FOREIGN, NodeState.EJECTED, NodeState.UNFIT)
IMAGES_KNOWN = 1000  # whose ops names are remembered; the oldest are forgotten


class Change(NamedTuple):
    """A node of which there is something new to tell."""

    node: str
    after: Judgement
    started: datetime | None  # since when its scheduler runs
    slot: str  # what the label says where that has the node


class _Judged(NamedTuple):
    """A judgement, and all that it rests on."""

    claim: Identity
    pod: Pod | None
    report: NodeReport | None
    agent_ready: bool
    boot_id: str
    held: bool  # whether the kernel is known to have what no pod of sked has
    lessons: int
    judgement: Judgement
    told: str | None  # the last that was worth telling; None: nothing was known so far
    first_look: datetime


class _Watched(NamedTuple):
    """A life of a scheduler that was attached while the pod of another revision waited for its slot."""

    pod: str  # its uid
    started: datetime | None
    boot_id: str
    enable_seq: int | None  # its first attachment that was seen

    def has_ended(self, pod: Pod, report: NodeReport) -> bool:
        """Whether it left the kernel, and its container ended, in a pod that is to stay."""
        left = report.status.last_detach
        is_over = pod.metadata.uid == self.pod and read_start(pod) != self.started
        if not is_over or left is None or left.enable_seq is None or self.enable_seq is None:
            return False
        return report.status.kernel.boot_id == self.boot_id and left.enable_seq >= self.enable_seq


class Judgements:
    """The judgements of all nodes."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self._judged: dict[str, _Judged] = {}
        self._learned: dict[str, dict[str, None]] = {}  # ops names by the digest of an image
        self._lessons = 0
        self._changes: dict[Key, list[Change]] = {}
        self._watched: dict[str, _Watched] = {}  # by node, where there is a pod beside the one that counts

    def look(self, claim: Claim, node: Node, pod: Pod | None, now: datetime, beside: Sequence[Pod] = ()) -> Judgement:
        """What became of a claim's scheduler on one of its nodes, where reports may be read.

        `beside` are its pods there that do not count, and are to stay: one waits, or was ejected while one waited.
        """
        name = node.metadata.name
        before = self._judged.get(name)
        report, agent_ready = self._sight.reports.get("", name), self._sight.has_ready_agent(name)
        boot_id, held = node.status.node_info.boot_id, self._sight.lasts(name, now)
        known = before if before and before.claim == claim.identity else None
        if beside or name in self._watched:
            self._see_beside(claim, name, known, report, beside)
        # Whether another look would find the same. Stores keep an object until it changes, so identity is enough.
        if (
            known
            and known.pod is pod
            and known.report is report
            and known.agent_ready == agent_ready
            and known.boot_id == boot_id
            and known.held == held
            and known.lessons == self._lessons
            and (known.judgement.until is None or now < known.judgement.until)
        ):
            return known.judgement
        was = known.judgement if known else None
        digest = read_digest(pod)
        after = judge(
            pod,
            report,
            agent_ready=agent_ready,
            boot_id=boot_id,
            learned=self._learned.get(digest, {}),
            foreign=was.ops if was and was.state is NodeState.FOREIGN else "",
            held=held,
            now=now,
        )
        if after.state is NodeState.ATTACHING and after.until is None and (left := self._sight.held_in(name, now)):
            after = after._replace(until=now + timedelta(seconds=left))  # then it is somebody else's
        self._learn(digest, after)
        told, first_look = (known.told, known.first_look) if known else (None, now)
        if known and _is_news(after, told, first_look):
            self._note(claim, Change(name, after, read_start(pod), read_slot_of(pod) if pod else ""))
        if after.state in TOLD:
            told = _name(after)
        elif after.state is not NodeState.UNKNOWN:
            told = told or ""
        self._judged[name] = _Judged(
            claim.identity, pod, report, agent_ready, boot_id, held, self._lessons, after, told, first_look
        )
        return after

    def take_changes(self, resource: Key) -> list[Change]:
        """What changed for a resource since this was asked last."""
        return self._changes.pop(resource, [])

    def forget_node(self, name: str) -> None:
        """A node is gone."""
        self._judged.pop(name, None)
        self._watched.pop(name, None)

    def forget_resource(self, resource: Key) -> None:
        """A resource is gone."""
        self._changes.pop(resource, None)

    def known(self) -> Iterator[tuple[str, str]]:
        """The ops names that have been learned, by the digests of their images."""
        return ((digest, ops) for digest, names in self._learned.items() for ops in names)

    def _note(self, claim: Claim, change: Change) -> None:
        self._changes.setdefault(claim.owner, []).append(change)

    def _see_beside(
        self, claim: Claim, name: str, known: _Judged | None, report: NodeReport | None, beside: Sequence[Pod]
    ) -> None:
        """Find out whether a scheduler was ejected that nobody judges any more, as what waited is attached already."""
        before = self._watched.pop(name, None)
        if known is None or report is None or not beside:
            return
        watched = _watch(known, before)
        ended = next((pod for pod in beside if watched and watched.has_ended(pod, report)), None)
        if ended is None:
            self._watched.update({name: watched} if watched else {})
        elif left := report.status.last_detach:
            ejected = tell_ejection(report, left)
            if _name(ejected) != known.told:
                self._note(claim, Change(name, ejected, read_start(ended), read_slot_of(ended)))

    def _learn(self, digest: str, judgement: Judgement) -> None:
        known = self._learned.get(digest, {})
        if judgement.learned and digest and judgement.learned not in known:
            self._learned[digest] = {**known, judgement.learned: None}
            if len(self._learned) > IMAGES_KNOWN:
                del self._learned[next(iter(self._learned))]
        elif judgement.unlearned in known:
            self._learned[digest] = {ops: None for ops in known if ops != judgement.unlearned}
        else:
            return
        self._lessons += 1


def _watch(known: _Judged, before: _Watched | None) -> _Watched | None:
    """The life that was judged to be attached last. What attached after it may have been what waited."""
    if known.pod is None or known.report is None or known.judgement.state is not NodeState.ATTACHED:
        return before
    seen, seq = known.report.status, known.report.status.slot.enable_seq
    watched = _Watched(known.pod.metadata.uid, read_start(known.pod), seen.kernel.boot_id, seq)
    is_same = before is not None and before[:3] == watched[:3]
    return before if is_same else watched


def _name(judgement: Judgement) -> str:
    return f"{judgement.state} {judgement.episode}"


def _is_news(judgement: Judgement, told: str | None, first_look: datetime) -> bool:
    """Whether a judgement is worth telling: not again, and not what may have been told before this program started."""
    if judgement.state not in TOLD or _name(judgement) == told:
        return False
    began = parse_time(judgement.since)
    return told is not None or (began is not None and began >= first_look - SLACK)
