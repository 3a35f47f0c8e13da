"""One resource at a time: read what is known, plan, write the difference, tell the status."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce

from schedkit.sked.api.kubernetes import Affinity
from schedkit.sked.api.selectors import Selector, SelectorTooComplexError, exclude
from schedkit.sked.api.types import SchedExtStatus
from schedkit.sked.controller.claims import Board, Claim
from schedkit.sked.controller.daemonsets import differs, make_daemonset
from schedkit.sked.controller.failures import find_failures, read_node
from schedkit.sked.controller.objects import DAEMONSETS, SCHEDEXTS, DaemonSet, DaemonSetSpec, Node, Pod, SchedExt
from schedkit.sked.controller.status import Outcome, Trouble, make_status
from schedkit.sked.kube.client import Client, Preconditions
from schedkit.sked.kube.errors import ForbiddenError, InvalidError, NotFoundError
from schedkit.sked.kube.events import EventType
from schedkit.sked.kube.logs import fields
from schedkit.sked.kube.objects import Key, Model, Object, ObjectMeta
from schedkit.sked.kube.store import Store
from schedkit.sked.kube.workers import Result

ADOPT = "sked.schedkit.io/adopt"  # on a DaemonSet of somebody else's, "true": sked may have it
RETRY_SECONDS = 60.0  # when only somebody else can mend it, and nothing will tell us
GOING = "going"
CONTROLLER = "controller"

_logger = logging.getLogger(__name__)


class _Applied(Model, frozen=True):
    """What server-side apply takes: who the object is, and all of it that is to be ours."""

    api_version: str
    kind: str
    metadata: ObjectMeta
    spec: DaemonSetSpec | None = None
    status: SchedExtStatus | None = None


@dataclass(frozen=True)
class World:
    """What the informers know."""

    resources: Store[SchedExt]
    daemonsets: Store[DaemonSet]
    pods: Store[Pod]
    nodes: Store[Node]
    board: Board


Tell = Callable[[SchedExt, EventType, str, str], None]  # about what, how grave, the reason, a sentence


class Reconciler:
    """Brings one resource's DaemonSets and status to what they should be."""

    def __init__(self, client: Client, world: World, tell: Tell, now: Callable[[], str]) -> None:
        self._client = client
        self._world = world
        self._tell = tell
        self._now = now
        self.blocked: set[Key] = set()  # resources that wait for something of another's
        # What our last write of a DaemonSet asked for and gave: others may own fields that make it differ for good.
        self._written: dict[Key, tuple[str, DaemonSet]] = {}

    async def reconcile(self, key: Key) -> Result | None:
        """Called for a resource when anything changed that concerns it."""
        self.blocked.discard(key)
        resource = self._world.resources.get(*key)
        if resource is None or resource.metadata.deletion_timestamp:
            return None  # its DaemonSets go with it, by their owner references
        claims = self._world.board.claims(key)
        leaving = await self._remove_unwanted(resource, {claim.name for claim in claims})
        outcomes = [await self._settle(claim) for claim in claims]
        if any(outcome.waiting or outcome.trouble for outcome in outcomes):
            self.blocked.add(key)
        await self._write_status(resource, outcomes, leaving)
        return Result(after_seconds=RETRY_SECONDS) if any(outcome.trouble for outcome in outcomes) else None

    async def _remove_unwanted(self, resource: SchedExt, wanted: set[str]) -> int:
        """Delete DaemonSets of removed pools and suspended resources; how many pods of such are still there."""
        leaving = 0
        for seen in self._world.daemonsets.find(CONTROLLER, resource.metadata.uid):
            if seen.metadata.name in wanted:
                continue
            await self._delete(seen)
            leaving += len(self._world.pods.find(CONTROLLER, seen.metadata.uid))
        return leaving

    async def _settle(self, claim: Claim) -> Outcome:
        """Have the DaemonSet of one claim as it should be, as far as that is possible now."""
        rivals = self._world.board.rivals(claim)
        winners = tuple(rival for rival in rivals if rival.rank < claim.rank)
        losers = tuple(rival for rival in rivals if rival.rank > claim.rank)
        seen = self._world.daemonsets.get(claim.owner.namespace, claim.name)
        if seen and not _may_touch(seen, claim):
            return Outcome(claim, None, False, winners, losers, trouble=_foreign(seen))
        try:
            remaining = subtract(claim.selector, winners)
            if remaining is None:
                if seen:
                    await self._delete(seen)
                return Outcome(claim, seen, False, winners, losers, nothing_left=seen is None)
            wanted = make_daemonset(claim, remaining if winners else None)
            if seen and (not differs(wanted, seen) or self._written.get(seen.metadata.key) == _mark(seen, wanted)):
                return Outcome(claim, seen, True, winners, losers)
            moves = seen is None or _place(seen) != _place(wanted)
            if moves and (waiting := self._find_obstacle(claim, remaining, rivals)):
                if seen:  # two that want each other's nodes would wait for ever: whoever moves lets go first
                    await self._delete(seen)
                return Outcome(claim, seen, False, winners, losers, waiting=waiting)
            written = await self._write(wanted)
        except (ForbiddenError, InvalidError, SelectorTooComplexError) as error:
            _logger.warning("cannot write DaemonSet", extra=fields(resource=claim.owner, error=error.message))
            return Outcome(claim, seen, False, winners, losers, trouble=Trouble(error.reason, error.message))
        return Outcome(claim, written, True, winners, losers)

    async def _write(self, wanted: DaemonSet) -> DaemonSet:
        metadata = wanted.metadata
        # Applied always, also where there is none: what is owned by apply can be taken away again by apply.
        body = _Applied(api_version=DAEMONSETS.api_version, kind=DAEMONSETS.kind, metadata=metadata, spec=wanted.spec)
        written = await self._client.apply(
            DAEMONSETS, DaemonSet, metadata.name, body, namespace=metadata.namespace, force=True
        )
        self._written[metadata.key] = _mark(written, wanted)
        return written

    async def _delete(self, seen: DaemonSet) -> None:
        if seen.metadata.deletion_timestamp:
            return
        metadata = seen.metadata
        try:
            await self._client.delete(
                DAEMONSETS,
                metadata.name,
                namespace=metadata.namespace,
                preconditions=Preconditions(uid=metadata.uid),
                propagation="Foreground",  # it stays in sight until its pods have left their nodes
            )
        except NotFoundError:
            return

    def _find_obstacle(self, claim: Claim, remaining: Selector, rivals: Iterable[Claim]) -> str:
        """Somebody else's scheduler on a node that this claim is about to take: the kernel would refuse a second."""
        own = self._world.daemonsets.get(claim.owner.namespace, claim.name)
        own_uid = own.metadata.uid if own else ""
        for pod in self._find_suspects(rivals):
            owner = pod.metadata.controller
            if owner and owner.uid == own_uid:
                continue
            node = self._world.nodes.get("", read_node(pod))
            if node and remaining.matches(node.metadata.labels, node.metadata.name):
                return f"waits until {pod.metadata.key} has left node {node.metadata.name}"
        return ""

    def _find_suspects(self, rivals: Iterable[Claim]) -> Iterable[Pod]:
        """Pods of rivals, and pods that are going: theirs may be a resource that is no more."""
        yield from self._world.pods.find(GOING, GOING)
        for rival in rivals:
            other = self._world.daemonsets.get(rival.owner.namespace, rival.name)
            if other:
                yield from self._world.pods.find(CONTROLLER, other.metadata.uid)

    async def _write_status(self, resource: SchedExt, outcomes: list[Outcome], leaving: int) -> None:
        uids = [outcome.seen.metadata.uid for outcome in outcomes if outcome.seen]
        failures = find_failures(pod for uid in uids for pod in self._world.pods.find(CONTROLLER, uid))
        status = make_status(resource, outcomes, failures, leaving, self._now())
        if status == resource.status:
            return
        metadata = ObjectMeta(name=resource.metadata.name, namespace=resource.metadata.namespace)
        body = _Applied(api_version=SCHEDEXTS.api_version, kind=SCHEDEXTS.kind, metadata=metadata, status=status)
        try:
            await self._client.apply(
                SCHEDEXTS, Object, metadata.name, body, namespace=metadata.namespace, status=True, force=True
            )
        except NotFoundError:
            return  # deleted meanwhile
        before = {condition.type: condition for condition in resource.status.conditions}
        for condition in status.conditions:
            old = before.get(condition.type)
            if old is None and condition.status == "False":
                continue  # how every resource begins is no news
            if old is None or (old.status, old.reason) != (condition.status, condition.reason):
                kind: EventType = "Warning" if condition.type == "Degraded" and condition.status == "True" else "Normal"
                self._tell(resource, kind, condition.reason, f"{condition.type}: {condition.message}")


def subtract(selector: Selector, winners: tuple[Claim, ...]) -> Selector | None:
    """The nodes of a selector that none of the winners selects; None when there can be none."""
    start: Selector | None = selector
    return reduce(lambda left, winner: None if left is None else exclude(left, winner.selector), winners, start)


def _may_touch(seen: DaemonSet, claim: Claim) -> bool:
    owner = seen.metadata.controller
    if owner is None:
        return seen.metadata.annotations.get(ADOPT) == "true"
    return owner.uid == claim.resource.metadata.uid


def _foreign(seen: DaemonSet) -> Trouble:
    owner = seen.metadata.controller
    whose = f"belongs to {owner.kind} {owner.name}" if owner else "belongs to nobody"
    adopt = "" if owner else f"; annotate it with {ADOPT}=true to hand it over"
    return Trouble("ForeignDaemonSet", f"DaemonSet {seen.metadata.name} is there already and {whose}{adopt}")


def _mark(seen: DaemonSet, wanted: DaemonSet) -> tuple[str, DaemonSet]:
    return str(seen.metadata.generation), wanted


def _place(daemonset: DaemonSet) -> tuple[object, object]:
    """What decides on which nodes it runs."""
    pod = daemonset.spec.template.spec
    return pod.node_selector, pod.affinity or Affinity()
