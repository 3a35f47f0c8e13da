"""Workers: how a reconciliation's end becomes the next one's beginning."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from schedkit.errors import SchedkitError
from schedkit.sked.kube.errors import ApiConflictError, ApiStatus
from schedkit.sked.kube.metrics import MetricsRegistry
from schedkit.sked.kube.queue import Queue
from schedkit.sked.kube.workers import Controller, Result
from tests.unit.sked_kube.tools import ManualClock, until


class Bench:
    """A controller on a clock of the test's own."""

    def __init__(self, reconcile: Callable[[str], Awaitable[Result | None]], workers: int = 2) -> None:
        self.clock, self.registry = ManualClock(), MetricsRegistry()
        self.queue: Queue[str] = Queue("things", clock=self.clock, registry=self.registry)
        self.controller = Controller(self.queue, reconcile, workers=workers, registry=self.registry)

    async def finish(self, running: asyncio.Task[None]) -> None:
        self.queue.shut_down()
        async with asyncio.timeout(10):
            await running

    def count(self, result: str) -> str:
        start = f'controller_runtime_reconcile_total{{controller="things",result="{result}"}} '
        lines = self.registry.render().decode().splitlines()
        return next(line.removeprefix(start) for line in lines if line.startswith(start))


async def test_every_key_is_worked_on_with_no_more_than_so_many_at_once() -> None:
    now, most, done = 0, 0, []

    async def reconcile(key: str) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        done.append(key)

    bench = Bench(reconcile, workers=3)
    for number in range(20):
        bench.queue.add(str(number))
    running = asyncio.create_task(bench.controller.run())
    await until(lambda: len(done) == 20)
    assert most == 3
    assert bench.count("success") == "20"
    await bench.finish(running)


@pytest.mark.parametrize("error", [SchedkitError("no luck", hint="try harder"), ZeroDivisionError("by zero")])
async def test_failure_is_one_log_line_and_another_try(caplog: pytest.LogCaptureFixture, error: Exception) -> None:
    caplog.set_level(logging.INFO)
    tries = 0

    async def reconcile(_key: str) -> None:
        nonlocal tries
        tries += 1
        if tries <= 2:
            raise error

    bench = Bench(reconcile)
    bench.queue.add("a")
    running = asyncio.create_task(bench.controller.run())
    await until(lambda: tries == 1 and bench.count("error") == "1")
    bench.clock.advance(0.005)
    await until(lambda: bench.count("error") == "2")
    bench.clock.advance(0.005)
    await asyncio.sleep(0)
    assert tries == 2, "the second wait is longer"
    bench.clock.advance(0.006)
    await until(lambda: bench.count("success") == "1")
    await bench.finish(running)
    assert [record.message for record in caplog.records] == ["failed, trying again"] * 2
    assert not any(record.exc_info for record in caplog.records)


async def test_conflict_is_no_alarm(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def reconcile(_key: str) -> None:
        raise ApiConflictError(ApiStatus(code=409, reason="Conflict"), "patch Thing a")

    bench = Bench(reconcile)
    bench.queue.add("a")
    running = asyncio.create_task(bench.controller.run())
    await until(lambda: bench.count("error") == "1")
    await bench.finish(running)
    assert [record.levelname for record in caplog.records] == ["INFO"]


async def test_result_asks_for_a_later_run() -> None:
    results = [Result(after_seconds=30), None]
    tries = 0

    async def reconcile(_key: str) -> Result | None:
        nonlocal tries
        tries += 1
        return results[tries - 1]

    bench = Bench(reconcile)
    bench.queue.add("a")
    running = asyncio.create_task(bench.controller.run())
    await until(lambda: bench.count("requeue_after") == "1")
    bench.clock.advance(29)
    await asyncio.sleep(0)
    assert tries == 1
    bench.clock.advance(1)
    await until(lambda: bench.count("success") == "1")
    await bench.finish(running)


async def test_shut_down_lets_a_running_reconciliation_end() -> None:
    begun, go, ended = asyncio.Event(), asyncio.Event(), []

    async def reconcile(key: str) -> None:
        begun.set()
        await go.wait()
        ended.append(key)

    bench = Bench(reconcile, workers=1)
    bench.queue.add("a")
    bench.queue.add("b")
    running = asyncio.create_task(bench.controller.run())
    await begun.wait()
    bench.queue.shut_down()
    await asyncio.sleep(0)
    assert not running.done()
    go.set()
    await running
    assert ended == ["a"]
