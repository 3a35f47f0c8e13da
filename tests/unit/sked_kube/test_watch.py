"""Informers through bad weather: what a server and a network can do to a watch. Fair weather is tested for real."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import pytest
from aiohttp import web

from schedkit.sked.kube import watch
from schedkit.sked.kube.decoding import LineSplitter
from schedkit.sked.kube.informer import Informer
from schedkit.sked.kube.objects import Key, Model, ObjectMeta
from schedkit.sked.kube.resources import Resource
from schedkit.sked.kube.watch import DENIALS_BELIEVED, RECONNECT_BASE_SECONDS, RECONNECT_CAP_SECONDS
from tests.unit.sked_kube.tools import Naps, fake_client, status, until

THINGS = Resource("test", "v1", "things", "Thing")
Write = Callable[[bytes], Awaitable[None]]


class Thing(Model, frozen=True):
    metadata: ObjectMeta
    size: int = 0


def line(type: str, name: str, version: int, size: object = 0, **annotations: str) -> bytes:
    metadata = {"name": name, "namespace": "n", "uid": name, "resourceVersion": str(version)}
    marks = {key.replace("_", "-"): value for key, value in annotations.items()}
    return (
        json.dumps({"type": type, "object": {"metadata": metadata | {"annotations": marks}, "size": size}}).encode()
        + b"\n"
    )


def end_of_beginning(version: int) -> bytes:
    metadata = {"resourceVersion": str(version), "annotations": {"k8s.io/initial-events-end": "true"}}
    return json.dumps({"type": "BOOKMARK", "object": {"metadata": metadata}}).encode() + b"\n"


def error(code: int, reason: str) -> bytes:
    return (
        json.dumps({"type": "ERROR", "object": {"code": code, "reason": reason, "message": "too old"}}).encode() + b"\n"
    )


class Watched:
    """A server of things: each watch is played by the next of the given functions, the last one stays open.

    It has come to any version that it is asked about, and has what it sent, unless `behind` says otherwise, once for
    each answer in it.
    """

    def __init__(
        self,
        *acts: Callable[[Write], Awaitable[None]] | web.Response,
        pages: dict[str, Any] | None = None,
        behind: Sequence[web.Response] = (),
    ):
        self._acts = list(acts)
        self._pages = pages or {}
        self._behind = list(behind)
        self._sent: dict[str, Any] = {}  # the last version of each object
        self.queries: list[dict[str, str]] = []
        self.checks: list[str] = []  # what it was asked about versions, beside the lists and watches

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("limit") == "1" and "resourceVersionMatch" in request.query:
            self.checks.append(f"{request.query['resourceVersion']} {request.query['resourceVersionMatch']}")
            name = request.query.get("fieldSelector", "").removeprefix("metadata.name=")
            known = [self._sent[name]] if name in self._sent else []
            return self._behind.pop(0) if self._behind else web.json_response({"metadata": {}, "items": known})
        self.queries.append(dict(request.query))
        if "watch" not in request.query:
            page = self._pages[request.query.get("continue", "")]
            if isinstance(page, web.Response):
                return page
            for item in page["items"] or []:
                self._sent[item["metadata"]["name"]] = item
            return web.json_response(page)
        act = self._acts.pop(0) if self._acts else None
        if isinstance(act, web.Response):
            return act
        response = web.StreamResponse()
        await response.prepare(request)
        if act is None:
            await asyncio.Event().wait()
        else:
            await act(partial(self._write, response, bytearray()))
        return response

    async def _write(self, response: web.StreamResponse, text: bytearray, chunk: bytes) -> None:
        """Send a piece of a watch, and note the objects in its whole lines."""
        text += chunk
        *lines, rest = text.split(b"\n")
        text[:] = rest
        for found in map(json.loads, lines):
            if name := found["object"].get("metadata", {}).get("name"):
                self._sent[name] = found["object"]
        await response.write(chunk)


@asynccontextmanager
async def informed(
    server: Watched, *, naps: Naps | None = None, **settings: bool | int
) -> AsyncIterator[tuple[Informer[Thing], list[str]]]:
    """A running informer, and what its handler was told."""
    told: list[str] = []

    def tell(old: Thing | None, new: Thing | None) -> None:
        before = f"{old.metadata.name}{old.size}" if old else "-"
        told.append(f"{before}>{f'{new.metadata.name}{new.size}' if new else '-'}")

    async with fake_client(server) as client:
        informer = Informer(client, THINGS, Thing, sleep=naps or Naps(), **settings)  # type: ignore[arg-type]
        informer.on_change(tell)
        running = asyncio.ensure_future(informer.run())
        try:
            yield informer, told
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def act(*chunks: bytes) -> Callable[[Write], Awaitable[None]]:
    async def play(write: Write) -> None:
        for chunk in chunks:
            await write(chunk)

    return play


BEGINNING = line("ADDED", "a", 1) + line("ADDED", "b", 2) + end_of_beginning(2)


async def test_lines_arrive_in_pieces_and_longer_than_any_buffer() -> None:
    long = line("MODIFIED", "a", 3, size=3, note="x" * 3_000_000)
    text = BEGINNING + long + line("DELETED", "b", 4)
    sizes = [1, 9, 1, 30, *([70_001] * 50)]
    pieces = [text[sum(sizes[:at]) : sum(sizes[: at + 1])] for at in range(len(sizes))]
    server = Watched(act(*(piece for piece in pieces if piece)))
    async with informed(server) as (_, told):
        await until(lambda: len(told) >= 4)
        assert told == ["->a0", "->b0", "a0>a3", "b0>-"]


async def test_changes_that_come_in_a_wave_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    feed = LineSplitter.feed

    def note(splitter: LineSplitter, chunk: bytes) -> Iterator[bytes]:
        read.append(chunk)
        return feed(splitter, chunk)

    async def play(write: Write) -> None:
        await write(BEGINNING)
        for version in range(3, 203):
            await write(line("MODIFIED", "a", version, size=version))
            await asyncio.sleep(0.001)
        await asyncio.Event().wait()

    monkeypatch.setattr(LineSplitter, "feed", note)
    async with informed(Watched(play)) as (informer, told):
        await until(lambda: len(told) == 202)
        assert told[-1] == "a201>a202", "and none is left out"
        assert informer.store.get("n", "a") == Thing(ObjectMeta("a", "n", "a", "202"), 202)
    assert len(read) < 100


async def test_dropped_watch_goes_on_from_the_last_version_or_bookmark() -> None:
    bookmark = json.dumps({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "70"}}}).encode() + b"\n"
    torn = line("ADDED", "never", 9)[:-20]
    server = Watched(act(BEGINNING + line("MODIFIED", "a", 8, 8) + torn), act(bookmark), act(line("ADDED", "c", 71)))
    async with informed(server) as (informer, told):
        await until(lambda: len(server.queries) >= 4)
        assert told == ["->a0", "->b0", "a0>a8", "->c0"]
        assert informer.synced
    beginning, second, third, fourth = server.queries[:4]
    assert (beginning["sendInitialEvents"], beginning["resourceVersionMatch"]) == ("true", "NotOlderThan")
    assert "resourceVersion" not in beginning
    assert [query["resourceVersion"] for query in (second, third, fourth)] == ["8", "70", "71"]
    assert all(300 <= int(query["timeoutSeconds"]) <= 600 for query in server.queries)


@pytest.mark.parametrize("gone", [act(error(410, "Expired")), status(410, "Expired", "too old")])
async def test_expired_history_is_read_anew_and_what_was_deleted_meanwhile_is_told(
    gone: Callable[[Write], Awaitable[None]] | web.Response,
) -> None:
    again = line("ADDED", "b", 2) + line("ADDED", "c", 30) + end_of_beginning(40)
    server = Watched(act(BEGINNING), gone, act(again))
    async with informed(server) as (informer, told):
        await until(lambda: len(told) >= 4)
        assert told == ["->a0", "->b0", "->c0", "a0>-"], "b is as it was: nothing to tell"
        assert len(informer.store) == 2


async def test_beginning_that_breaks_off_deletes_nothing() -> None:
    again = act(line("ADDED", "a", 1))
    whole = act(line("ADDED", "a", 1) + line("ADDED", "b", 2) + end_of_beginning(9))
    server = Watched(act(BEGINNING), act(error(410, "Expired")), again, whole)
    async with informed(server) as (informer, told):
        await until(lambda: len(server.queries) >= 5)
        assert told == ["->a0", "->b0"]
        assert len(informer.store) == 2


async def test_other_errors_of_a_watch_go_on_and_persistent_ones_begin_anew() -> None:
    server = Watched(act(BEGINNING), *(act(error(500, "InternalError")) for _ in range(3)), act(BEGINNING[:30]))
    async with informed(server) as (_, told):
        await until(lambda: len(server.queries) >= 6)
        assert told == ["->a0", "->b0"]
    assert [query.get("resourceVersion") for query in server.queries[:6]] == [None, "2", "2", "2", None, None]


async def test_server_that_is_behind_after_it_lost_its_history_is_read_anew() -> None:
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    body = {"kind": "Status", "status": "Failure", "code": 504, "reason": "Timeout", "details": {"causes": [cause]}}
    behind = [web.json_response(body, status=504)]
    restored = line("ADDED", "b", 1, 5) + end_of_beginning(1)
    server = Watched(act(BEGINNING), act(restored), behind=behind)
    async with informed(server) as (informer, told):
        await until(lambda: len(told) >= 4)
        assert told == ["->a0", "->b0", "b0>b5", "a0>-"]
        assert len(informer.store) == 1
    assert server.checks[0] == "2 NotOlderThan", "asked before it is watched on from there"
    assert [query.get("sendInitialEvents") for query in server.queries[:2]] == ["true", "true"]
    assert [query.get("resourceVersion") for query in server.queries[:2]] == [None, None]


async def test_server_that_is_as_far_as_we_are_is_watched_on() -> None:
    lost = status(500, "InternalError", "etcd is away")
    server = Watched(act(BEGINNING), lost, act(line("ADDED", "c", 3)))
    async with informed(server) as (_, told):
        await until(lambda: len(told) >= 3)
        assert told == ["->a0", "->b0", "->c0"]
    assert server.checks[0] == "2 NotOlderThan"
    assert server.queries[2]["resourceVersion"] == "2"


@pytest.mark.parametrize(
    "there",
    [
        {"uid": "other", "resourceVersion": "2"},  # etcd was lost
        {"uid": "b", "resourceVersion": "1"},  # it was restored to what it was before b changed
        None,  # and to what it was before b was made
    ],
)
async def test_server_with_another_history_that_is_as_long_is_read_anew(there: dict[str, str] | None) -> None:
    """What was written since has reached our version before we are back."""
    other = [{"metadata": {"name": "b", "namespace": "n", **there}}] if there else []
    behind = [web.json_response({"metadata": {}, "items": other}) for _ in range(1 if there else 2)]
    server = Watched(act(BEGINNING), act(line("ADDED", "a", 7, 5) + end_of_beginning(9)), behind=behind)
    async with informed(server) as (informer, told):
        await until(lambda: len(told) >= 4)
        assert told == ["->a0", "->b0", "a0>a5", "b0>-"]
        assert len(informer.store) == 1
    assert [query.get("resourceVersion") for query in server.queries[:2]] == [None, None]


@pytest.mark.parametrize(
    "now",
    [
        {"uid": "b", "resourceVersion": "3"},  # it changed since
        {"uid": "other", "resourceVersion": "3"},  # it was made again since
        None,  # it is gone
    ],
)
@pytest.mark.parametrize(
    ("then", "is_ours"),
    [
        ({"uid": "b", "resourceVersion": "2"}, True),
        ({"uid": "b", "resourceVersion": "1"}, False),
        ({"uid": "other", "resourceVersion": "2"}, False),
        (None, False),
    ],
)
async def test_newest_object_that_changed_since_is_compared_with_what_it_was(
    now: dict[str, str] | None, then: dict[str, str] | None, is_ours: bool
) -> None:
    """Where objects change all the time, everything would be read again at each end of a watch."""
    items = [[{"metadata": {"name": "b", "namespace": "n", **there}}] if there else [] for there in (now, then)]
    server = Watched(act(BEGINNING), behind=[web.json_response({"metadata": {}, "items": item}) for item in items])
    async with informed(server):
        await until(lambda: len(server.queries) >= 2)
    assert server.queries[1].get("resourceVersion") == ("2" if is_ours else None)
    assert server.checks == ["2 NotOlderThan", "2 Exact"]


@pytest.mark.parametrize("use_watch_list", [True, False])
async def test_watch_goes_on_where_all_that_is_there_is_unreadable(use_watch_list: bool) -> None:
    odd = line("ADDED", "a", 1, size="huge")
    pages = {"": {"metadata": {"resourceVersion": "2"}, "items": [json.loads(odd)["object"]]}}
    begins = [act(odd + end_of_beginning(2))] if use_watch_list else []
    server = Watched(*begins, act(b""), act(line("ADDED", "c", 3)), pages=pages)
    async with informed(server, use_watch_list=use_watch_list) as (_, told):
        await until(lambda: told)
        assert told == ["->c0"]
    assert [query.get("resourceVersion") for query in server.queries[:3]] == [None, "2", "2"], "read once"


async def test_what_came_while_nothing_was_there_is_read() -> None:
    new = json.loads(line("", "c", 3))["object"]
    behind = [web.json_response({"metadata": {}, "items": [new]})]
    server = Watched(act(end_of_beginning(2)), act(line("ADDED", "c", 3) + end_of_beginning(3)), behind=behind)
    async with informed(server) as (_, told):
        await until(lambda: told)
        assert told == ["->c0"]


async def test_server_without_watch_list_is_listed_in_pages() -> None:
    pages: dict[str, Any] = {
        "": {"metadata": {"continue": "x"}, "items": [json.loads(line("", "a", 1))["object"]]},
        "x": {"metadata": {"resourceVersion": "5"}, "items": [json.loads(line("", "b", 2))["object"]]},
    }
    refused = status(422, "Invalid", "sendInitialEvents is forbidden")
    server = Watched(refused, act(line("ADDED", "c", 6)), pages=pages)
    async with informed(server, page_size=1) as (informer, told):
        await until(lambda: len(told) >= 3)
        assert told == ["->a0", "->b0", "->c0"]
        assert informer.synced
    assert [query.get("limit") for query in server.queries[1:3]] == ["1", "1"]
    assert server.queries[3]["resourceVersion"] == "5"
    assert "sendInitialEvents" not in server.queries[3]


async def test_server_that_never_marks_the_end_of_the_beginning_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless(write: Write) -> None:
        await write(line("ADDED", "a", 1))
        await asyncio.Event().wait()

    monkeypatch.setattr(watch, "BEGINNING_SECONDS", 0.05)
    pages: dict[str, Any] = {"": {"metadata": {"resourceVersion": "5"}, "items": None}}
    server = Watched(endless, pages=pages)
    async with informed(server) as (informer, told):
        await informer.wait_settled()
        assert told == ["->a0", "a0>-"]


async def test_pages_that_expire_under_way_are_fetched_in_one_piece() -> None:
    item = json.loads(line("", "a", 1))["object"]

    class Expiring(Watched):
        async def __call__(self, request: web.Request) -> web.StreamResponse:
            if "watch" in request.query or "continue" in request.query:
                return await super().__call__(request)
            self.queries.append(dict(request.query))
            more = {"continue": "x"} if "limit" in request.query else {"resourceVersion": "7"}
            return web.json_response({"metadata": more, "items": [item]})

    server = Expiring(pages={"x": status(410, "Expired", "continue parameter is too old")})
    async with informed(server, use_watch_list=False) as (informer, told):
        await informer.wait_settled()
        assert told == ["->a0"]
    assert "limit" not in server.queries[2]


async def test_object_that_does_not_fit_is_left_out_and_not_taken_for_deleted(caplog: pytest.LogCaptureFixture) -> None:
    odd = line("MODIFIED", "a", 3, size="huge") + line("MODIFIED", "a", 4, size="huge", note="x")
    again = line("ADDED", "a", 4, size="huge") + line("ADDED", "b", 2) + end_of_beginning(9)
    server = Watched(act(BEGINNING + odd + error(410, "Expired")), act(again + line("MODIFIED", "b", 10, 7)))
    async with informed(server) as (informer, told):
        await until(lambda: "b0>b7" in told)
        assert told == ["->a0", "->b0", "b0>b7"]
        assert informer.store.get("n", "a") is not None
    assert caplog.text.count("object left out") == 1, "said once, not with each of its versions"


async def test_failing_handler_does_not_stop_the_informer(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_old: Thing | None, _new: Thing | None) -> None:
        raise ZeroDivisionError

    async with informed(Watched(act(BEGINNING))) as (informer, told):
        informer.on_change(fail)
        await until(lambda: len(told) == 2)
    assert "handler failed" in caplog.text


async def test_version_alone_tells_nothing_and_recreated_object_does() -> None:
    recreated = line("ADDED", "a", 9).replace(b'"uid": "a"', b'"uid": "other"')
    server = Watched(act(BEGINNING + line("MODIFIED", "a", 3) + recreated))
    async with informed(server) as (informer, told):
        await until(lambda: len(told) >= 3)
        assert told == ["->a0", "->b0", "a0>a0"]
        stored = informer.store.get("n", "a")
        assert stored is not None
        assert stored.metadata.uid == "other"


async def test_what_transform_cuts_off_is_neither_kept_nor_compared() -> None:
    def shrink(thing: Thing) -> Thing:
        return Thing(msgspec.structs.replace(thing.metadata, annotations={}), thing.size)

    chatter = line("MODIFIED", "a", 3, note="long") + line("MODIFIED", "a", 4, note="longer")
    server = Watched(act(BEGINNING + chatter + line("ADDED", "end", 5)))
    async with fake_client(server) as client:
        informer = Informer(client, THINGS, Thing, transform=shrink, sleep=Naps())
        names: list[str] = []
        informer.on_change(lambda _, new: names.append(new.metadata.name if new else "-"))
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            task = group.create_task(informer.run())
            await until(lambda: "end" in names)
            task.cancel()
        assert names == ["a", "b", "end"]
        assert not any(thing.metadata.annotations for thing in informer.store)


class HeldNaps(Naps):
    """Naps that last until they are over: what is so between two attempts can be looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.over = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        await super().__call__(seconds)
        await self.over.wait()


async def test_trouble_is_told_until_it_is_over() -> None:
    refused = [status(403, "Forbidden", "you may not") for _ in range(3)]
    server, naps = Watched(*refused, act(BEGINNING)), HeldNaps()
    async with informed(server, naps=naps) as (informer, _):
        await until(lambda: informer.trouble)
        assert "you may not" in informer.trouble
        naps.over.set()
        await informer.wait_settled()
        assert informer.trouble == ""


async def test_trouble_that_goes_on_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "schedkit")
    refused = [status(403, "Forbidden", "you may not") for _ in range(DENIALS_BELIEVED + 3)]
    async with informed(Watched(*refused, act(BEGINNING))) as (informer, _):
        await informer.wait_settled()
    assert caplog.text.count("watch interrupted") == 1


def is_growing(delays: list[float]) -> bool:
    """Whether each delay is twice the one before, from the shortest on, up to the longest; give or take the jitter."""
    full = [min(RECONNECT_CAP_SECONDS, RECONNECT_BASE_SECONDS * 2**number) for number in range(len(delays))]
    return all(longest / 2 <= delay <= longest for delay, longest in zip(delays, full, strict=True))


@pytest.mark.parametrize("use_watch_list", [True, False], ids=["watchlist", "pages"])
async def test_history_that_expires_again_and_again_is_read_less_and_less_often(use_watch_list: bool) -> None:
    pages: dict[str, Any] = {"": {"metadata": {"resourceVersion": "2"}, "items": None}}
    beginning = BEGINNING if use_watch_list else b""
    server = Watched(*(act(beginning + error(410, "Expired")) for _ in range(10)), pages=pages)
    naps = Naps()
    async with informed(server, naps=naps, use_watch_list=use_watch_list):
        await until(lambda: len(naps.seconds) >= 10)
        assert is_growing(naps.seconds)
        assert naps.seconds[-1] >= RECONNECT_CAP_SECONDS / 2


async def test_watch_that_ends_after_each_line_is_opened_less_and_less_often() -> None:
    naps = Naps()
    server = Watched(act(BEGINNING), *(act(line("MODIFIED", "a", 3 + number, number)) for number in range(8)))
    async with informed(server, naps=naps) as (informer, told):
        await until(lambda: len(naps.seconds) >= 9)
        assert is_growing(naps.seconds)
        assert len(told) == 9, "not one change is lost by it"
        assert informer.trouble == ""


async def test_watch_that_was_open_for_a_while_is_opened_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steady(write: Write) -> None:
        await write(line("MODIFIED", "a", 3))
        await asyncio.sleep(0.1)

    monkeypatch.setattr(watch, "STEADY_SECONDS", 0.05)
    naps = Naps()
    refused = [status(500, "InternalError", "etcd is away") for _ in range(5)]
    async with informed(Watched(*refused, act(BEGINNING), steady), naps=naps):
        await until(lambda: len(naps.seconds) >= 7)
    assert is_growing(naps.seconds[:6])
    assert naps.seconds[6] <= RECONNECT_BASE_SECONDS


@pytest.mark.parametrize(("code", "asked", "waited"), [(429, "5", 5), (503, "7", 7), (429, "86400", 300)])
async def test_refused_watch_waits_for_as_long_as_the_server_asks(code: int, asked: str, waited: float) -> None:
    naps = Naps()
    reason = "TooManyRequests" if code == 429 else "ServiceUnavailable"
    refused = [status(code, reason, Retry_After=asked) for _ in range(2)]
    async with informed(Watched(act(BEGINNING), *refused), naps=naps) as (informer, _):
        await until(lambda: len(naps.seconds) >= 3)
        assert informer.synced
    assert naps.seconds[0] <= RECONNECT_BASE_SECONDS
    for delay in naps.seconds[1:3]:
        assert waited < delay <= waited + 4 * RECONNECT_BASE_SECONDS, "jitter comes on top"


async def test_retry_after_in_the_midst_of_a_watch_is_kept() -> None:
    naps = Naps()
    details = {"retryAfterSeconds": 9}
    said = {"code": 504, "reason": "Timeout", "message": "not yet", "details": details}
    end = json.dumps({"type": "ERROR", "object": said}).encode() + b"\n"
    async with informed(Watched(act(BEGINNING + end)), naps=naps):
        await until(lambda: naps.seconds)
    assert 9 < naps.seconds[0] <= 9 + RECONNECT_BASE_SECONDS


async def test_resource_that_does_not_exist_is_told_once_asked_for_rarely_and_found_when_it_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "schedkit")
    missing = [status(404, "NotFound", "no such resource") for _ in range(20)]
    installed = asyncio.Event()

    async def begin(write: Write) -> None:
        await installed.wait()
        await write(BEGINNING)

    naps = Naps()
    seen: list[tuple[str, bool]] = []
    async with informed(Watched(*missing, begin), naps=naps) as (informer, told):
        informer.on_sync_change(lambda: seen.append((informer.denied, informer.synced)))
        await until(lambda: len(naps.seconds) == 20)
        await asyncio.wait_for(informer.wait_settled(), 30)
        assert not informer.synced
        installed.set()
        await until(lambda: informer.synced)
        assert seen == [("watch things: no such resource (404)", False), ("", False), ("", True)]
        assert told == ["->a0", "->b0"]
    assert is_growing(naps.seconds[:20])
    assert caplog.text.count("watch interrupted") == 1


async def test_right_that_is_missing_for_long_is_told_and_so_is_its_return() -> None:
    refused = [status(403, "Forbidden", "you may not") for _ in range(DENIALS_BELIEVED)]
    granted = asyncio.Event()

    async def begin(write: Write) -> None:
        await granted.wait()
        await write(BEGINNING)

    seen: list[tuple[str, bool]] = []
    async with informed(Watched(*refused, begin)) as (informer, told):
        informer.on_sync_change(lambda: seen.append((informer.denied, informer.synced)))
        await informer.wait_settled()
        assert not informer.synced
        granted.set()
        await until(lambda: informer.synced)
        assert seen == [("watch things: you may not (403)", False), ("", False), ("", True)]
        assert told == ["->a0", "->b0"]


async def test_refusals_of_a_server_that_has_just_started_are_not_believed() -> None:
    refused = [status(403, "Forbidden", "you may not") for _ in range(DENIALS_BELIEVED - 1)]
    seen: list[str] = []
    async with informed(Watched(*refused, act(BEGINNING))) as (informer, _):
        informer.on_sync_change(lambda: seen.append(informer.denied))
        await informer.wait_settled()
        assert seen == [""]


async def test_object_that_does_not_fit_is_named_until_it_fits_or_goes() -> None:
    odd = line("MODIFIED", "a", 3, size="huge") + line("MODIFIED", "b", 4, size="huge")
    odd += line("ADDED", "c", 5, size="huge")
    mended = line("MODIFIED", "a", 6) + line("DELETED", "b", 7, size="huge")
    again = line("ADDED", "a", 6) + end_of_beginning(9)
    more = asyncio.Event()

    async def play(write: Write) -> None:
        await write(BEGINNING + odd)
        await more.wait()
        await write(mended + error(410, "Expired"))

    async with informed(Watched(play, act(again))) as (informer, _):
        names: list[str] = []
        informer.on_unreadable(lambda key: names.append(key.name))
        await until(lambda: len(informer.unreadable) == 3)
        assert "size" in informer.unreadable[Key("n", "a")].error
        assert informer.unreadable[Key("n", "a")].metadata.resource_version == "3"
        more.set()
        await until(lambda: not informer.unreadable)
        assert names[:4] == ["a", "b", "c", "a"]


async def test_connection_that_says_nothing_is_left_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(write: Write) -> None:
        await write(BEGINNING)
        await asyncio.Event().wait()

    monkeypatch.setattr(watch, "QUIET_SECONDS", 0.05)
    server = Watched(silent, act(line("DELETED", "b", 5)))
    async with informed(server) as (informer, told):
        await until(lambda: len(told) >= 3)
        assert told == ["->a0", "->b0", "b0>-"]
        assert informer.trouble == ""
    assert server.queries[1]["resourceVersion"] == "2"
