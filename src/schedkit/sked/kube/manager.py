"""The whole of a running operator: servers, informers, the lease, workers; and their orderly end."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from schedkit.sked.kube.events import Recorder
from schedkit.sked.kube.informer import Informer
from schedkit.sked.kube.lease import Elector
from schedkit.sked.kube.logs import fields
from schedkit.sked.kube.serve import Server
from schedkit.sked.kube.workers import Controller

# A pod's grace is ten seconds in the operator's Deployment: finish writing in most of it, then release and close.
GRACE_SECONDS = 6.0
FLUSH_SECONDS = 1.0
_logger = logging.getLogger(__name__)


@dataclass
class Manager:
    """What runs together. `stop` ends it in order: no new work, what is being written finished, the lease released."""

    informers: Sequence[Informer[Any]]
    controllers: Sequence[Controller[Any]]
    optional_informers: Sequence[Informer[Any]] = ()  # nobody waits for these: their CRD or a right may be missing
    elector: Elector | None = None  # none: lead at once
    recorder: Recorder | None = None
    servers: Sequence[Server] = ()
    background: Sequence[Callable[[], Coroutine[Any, Any, None]]] = ()  # whatever else runs from start to end
    grace_seconds: float = GRACE_SECONDS
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _leading: bool = field(default=False, init=False)

    def stop(self) -> None:
        """Begin the end. Safe to call at any time, from the loop's thread."""
        for controller in self.controllers:
            controller.queue.shut_down()
        self.stopping.set()

    def not_synced(self) -> str:
        """A check for readiness: which informers have not seen everything yet or may no longer look, and why."""
        waiting = [informer for informer in self.informers if not informer.synced or informer.denied]
        return "; ".join(
            f"{informer.resource.plural} not synced{f' ({informer.trouble})' if informer.trouble else ''}"
            for informer in waiting
        )

    async def run(self) -> None:
        """Run until stopped; the first thing to fail ends everything and is raised as it is."""
        async with AsyncExitStack() as stack:
            for server in self.servers:
                await stack.enter_async_context(server)
            try:
                async with asyncio.TaskGroup() as group:
                    informers = (*self.informers, *self.optional_informers)
                    tasks = [group.create_task(informer.run()) for informer in informers]
                    tasks += [group.create_task(begin()) for begin in self.background]
                    if self.recorder is not None:
                        tasks.append(group.create_task(self.recorder.run()))
                    await self._until_stopped(self._lead_when_ready())
                    for task in tasks:
                        task.cancel()
            except BaseExceptionGroup as errors:
                raise _first(errors) from None
            finally:
                await self._flush()

    async def _lead_when_ready(self) -> None:
        # Who lacks a right leads as well, as somebody must say so: reconciliations look at what may be seen.
        for informer in self.informers:
            await informer.wait_settled()
        if all(informer.synced for informer in self.informers):
            _logger.info("synced", extra=fields(objects=sum(len(informer.store) for informer in self.informers)))
        if self.elector is None:
            await self._lead()
        else:
            await self.elector.run(self._lead)

    async def _lead(self) -> None:
        self._leading = True
        async with asyncio.TaskGroup() as group:
            for controller in self.controllers:
                group.create_task(controller.run())

    async def _until_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """Run until told to stop; then let what is being written end, for so long and no longer."""
        working = asyncio.ensure_future(work)
        stopped = asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if self._leading:  # else nothing is being written
                await asyncio.wait({working}, timeout=self.grace_seconds)
        finally:
            stopped.cancel()
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working

    async def _flush(self) -> None:
        if self.recorder is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_SECONDS):
                    await self.recorder.flush()


@asynccontextmanager
async def stop_on_signals(manager: Manager) -> AsyncIterator[None]:
    """SIGTERM and SIGINT stop the manager; a second one stops without grace."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()

    def receive(number: signal.Signals) -> None:
        if manager.stopping.is_set() and task is not None:
            task.cancel()
            return
        _logger.info("stopping", extra=fields(signal=number.name))
        manager.stop()

    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, receive, number)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error itself: a group says nothing to the person who reads the last line."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
