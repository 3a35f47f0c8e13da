"""Workers: a controller's reconcile function, run for each key of its queue."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from schedkit.errors import SchedkitError
from schedkit.sked.kube.errors import ApiConflictError
from schedkit.sked.kube.instruments import ReconcileMetrics
from schedkit.sked.kube.logs import fields
from schedkit.sked.kube.metrics import MetricsRegistry
from schedkit.sked.kube.queue import Queue, ShutDownError

Item = TypeVar("Item", bound=Hashable)
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Result:
    """What a reconciliation asks for: to be run again after some seconds."""

    after_seconds: float | None = None


Reconcile = Callable[[Item], Awaitable[Result | None]]


class Controller(Generic[Item]):
    """A queue, and workers that take from it."""

    def __init__(
        self,
        queue: Queue[Item],
        reconcile: Reconcile[Item],
        *,
        workers: int = 4,
        registry: MetricsRegistry | None = None,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.queue = queue
        self.name = queue.name
        self._reconcile = reconcile
        self._workers = workers
        self._timer = timer
        self._metrics = ReconcileMetrics(registry or MetricsRegistry(), self.name)
        self._metrics.workers.set(workers)

    async def run(self) -> None:
        """Work until the queue is shut down and the last reconciliation has ended."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            try:
                item = await self.queue.get()
            except ShutDownError:
                return
            started = self._timer()
            self._metrics.active.increase()
            try:
                await self._process(item)
            finally:
                self._metrics.active.increase(-1)
                self._metrics.seconds.observe(self._timer() - started)
                self.queue.done(item)

    async def _process(self, item: Item) -> None:
        try:
            result = await self._reconcile(item)
        except Exception as error:
            self._metrics.results["error"].increase()
            self._metrics.errors.increase()
            delay = self.queue.add_failed(item)
            # Somebody else was faster: everyday, and the next look sees what they wrote.
            level = logging.INFO if isinstance(error, ApiConflictError) else logging.ERROR
            self._log(level, "failed, trying again", item, error, seconds=round(delay, 3))
        else:
            self._count(item, result or Result())

    def _count(self, item: Item, result: Result) -> None:
        self.queue.forget(item)
        if result.after_seconds is None:
            self._metrics.results["success"].increase()
        else:
            self._metrics.results["requeue_after"].increase()
            self.queue.add_after(item, result.after_seconds)

    def _log(self, level: int, what: str, item: Item, error: Exception, **more: object) -> None:
        about: dict[str, object] = {"controller": self.name, "key": str(item), **more}
        if isinstance(error, SchedkitError):
            about |= {"reason": error.reason, "error": error.message} | ({"hint": error.hint} if error.hint else {})
        else:
            about["error"] = f"{type(error).__name__}: {error}"
        # A bug in sked shows where it is, to those who look for it.
        trace = error if not isinstance(error, SchedkitError) and _logger.isEnabledFor(logging.DEBUG) else None
        _logger.log(level, what, extra=fields(**about), exc_info=trace)
