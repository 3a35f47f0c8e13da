"""Writes the statuses of resources where they differ, not too often, and an Event for each transition."""

import logging
import time
from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from schedkit.sked.api.conditions import ATTACHED, DEGRADED, PROGRESSING, RECONCILING, STALLED, VERIFIED, Reason
from schedkit.sked.api.kubernetes import Condition
from schedkit.sked.api.rollout_types import RolloutStatus
from schedkit.sked.api.types import SchedExt, SchedExtSpec, SchedExtStatus
from schedkit.sked.controller.execute import Fence
from schedkit.sked.controller.objects import SCHEDEXTS
from schedkit.sked.controller.status import make_unreadable_status, shorten_status
from schedkit.sked.kube.client import Client
from schedkit.sked.kube.errors import ApiInvalidError, ApiNotFoundError
from schedkit.sked.kube.events import EventType
from schedkit.sked.kube.logs import fields
from schedkit.sked.kube.objects import Applied, Key, Model, Object, ObjectMeta, format_time
from schedkit.sked.kube.watch import Unreadable

PACE_SECONDS = 1.0
NODES_A_SECOND = 100.0  # beyond so many nodes, counts are written less often
SLOWEST_SECONDS = 30.0
FAR = 1e9
Record = Callable[[ObjectMeta, EventType, str, str], None]  # about what, how grave, the reason, a sentence

_logger = logging.getLogger(__name__)


class _AppliedStatus(Applied, frozen=True):
    status: SchedExtStatus


class _Parts(Model, frozen=True):
    """A resource of which a part may be anything."""

    metadata: ObjectMeta
    spec: msgspec.Raw = msgspec.Raw(b"null")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class _Operation(Model, frozen=True, omit_defaults=False):
    """One step of a JSON patch."""

    op: str
    path: str
    value: object


class StatusWriter:
    """Writes statuses, and the Events of what changed in them."""

    def __init__(
        self,
        client: Client,
        record: Record,
        now: Callable[[], datetime],
        fence: Fence,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._record = record
        self._now = now
        self._fence = fence
        self._clock = clock
        self._last: dict[Key, float] = {}

    def now(self) -> str:
        """The time as conditions have it."""
        return format_time(self._now())

    def forget(self, resource: Key) -> None:
        """A resource is gone."""
        self._last.pop(resource, None)

    async def write(self, resource: SchedExt, status: SchedExtStatus) -> float | None:
        """Write a status that differs; the answer is in how many seconds to come again when it is too early."""
        if status == resource.status:
            return None
        key, now = resource.metadata.key, self._clock()
        due = self._last.get(key, -FAR) + _find_pace(resource.status, status)
        if now < due:
            return due - now
        self._fence()
        self._last[key] = now
        try:
            await self._apply(resource.metadata, status)
        except ApiNotFoundError:
            return None  # deleted meanwhile
        except ApiInvalidError as error:
            _logger.warning("status refused", extra=fields(resource=key, error=error.message))
            try:
                await self._apply(resource.metadata, shorten_status(status))
            except ApiInvalidError as again:
                # As where the spec was stored before there was validation, on servers before 1.30.
                _logger.warning("status refused again", extra=fields(resource=key, error=again.message))
                return None
        self._record_transitions(resource.metadata, resource.status.conditions, status.conditions)
        return None

    async def _apply(self, metadata: ObjectMeta, status: SchedExtStatus) -> None:
        # With its uid: one of the same name that was made since is told nothing about its predecessor.
        identity = ObjectMeta(name=metadata.name, namespace=metadata.namespace, uid=metadata.uid)
        body = _AppliedStatus(SCHEDEXTS.api_version, SCHEDEXTS.kind, identity, status)
        await self._client.apply(
            SCHEDEXTS, Object, metadata.name, body, namespace=metadata.namespace, status=True, force=True
        )

    async def write_unreadable(self, found: Unreadable) -> Sequence[Condition]:
        """Tell a resource that it is not understood; the answer is how.

        Where only its status is not, that is taken away to be made again, and nothing is told.
        """
        metadata = found.metadata
        if metadata.deletion_timestamp:
            return ()
        try:
            parts = await self._client.fetch(SCHEDEXTS, _Parts, metadata.name, namespace=metadata.namespace)
        except ApiNotFoundError:
            return ()
        before = _find_fault(parts.status, SchedExtStatus)
        fault = _find_fault(parts.spec, SchedExtSpec)
        if not fault:
            if before:
                _logger.warning("status taken away", extra=fields(resource=metadata.key, error=before))
                await self._replace_status(parts.metadata, {})
            return ()  # what fits now comes into sight by itself
        known = SchedExtStatus() if before else msgspec.json.decode(parts.status, type=SchedExtStatus)
        status = make_unreadable_status(parts.metadata.generation, known, fault, self.now())
        if status != known:
            self._record_transitions(parts.metadata, known.conditions, status.conditions)
            await self._replace_status(parts.metadata, status)
        return status.conditions

    async def _replace_status(self, metadata: ObjectMeta, status: object) -> None:
        """Put a status in the place of whatever is there: an apply would have to understand that first."""
        self._fence()
        same = _Operation("test", "/metadata/uid", metadata.uid)
        patch = [same, _Operation("add", "/status", status)]
        try:
            await self._client.patch(
                SCHEDEXTS, Object, metadata.name, patch, namespace=metadata.namespace, status=True, kind="json"
            )
        except ApiNotFoundError:
            return
        except ApiInvalidError as error:
            # Made again meanwhile; or the server (before 1.30) lets nothing be written to what it finds invalid.
            _logger.warning("cannot write status", extra=fields(resource=metadata.key, error=error.message))

    def _record_transitions(
        self, metadata: ObjectMeta, before: Sequence[Condition], conditions: Sequence[Condition]
    ) -> None:
        known = {condition.type: condition for condition in before}
        for condition in conditions:
            old = known.get(condition.type)
            if condition.type in (ATTACHED, RECONCILING, STALLED):
                continue  # they repeat what others say: Events of nodes, or the same in the words of kstatus
            if condition.type == PROGRESSING and condition.status == "False":
                continue  # what came of it is in the Event of Ready
            if old is None and condition.status == "False" and condition.type != VERIFIED:
                continue  # how every resource begins is no news
            if old is None or (old.status, old.reason) != (condition.status, condition.reason):
                is_bad = (condition.type, condition.status) in ((DEGRADED, "True"), (VERIFIED, "False"))
                is_bad = is_bad or condition.reason in (Reason.ROLLED_BACK, Reason.ROLLING_BACK, Reason.ROLLOUT_FAILED)
                kind: EventType = "Warning" if is_bad else "Normal"
                self._record(metadata, kind, condition.reason, f"{condition.type}: {condition.message}")


def _find_pace(old: SchedExtStatus, new: SchedExtStatus) -> float:
    """How many seconds must lie between two writes: a second, and more where only the counts of many nodes differ."""
    if _essence(old) != _essence(new):
        return PACE_SECONDS
    nodes = new.nodes.desired if new.nodes else 0
    return min(max(nodes / NODES_A_SECOND, PACE_SECONDS), SLOWEST_SECONDS)


def _essence(status: SchedExtStatus) -> tuple[object, ...]:
    found = [(condition.type, condition.status, condition.reason) for condition in status.conditions]
    return status.observed_generation, found, read_stages(status)


def read_stages(status: SchedExtStatus) -> list[tuple[str, tuple[object, ...]]]:
    """All of the rollouts' status that nodes are moved by."""
    rollouts = [(pool.name, pool.rollout) for pool in status.pools if pool.rollout]
    names = [name for name in RolloutStatus.__struct_fields__ if name not in ("message", "nodes", "gap")]
    return [(pool, tuple(getattr(rollout, name) for name in names)) for pool, rollout in rollouts]


def _find_fault(raw: msgspec.Raw, type: type[msgspec.Struct]) -> str:
    """Why a part of a resource is none, in words, or nothing."""
    try:
        msgspec.json.decode(raw, type=type)
    except msgspec.DecodeError as error:
        return str(error).replace("`$", "`").replace("`.", "`")
    return ""
