"""The work queue: each key once, first come first served, failed ones later and later."""

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from schedkit.sked.kube.backoff import exponential_delay
from schedkit.sked.kube.clock import Clock, Timer
from schedkit.sked.kube.instruments import QueueMetrics
from schedkit.sked.kube.metrics import MetricsRegistry

Item = TypeVar("Item", bound=Hashable)
BASE_SECONDS = 0.005  # controller-runtime's
CAP_SECONDS = 300.0  # controller-runtime waits up to 1,000 s, long after a person has fixed what was wrong


class ShutDownError(Exception):
    """The queue hands out nothing any more."""


class Queue(Generic[Item]):
    """Keys to work on. A key waits once however often it is added, and two workers never have the same one."""

    def __init__(
        self,
        name: str,
        *,
        clock: Clock | None = None,
        registry: MetricsRegistry | None = None,
        base_seconds: float = BASE_SECONDS,
        cap_seconds: float = CAP_SECONDS,
    ) -> None:
        self.name = name
        self._clock: Clock = clock or asyncio.get_running_loop()
        self._base_seconds = base_seconds
        self._cap_seconds = cap_seconds
        self._ready: deque[Item] = deque()
        self._wanted: dict[Item, float] = {}  # ready, or to be ready again when its worker is done; since when
        self._working: dict[Item, float] = {}  # since when
        self._failures: dict[Item, int] = {}
        self._due: dict[Item, float] = {}
        self._order: list[tuple[float, int, Item]] = []  # heap of what is due; entries that _due denies are stale
        self._numbers = itertools.count()
        self._timer: Timer | None = None
        self._getters: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._metrics = QueueMetrics(registry or MetricsRegistry(), name)
        self._metrics.depth.compute = lambda: len(self._ready)
        self._metrics.unfinished.compute = lambda: sum(self._ages())
        self._metrics.longest.compute = lambda: max(self._ages(), default=0.0)

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, item: Item) -> None:
        """Queue a key; if it is being worked on now, it is queued once more."""
        if self._closed or item in self._wanted:
            return
        self._wanted[item] = self._clock.time()
        self._metrics.adds.increase()
        if item not in self._working:
            self._make_ready(item)

    def add_after(self, item: Item, seconds: float) -> None:
        """Queue a key after some time; of several times, the earliest is used."""
        if seconds <= 0:
            self.add(item)
            return
        when = self._clock.time() + seconds
        if self._closed or self._due.get(item, when + 1) <= when:
            return
        self._due[item] = when
        heapq.heappush(self._order, (when, next(self._numbers), item))
        self._arm()

    def add_failed(self, item: Item) -> float:
        """Queue a key again after a failure, and return the delay; each failure in a row doubles it."""
        failures = self._failures.get(item, 0)
        self._failures[item] = failures + 1
        delay = exponential_delay(failures, self._base_seconds, self._cap_seconds)
        self._metrics.retries.increase()
        self.add_after(item, delay)
        return delay

    def forget(self, item: Item) -> None:
        """A key went well: its next failure is its first."""
        self._failures.pop(item, None)

    async def get(self) -> Item:
        """The next key, waiting for one; `done` must follow."""
        while not self._closed and not self._ready:
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                # Woken and cancelled at once: somebody else must have the key that we were woken for.
                if getter.done() and not getter.cancelled():
                    self._wake()
                raise
            finally:
                if getter in self._getters:
                    self._getters.remove(getter)
        if self._closed:
            raise ShutDownError
        item = self._ready.popleft()
        now = self._clock.time()
        self._metrics.waited.observe(now - self._wanted.pop(item))
        self._working[item] = now
        return item

    def done(self, item: Item) -> None:
        """A key has been worked on, well or not."""
        self._metrics.worked.observe(self._clock.time() - self._working.pop(item))
        if item in self._wanted and not self._closed:
            self._make_ready(item)

    def shut_down(self) -> None:
        """Hand out nothing and take nothing more; whoever leads next does what is left."""
        self._closed = True
        self._ready.clear()
        self._wanted.clear()
        self._due.clear()
        self._order.clear()
        if self._timer is not None:
            self._timer.cancel()
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)

    def _make_ready(self, item: Item) -> None:
        self._ready.append(item)
        self._wake()

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _arm(self) -> None:
        """Be called when the next key is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._order and self._due.get(self._order[0][2]) != self._order[0][0]:
            heapq.heappop(self._order)
        if self._order:
            self._timer = self._clock.call_at(self._order[0][0], self._release_due)

    def _release_due(self) -> None:
        now = self._clock.time()
        while self._order and self._order[0][0] <= now:
            when, _, item = heapq.heappop(self._order)
            if self._due.get(item) == when:
                del self._due[item]
                self.add(item)
        self._arm()

    def _ages(self) -> list[float]:
        now = self._clock.time()
        return [now - since for since in self._working.values()]
