"""Events under a storm, on a clock of the test's own; what the API server makes of them is tested for real."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from schedkit.sked.kube.events import BURST, Recorder
from schedkit.sked.kube.objects import ObjectReference
from tests.unit.sked_kube.tools import fake_client, status, until

THING = ObjectReference(kind="Thing", namespace="n", name="a", uid="u")


class Written:
    def __init__(self) -> None:
        self.created: list[dict[str, Any]] = []
        self.series: list[int] = []
        self.refusal: int = 0
        self.now = 0.0

    async def __call__(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        if self.refusal:
            return status(self.refusal, "Refused", "no")
        if request.method == "POST":
            self.created.append(body)
        else:
            self.series.append(body["series"]["count"])
        return web.json_response({"metadata": {"name": "x"}})


@asynccontextmanager
async def recording() -> AsyncIterator[tuple[Written, Recorder]]:
    written = Written()
    async with fake_client(written) as client:
        yield written, Recorder(client, "schedkit.io/sked", "host_1", clock=lambda: written.now)


async def test_repeated_event_is_created_once_and_counted_now_and_then() -> None:
    async with recording() as (written, recorder):
        for _ in range(10):
            recorder.record(THING, "Warning", "Failed", "Pull", "no such image")
            await recorder._write(recorder._waiting.get_nowait())
        assert len(written.created) == 1
        assert written.series == [2], "the second makes it a series; the rest is only counted"
        written.now = 61
        recorder.record(THING, "Warning", "Failed", "Pull", "no such image")
        await recorder.flush()
        assert written.series == [2, 11]
        written.now = 500
        recorder.record(THING, "Warning", "Failed", "Pull", "no such image")
        await recorder.flush()
        assert len(written.created) == 2, "after minutes of silence it is a new one"


async def test_counts_are_written_while_other_events_keep_coming() -> None:
    async with recording() as (written, recorder):
        running = asyncio.ensure_future(recorder.run())
        for _ in range(3):
            recorder.record(THING, "Warning", "Failed", "Pull", "no such image")
        await until(lambda: written.series == [2])
        for number in range(20):
            written.now += 10
            recorder.record(THING, "Normal", "Other", "Do", str(number))
            await until(lambda number=number: len(written.created) == 2 + number)  # type: ignore[misc]
        assert written.series == [2, 3]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_flush_writes_what_was_only_counted() -> None:
    async with recording() as (written, recorder):
        for _ in range(7):
            recorder.record(THING, "Normal", "Done", "Do", "well")
        await recorder.flush()
        assert written.series == [2, 7]


async def test_storm_about_one_object_is_held_back_and_others_are_heard() -> None:
    async with recording() as (written, recorder):
        for number in range(200):
            recorder.record(THING, "Normal", "Changed", "Change", f"to {number}")
        recorder.record(ObjectReference(kind="Thing", namespace="n", name="b"), "Normal", "Changed", "Change", "x")
        await recorder.flush()
        assert len(written.created) == BURST + 1
        written.now = 301
        recorder.record(THING, "Normal", "Changed", "Change", "at last")
        recorder.record(THING, "Normal", "Changed", "Change", "not yet")
        await recorder.flush()
        assert [event["note"] for event in written.created[BURST + 1 :]] == ["at last"]


async def test_long_notes_are_cut_to_what_the_api_server_takes() -> None:
    async with recording() as (written, recorder):
        recorder.record(THING, "Normal", "Long", "Tell", "ü" * 2000)
        await recorder.flush()
        note = written.created[0]["note"]
        assert len(note.encode()) <= 1024
        assert note.endswith("ü…")


async def test_refused_event_costs_a_log_line_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    async with recording() as (written, recorder):
        written.refusal = 403
        recorder.record(THING, "Normal", "Done", "Do", "well")
        await recorder.flush()
        assert caplog.messages == ["event not written"]


async def test_recording_never_waits_and_never_grows_without_bound() -> None:
    async with recording() as (_, recorder):
        for number in range(5000):
            recorder.record(THING, "Normal", "Done", "Do", str(number))
        assert recorder._waiting.qsize() == 1000
