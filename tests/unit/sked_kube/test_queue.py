"""The work queue, on a clock of the test's own."""

import asyncio

import pytest

from schedkit.sked.kube.metrics import MetricsRegistry
from schedkit.sked.kube.queue import Queue, ShutDownError
from tests.unit.sked_kube.tools import ManualClock


async def take(queue: Queue[str]) -> str:
    async with asyncio.timeout(5):
        return await queue.get()


async def is_empty(queue: Queue[str]) -> bool:
    getter = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    empty = not getter.done()
    getter.cancel()
    await asyncio.gather(getter, return_exceptions=True)
    return empty


async def test_keys_come_in_the_order_they_were_added_and_once() -> None:
    queue: Queue[str] = Queue("test", clock=ManualClock())
    for key in "abacab":
        queue.add(key)
    assert [await take(queue) for _ in range(3)] == ["a", "b", "c"]
    assert await is_empty(queue)


async def test_key_in_work_is_not_handed_out_and_runs_again_when_it_was_added_meanwhile() -> None:
    queue: Queue[str] = Queue("test", clock=ManualClock())
    queue.add("a")
    assert await take(queue) == "a"
    queue.add("a")
    queue.add("a")
    assert await is_empty(queue)
    queue.done("a")
    assert await take(queue) == "a"
    queue.done("a")
    assert await is_empty(queue)


async def test_key_added_during_its_work_waits_behind_the_others() -> None:
    queue: Queue[str] = Queue("test", clock=ManualClock())
    queue.add("greedy")
    queue.add("patient")
    assert await take(queue) == "greedy"
    queue.add("greedy")
    queue.done("greedy")
    assert [await take(queue), await take(queue)] == ["patient", "greedy"]


async def test_of_several_times_the_earliest_counts() -> None:
    clock = ManualClock()
    queue: Queue[str] = Queue("test", clock=clock)
    queue.add_after("a", 10)
    queue.add_after("a", 3)
    queue.add_after("a", 5)
    clock.advance(2.9)
    assert await is_empty(queue)
    clock.advance(0.2)
    assert await take(queue) == "a"
    queue.done("a")
    clock.advance(60)
    assert await is_empty(queue)


async def test_delayed_keys_come_in_the_order_of_their_times() -> None:
    clock = ManualClock()
    queue: Queue[str] = Queue("test", clock=clock)
    queue.add_after("late", 3)
    queue.add_after("soon", 1)
    queue.add_after("now", 0)
    clock.advance(5)
    assert [await take(queue) for _ in range(3)] == ["now", "soon", "late"]


async def test_failures_in_a_row_double_the_wait_up_to_a_cap_and_success_forgets_them() -> None:
    clock = ManualClock()
    queue: Queue[str] = Queue("test", clock=clock, cap_seconds=0.03)
    delays = []
    for _ in range(5):
        delays.append(queue.add_failed("a"))
        clock.advance(delays[-1])
        assert await take(queue) == "a"
        queue.done("a")
    assert delays == [0.005, 0.01, 0.02, 0.03, 0.03]
    assert queue.add_failed("b") == 0.005
    queue.forget("a")
    assert queue.add_failed("a") == 0.005


async def test_a_thousand_failures_do_not_overflow() -> None:
    queue: Queue[str] = Queue("test", clock=ManualClock())
    delays = [queue.add_failed("a") for _ in range(2000)]
    assert delays[-1] == 300.0


async def test_waiting_workers_are_woken_one_a_key() -> None:
    queue: Queue[str] = Queue("test", clock=ManualClock())
    getters = [asyncio.ensure_future(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.add("a")
    queue.add("b")
    done, waiting = await asyncio.wait(getters, timeout=0.05)
    assert sorted(task.result() for task in done) == ["a", "b"]
    assert len(waiting) == 1
    queue.add("c")
    assert await next(iter(waiting)) == "c"


async def test_key_is_not_lost_when_the_worker_woken_for_it_is_cancelled() -> None:
    queue: Queue[str] = Queue("test", clock=ManualClock())
    first, second = (asyncio.ensure_future(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await second == "a"


async def test_shut_down_queue_hands_out_nothing_and_takes_nothing() -> None:
    clock = ManualClock()
    queue: Queue[str] = Queue("test", clock=clock)
    queue.add("in work")
    assert await take(queue) == "in work"
    queue.add("waiting")
    queue.add_after("later", 1)
    queue.shut_down()
    queue.add("too late")
    clock.advance(2)
    with pytest.raises(ShutDownError):
        await take(queue)


async def test_shut_down_wakes_those_who_wait_and_lets_those_who_work_end() -> None:
    queue: Queue[str] = Queue("test", clock=ManualClock())
    queue.add("a")
    await take(queue)
    getter = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    queue.shut_down()
    with pytest.raises(ShutDownError):
        await getter
    queue.done("a")


async def test_metrics_tell_depth_adds_retries_and_durations() -> None:
    clock, registry = ManualClock(), MetricsRegistry()
    queue: Queue[str] = Queue("nodes", clock=clock, registry=registry)
    queue.add("a")
    queue.add("b")
    clock.advance(2)
    await take(queue)
    clock.advance(3)
    text = registry.render().decode()
    labels = '{name="nodes",controller="nodes"}'
    assert f"workqueue_depth{labels} 1\n" in text
    assert f"workqueue_adds_total{labels} 2\n" in text
    assert f"workqueue_queue_duration_seconds_sum{labels} 2\n" in text
    assert f"workqueue_unfinished_work_seconds{labels} 3\n" in text
    assert f"workqueue_longest_running_processor_seconds{labels} 3\n" in text
    queue.add_failed("a")
    queue.done("a")
    text = registry.render().decode()
    assert f"workqueue_work_duration_seconds_sum{labels} 3\n" in text
    assert f"workqueue_retries_total{labels} 1\n" in text
