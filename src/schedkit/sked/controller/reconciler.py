"""One resource at a time: read what is known, plan, write the difference, tell the status."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import Any

from schedkit.sked.api.kubernetes import Affinity
from schedkit.sked.api.selectors import InvalidSelectorError, Selector, SelectorTooComplexError, exclude
from schedkit.sked.api.types import FAILURES_TOLD, KIND, NodeFailure
from schedkit.sked.controller.claims import Board, Claim, make_claims
from schedkit.sked.controller.daemonsets import differs, make_daemonset
from schedkit.sked.controller.failures import CRASH_LOOPING, find_crash, find_failures, is_overdue, read_node
from schedkit.sked.controller.lastwords import LastWords
from schedkit.sked.controller.objects import DAEMONSETS, DaemonSet, DaemonSetSpec, Pod, SchedExt
from schedkit.sked.controller.places import Places
from schedkit.sked.controller.status import Outcome, Trouble, make_blind_status, make_status
from schedkit.sked.controller.telling import Teller
from schedkit.sked.kube.client import Client, Preconditions
from schedkit.sked.kube.errors import ApiError, ForbiddenError, InvalidError, NotFoundError
from schedkit.sked.kube.informer import Informer
from schedkit.sked.kube.logs import fields
from schedkit.sked.kube.objects import Key, Model, ObjectMeta
from schedkit.sked.kube.store import Store
from schedkit.sked.kube.watching import Unreadable
from schedkit.sked.kube.workers import Result

ADOPT = "sked.schedkit.io/adopt"  # on a DaemonSet of somebody else's, "true": sked may have it
RETRY_SECONDS = 60.0  # when only somebody else can mend it, and nothing will tell us
CONTROLLER, NODE = "controller", "node"  # indexes
ENDED = ("Failed", "Succeeded")
# Not only 400: to a quantity that is none, apply says 500.
REFUSALS = (400, 413, 500)

_logger = logging.getLogger(__name__)


class _Applied(Model, frozen=True):
    """What server-side apply takes: who the DaemonSet is, and all of it that is to be ours."""

    api_version: str
    kind: str
    metadata: ObjectMeta
    spec: DaemonSetSpec


@dataclass(frozen=True)
class World:
    """What the informers know."""

    resources: Store[SchedExt]
    daemonsets: Store[DaemonSet]
    pods: Store[Pod]
    places: Places
    board: Board
    unreadable: Mapping[Key, Unreadable]  # resources whose newest form is not understood
    informers: Sequence[Informer[Any]]

    @property
    def is_complete(self) -> bool:
        """Whether everything that a plan rests on has been seen and may be looked at."""
        return all(informer.synced and not informer.denied for informer in self.informers)

    @property
    def denied(self) -> str:
        """What may not be looked at, in the API server's words."""
        return next((informer.denied for informer in self.informers if informer.denied), "")

    def find_daemonset(self, pod: Pod) -> DaemonSet | None:
        """The DaemonSet that made a pod, if it is still known and a resource's."""
        owner = pod.metadata.controller
        daemonset = self.daemonsets.get(pod.metadata.namespace, owner.name) if owner else None
        return daemonset if daemonset and find_resource(daemonset) else None


class Reconciler:
    """Brings one resource's DaemonSets and status to what they should be."""

    def __init__(
        self, client: Client, world: World, teller: Teller, last_words: LastWords, now: Callable[[], datetime]
    ) -> None:
        self._client = client
        self._world = world
        self._teller = teller
        self._last_words = last_words
        self._now = now
        # Resources that wait for something of another's, and the pods they wait for, if that is it.
        self.blocked: dict[Key, set[Key]] = {}
        # Writes that left a difference: others may own fields that make it differ for good.
        self._written: dict[Key, tuple[str, DaemonSet]] = {}

    async def reconcile(self, key: Key) -> Result | None:
        """Called for a resource when anything changed that concerns it."""
        self.blocked.pop(key, None)
        if unreadable := self._world.unreadable.get(key):
            await self._teller.write_unreadable(unreadable)
            return None  # what it asks for is unknown: its DaemonSets stay as they are
        resource = self._world.resources.get(*key)
        if resource is None or resource.metadata.deletion_timestamp:
            return None  # its DaemonSets go with it, by their owner references
        if not self._world.is_complete:
            if denied := self._world.denied:
                status = make_blind_status(resource, Trouble(ForbiddenError.reason, denied), self._teller.now())
                await self._teller.write(resource, status)
            return None  # being able to look wakes us
        claims = self._world.board.claims(key)
        leaving, trouble = await self._remove_unwanted(resource, {claim.name for claim in claims})
        outcomes = [await self._settle(claim) for claim in claims]
        if not trouble:
            found = (outcome.trouble for outcome in outcomes if outcome.trouble)
            trouble = next(found, None) if claims else _find_fault(resource)
        if not trouble and any(outcome.written for outcome in outcomes):
            return None  # when it comes into sight it wakes us, after those that have no DaemonSet yet
        await self._write_status(resource, outcomes, leaving, trouble)
        waits = any(outcome.waiting for outcome in outcomes)
        return Result(after_seconds=RETRY_SECONDS) if trouble or waits else None

    async def _remove_unwanted(self, resource: SchedExt, wanted: set[str]) -> tuple[int, Trouble | None]:
        """Delete DaemonSets of removed pools and suspended resources; how many pods of such are still there."""
        leaving, trouble = 0, None
        for seen in self._world.daemonsets.find(CONTROLLER, resource.metadata.uid):
            if seen.metadata.name in wanted:
                continue
            leaving += len(self._world.pods.find(CONTROLLER, seen.metadata.uid))
            try:
                await self._delete(seen)
            except ApiError as error:
                trouble = _explain(resource.metadata.key, error)
        return leaving, trouble

    async def _settle(self, claim: Claim) -> Outcome:
        """Have the DaemonSet of one claim as it should be, as far as that is possible now."""
        rivals = self._world.board.rivals(claim)
        winners = tuple(rival for rival in rivals if rival.rank < claim.rank)
        losers = tuple(rival for rival in rivals if rival.rank > claim.rank)
        seen = self._world.daemonsets.get(claim.owner.namespace, claim.name)
        if seen and not _may_touch(seen, claim):
            self.blocked.setdefault(claim.owner, set())
            if _is_of_namesake(seen, claim):
                waiting = f"waits until the DaemonSet {claim.name} of the resource that had this name before is gone"
                return Outcome(claim, None, False, winners, losers, waiting=waiting)
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
            if moves and (pod := self._find_obstacle(remaining, seen)):
                lets_go = self._waits(pod)
                # At once: what comes to pass from here on must find us waiting.
                self.blocked.setdefault(claim.owner, set()).add(pod.metadata.key)
                if seen and lets_go:  # two that want each other's nodes would wait for ever
                    await self._delete(seen)
                waiting = f"waits until {pod.metadata.key} has left node {read_node(pod)}"
                return Outcome(claim, seen, False, winners, losers, waiting=waiting)
            written = await self._write(wanted, force=seen is not None)
        except SelectorTooComplexError as error:
            if seen:  # it cannot be told to leave out the winners' nodes alone
                await self._delete(seen)
            return Outcome(claim, seen, False, winners, losers, trouble=Trouble(error.reason, error.message))
        except ApiError as error:
            return Outcome(claim, seen, False, winners, losers, trouble=_explain(claim.owner, error))
        fresh = seen is None or not differs(wanted, written)
        return Outcome(claim, written, True, winners, losers, written=fresh)

    async def _write(self, wanted: DaemonSet, *, force: bool) -> DaemonSet:
        """Apply it; without force it is refused where somebody's is that we have not seen yet."""
        metadata = wanted.metadata
        # Applied always, also where there is none: what is owned by apply can be taken away again by apply.
        body = _Applied(api_version=DAEMONSETS.api_version, kind=DAEMONSETS.kind, metadata=metadata, spec=wanted.spec)
        written = await self._client.apply(
            DAEMONSETS, DaemonSet, metadata.name, body, namespace=metadata.namespace, force=force
        )
        self._written.pop(metadata.key, None)
        if differs(wanted, written):
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

    def _find_obstacle(self, remaining: Selector, own: DaemonSet | None) -> Pod | None:
        """Somebody else's scheduler on a node that is about to be taken: the kernel would refuse a second.

        Whose it is does not matter: its resource may be gone, suspended or elsewhere by now, and the pod still there.
        """
        if not self._world.pods:
            return None
        own_uid, now = own.metadata.uid if own else "", self._now()
        for node in self._world.places.find(remaining):
            for pod in self._world.pods.find(NODE, node.metadata.name):
                owner = pod.metadata.controller
                if owner and owner.uid == own_uid:
                    continue
                if pod.status.phase not in ENDED and not is_overdue(pod, now):
                    return pod
        return None

    def _waits(self, pod: Pod) -> bool:
        """Whether the resource of a pod waits for another's pod itself and has not let go."""
        daemonset = self._world.find_daemonset(pod)
        resource = find_resource(daemonset) if daemonset and not daemonset.metadata.deletion_timestamp else None
        return bool(resource and self.blocked.get(resource))

    async def _write_status(
        self, resource: SchedExt, outcomes: list[Outcome], leaving: int, trouble: Trouble | None
    ) -> None:
        uids = [outcome.seen.metadata.uid for outcome in outcomes if outcome.seen]
        failures = find_failures(pod for uid in uids for pod in self._world.pods.find(CONTROLLER, uid))
        told = [self._complete(resource, failure) for failure in failures[:FAILURES_TOLD]]
        failures[:FAILURES_TOLD] = told
        status = make_status(resource, outcomes, failures, leaving, self._teller.now(), trouble)
        await self._teller.write(resource, status)

    def _complete(self, resource: SchedExt, failure: NodeFailure) -> NodeFailure:
        """A failure with what the scheduler's log says of it."""
        pod = self._world.pods.get(resource.metadata.namespace, failure.pod)
        crash = find_crash(pod) if pod and failure.reason == CRASH_LOOPING else None
        if crash is None:
            return failure
        return self._last_words.complete(resource.metadata.key, failure, crash, resource.status.failures)


def find_resource(daemonset: DaemonSet) -> Key | None:
    """The resource whose DaemonSet this is, if it is one's."""
    owner = daemonset.metadata.controller
    return Key(daemonset.metadata.namespace, owner.name) if owner and owner.kind == KIND else None


def subtract(selector: Selector, winners: tuple[Claim, ...]) -> Selector | None:
    """The nodes of a selector that none of the winners selects; None when there can be none."""
    start: Selector | None = selector
    return reduce(lambda left, winner: None if left is None else exclude(left, winner.selector), winners, start)


def _may_touch(seen: DaemonSet, claim: Claim) -> bool:
    owner = seen.metadata.controller
    if owner is None:
        return seen.metadata.annotations.get(ADOPT) == "true"
    return owner.uid == claim.resource.metadata.uid


def _is_of_namesake(seen: DaemonSet, claim: Claim) -> bool:
    """Whether it belongs to a deleted resource of the same name, and so is about to be deleted too."""
    owner = seen.metadata.controller
    return owner is not None and (owner.kind, owner.name) == (KIND, claim.resource.metadata.name)


def _find_fault(resource: SchedExt) -> Trouble | None:
    """What is wrong with a resource that was stored before there was validation; it claims nothing."""
    try:
        make_claims(resource)
    except InvalidSelectorError as error:
        return Trouble(error.reason, error.message)
    return None


def _explain(key: Key, error: ApiError) -> Trouble:
    """A refusal as what the status tells; whatever trying again soon may mend is raised again."""
    if not isinstance(error, ForbiddenError | InvalidError) and error.code not in REFUSALS:
        raise error
    _logger.warning("cannot write DaemonSet", extra=fields(resource=key, error=error.message))
    return Trouble(error.reason, error.message)


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
