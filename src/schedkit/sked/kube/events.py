"""Events (events.k8s.io/v1): what happened to an object, for people; repeated ones counted, storms held back."""

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeVar

from schedkit.errors import SchedkitError
from schedkit.sked.kube.client import Client
from schedkit.sked.kube.errors import ApiForbiddenError, ApiNotFoundError
from schedkit.sked.kube.logs import fields
from schedkit.sked.kube.objects import Model, Object, ObjectMeta, ObjectReference, format_micro_time, utc_now
from schedkit.sked.kube.resources import EVENTS, Resource

Known = TypeVar("Known")
Value = TypeVar("Value")
EventType = Literal["Normal", "Warning"]
LONGEST_NOTE = 1024
LONGEST_NAME = 128
# client-go's: an object may have 25 Events at once, then one more every five minutes.
BURST = 25
REFILL_SECONDS = 300.0
# Repetitions are written one by one no more often than this, and a series ends when nothing came for so long.
SERIES_WRITE_SECONDS = 60.0
SERIES_END_SECONDS = 360.0
REMEMBERED = 4096
WAITING = 1000
_logger = logging.getLogger(__name__)


class EventSeries(Model, frozen=True):
    """How often, and when last."""

    count: int
    last_observed_time: str


class Event(Model, frozen=True):
    """The object that `kubectl describe` shows."""

    metadata: ObjectMeta
    event_time: str
    reporting_controller: str
    reporting_instance: str
    action: str
    reason: str
    regarding: ObjectReference
    note: str
    type: str
    series: EventSeries | None = None


class _SeriesPatch(Model, frozen=True):
    series: EventSeries


@dataclass(frozen=True, slots=True)
class Happening:
    """What makes two Events the same."""

    regarding: ObjectReference
    type: EventType
    reason: str
    action: str
    note: str


@dataclass(slots=True)
class _Series:
    """One Event as it is on the server, and what has been counted since."""

    name: str
    namespace: str
    count: int
    last: datetime
    seen_at: float
    written_at: float
    written_count: int


@dataclass(slots=True)
class _Bucket:
    """How many more Events an object may have."""

    tokens: float
    at: float


def refer_to(resource: Resource, metadata: ObjectMeta) -> ObjectReference:
    """What an Event says it is about."""
    return ObjectReference(
        api_version=resource.api_version,
        kind=resource.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
    )


class Recorder:
    """Takes note of happenings at once and writes them in the background; failing to costs a log line."""

    def __init__(
        self,
        client: Client,
        controller: str,
        instance: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._client = client
        self._controller = controller
        self._instance = instance[:LONGEST_NAME]
        self._clock = clock
        self._now = now
        self._waiting: asyncio.Queue[Happening] = asyncio.Queue(WAITING)
        self._series: dict[Happening, _Series] = {}  # the longest unseen first
        self._buckets: dict[str, _Bucket] = {}  # likewise

    def record(self, regarding: ObjectReference, type: EventType, reason: str, action: str, note: str) -> None:
        """Note that something happened to an object. Never waits; when too much happens at once, some is dropped."""
        happening = Happening(
            regarding, type, reason[:LONGEST_NAME], action[:LONGEST_NAME], _shorten(note, LONGEST_NOTE)
        )
        try:
            self._waiting.put_nowait(happening)
        except asyncio.QueueFull:
            _logger.debug("event dropped", extra=fields(reason=reason, object=regarding.name))

    async def run(self) -> None:
        """Write until cancelled: what happens at once, and counts now and then, however much else happens."""
        counts_due = self._clock() + SERIES_WRITE_SECONDS
        while True:
            left = counts_due - self._clock()
            if left <= 0:
                await self._write_counts(all=False)
                counts_due = self._clock() + SERIES_WRITE_SECONDS
                continue
            try:
                async with asyncio.timeout(left):
                    happening = await self._waiting.get()
            except TimeoutError:
                continue
            await self._write(happening)

    async def flush(self) -> None:
        """Write what waits, and the counts: at the end of the program."""
        while not self._waiting.empty():
            await self._write(self._waiting.get_nowait())
        await self._write_counts(all=True)

    async def _write(self, happening: Happening) -> None:
        moment = self._clock()
        series = self._series.get(happening)
        if series is not None and moment - series.seen_at < SERIES_END_SECONDS:
            self._series[happening] = self._series.pop(happening)
            series.count += 1
            series.last = self._now()
            series.seen_at = moment
            # The second time makes it a series, which people want to see; from then on, now and then is enough.
            if series.written_count == 1 or moment - series.written_at >= SERIES_WRITE_SECONDS:
                await self._write_count(happening, series)
        elif self._allow(happening.regarding, moment):
            await self._create(happening, moment)
        else:
            _logger.debug("event held back", extra=fields(reason=happening.reason, object=happening.regarding.name))

    def _allow(self, regarding: ObjectReference, moment: float) -> bool:
        key = regarding.uid or f"{regarding.kind} {regarding.namespace}/{regarding.name}"
        bucket = self._buckets.pop(key, None) or _Bucket(BURST, moment)
        bucket.tokens = min(BURST, bucket.tokens + (moment - bucket.at) / REFILL_SECONDS)
        bucket.at = moment
        _remember(self._buckets, key, bucket)
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    async def _create(self, happening: Happening, moment: float) -> None:
        regarding = happening.regarding
        # Events about what has no namespace live in `default`, by convention and by validation.
        namespace = regarding.namespace or "default"
        name = f"{regarding.name[:200]}.{uuid.uuid4().hex[:16]}"
        time = self._now()
        event = Event(
            metadata=ObjectMeta(name=name, namespace=namespace),
            event_time=format_micro_time(time),
            reporting_controller=self._controller,
            reporting_instance=self._instance,
            action=happening.action,
            reason=happening.reason,
            regarding=regarding,
            note=happening.note,
            type=happening.type,
        )
        # Remembered even when it cannot be written: a storm is no smaller for being refused.
        series = _Series(name, namespace, 1, time, seen_at=moment, written_at=moment, written_count=1)
        _remember(self._series, happening, series)
        try:
            await self._client.create(EVENTS, Object, event, namespace=namespace)
        except SchedkitError as error:
            self._log(happening, error)
            if not isinstance(error, ApiForbiddenError):
                del self._series[happening]

    async def _write_count(self, happening: Happening, series: _Series) -> None:
        told = EventSeries(count=series.count, last_observed_time=format_micro_time(series.last))
        series.written_count, series.written_at = series.count, self._clock()
        try:
            await self._client.patch(EVENTS, Object, series.name, _SeriesPatch(series=told), namespace=series.namespace)
        except ApiNotFoundError:  # Events end after an hour, or somebody tidied up
            self._series.pop(happening, None)
            moment = self._clock()
            if self._allow(happening.regarding, moment):
                await self._create(happening, moment)
        except SchedkitError as error:
            self._log(happening, error)

    async def _write_counts(self, *, all: bool) -> None:
        moment = self._clock()
        for happening, series in list(self._series.items()):
            if series.count > series.written_count and (all or moment - series.written_at >= SERIES_WRITE_SECONDS):
                await self._write_count(happening, series)
            elif moment - series.seen_at >= SERIES_END_SECONDS:
                self._series.pop(happening, None)

    def _log(self, happening: Happening, error: SchedkitError) -> None:
        about = fields(reason=happening.reason, object=happening.regarding.name, error=error.message)
        _logger.warning("event not written", extra=about)


def _shorten(text: str, longest: int) -> str:
    """Cut to a number of bytes, which is what the API server counts."""
    encoded = text.encode()
    return text if len(encoded) <= longest else encoded[: longest - 3].decode(errors="ignore") + "…"


def _remember(memory: dict[Known, Value], key: Known, value: Value) -> None:
    memory[key] = value
    if len(memory) > REMEMBERED:
        del memory[next(iter(memory))]
