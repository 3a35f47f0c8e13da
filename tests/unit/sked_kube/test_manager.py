"""How a manager ends: in order, with what is being written finished."""

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from schedkit.errors import SchedkitError
from schedkit.sked.kube.addresses import Address
from schedkit.sked.kube.informer import Informer
from schedkit.sked.kube.manager import Manager, stop_on_signals
from schedkit.sked.kube.objects import Object
from schedkit.sked.kube.queue import Queue
from schedkit.sked.kube.resources import Resource
from schedkit.sked.kube.serve import Server, make_health_application
from schedkit.sked.kube.workers import Controller, Result
from tests.unit.sked_kube.tools import Naps, fake_client, status, until


def make_manager(reconcile: Callable[[str], Awaitable[Result | None]]) -> Manager:
    queue: Queue[str] = Queue("things")
    server = Server("health", make_health_application(live={}, ready={}), Address("127.0.0.1", 0))
    queue.add("a")
    return Manager(informers=[], controllers=[Controller(queue, reconcile, workers=2)], servers=[server])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_signal_lets_what_is_being_written_end(number: signal.Signals) -> None:
    begun = asyncio.Event()
    ended: list[str] = []

    async def reconcile(key: str) -> None:
        begun.set()
        await manager.stopping.wait()
        await asyncio.sleep(0)
        ended.append(key)

    manager = make_manager(reconcile)
    async with stop_on_signals(manager):
        running = asyncio.ensure_future(manager.run())
        await begun.wait()
        os.kill(os.getpid(), number)
        await asyncio.wait_for(running, 30)
    assert ended == ["a"]


async def test_grace_is_bounded() -> None:
    begun, cancelled = asyncio.Event(), []

    async def reconcile(key: str) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(key)
            raise

    manager = make_manager(reconcile)
    manager.grace_seconds = 0.01
    running = asyncio.ensure_future(manager.run())
    await begun.wait()
    manager.stop()
    await asyncio.wait_for(running, 30)
    assert cancelled == ["a"]


async def test_second_signal_does_not_wait() -> None:
    begun = asyncio.Event()

    async def reconcile(_key: str) -> None:
        begun.set()
        await asyncio.Event().wait()

    manager = make_manager(reconcile)
    manager.grace_seconds = 3600

    async def send() -> None:
        await begun.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await manager.stopping.wait()
        os.kill(os.getpid(), signal.SIGTERM)

    sender = asyncio.ensure_future(send())
    with pytest.raises(asyncio.CancelledError):
        async with stop_on_signals(manager):
            await manager.run()
    await sender


async def test_failure_of_a_part_ends_the_whole_and_is_raised_as_it_is() -> None:
    async def reconcile(_key: str) -> None:
        return None

    async def fail() -> None:
        raise SchedkitError("the part broke")

    manager = make_manager(reconcile)
    manager.background = [fail]
    with pytest.raises(SchedkitError, match="the part broke"):
        await asyncio.wait_for(manager.run(), 30)


async def test_optional_informer_runs_and_nobody_waits_for_it() -> None:
    worked, installed = asyncio.Event(), asyncio.Event()

    async def reconcile(_key: str) -> None:
        worked.set()

    async def answer(_request: web.Request) -> web.Response:
        if not installed.is_set():
            return status(404, "NotFound", "no such resource")
        mark = {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}
        return web.Response(text=json.dumps({"type": "BOOKMARK", "object": {"metadata": mark}}) + "\n")

    async with fake_client(answer) as client:
        informer = Informer(client, Resource("test", "v1", "things", "Thing"), Object, sleep=Naps())
        manager = make_manager(reconcile)
        manager.optional_informers = [informer]
        running = asyncio.ensure_future(manager.run())
        await asyncio.wait_for(worked.wait(), 30)
        assert not informer.synced
        await until(lambda: informer.denied)
        assert manager.not_synced() == "", "the operator is ready without it"
        installed.set()
        await until(lambda: informer.synced and not informer.denied)
        manager.stop()
        await asyncio.wait_for(running, 30)


async def test_informer_that_is_not_optional_is_waited_for() -> None:
    asked = 0

    async def reconcile(_key: str) -> None:
        raise AssertionError("no work before everything is seen")

    async def answer(_request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return status(500, "InternalError", "not now")

    async with fake_client(answer) as client:
        manager = make_manager(reconcile)
        manager.informers = [Informer(client, Resource("test", "v1", "things", "Thing"), Object, sleep=Naps())]
        running = asyncio.ensure_future(manager.run())
        await until(lambda: asked > 20)
        assert manager.not_synced() == "things not synced (watch things: not now (500))"
        manager.stop()
        await asyncio.wait_for(running, 30)


async def test_stop_before_anything_began_ends_at_once() -> None:
    async def reconcile(_key: str) -> None:
        raise AssertionError("no work after the stop")

    manager = make_manager(reconcile)
    manager.stop()
    await asyncio.wait_for(manager.run(), 30)
