"""A watch that never gives up: WatchList or pages to begin with, then every change, through lost connections."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Generic, Protocol

import aiohttp
import msgspec

from schedkit.errors import SchedkitError
from schedkit.sked.kube.backoff import Backoff
from schedkit.sked.kube.client import Client
from schedkit.sked.kube.connection import NeverSentError
from schedkit.sked.kube.decoding import LineSplitter, WatchEvent, decode
from schedkit.sked.kube.errors import (
    ApiError,
    ApiExpiredError,
    ApiForbiddenError,
    ApiNotFoundError,
    ApiStatus,
    ApiTooManyRequestsError,
    ConnectionLostError,
    make_api_error,
)
from schedkit.sked.kube.logs import fields
from schedkit.sked.kube.objects import Key, Object, ObjectMeta
from schedkit.sked.kube.resources import Resource
from schedkit.sked.kube.store import Item, Store

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
# The server ends a watch after this time, so that clients spread over servers; bookmarks come about every minute, and
# a connection that says nothing for two may be dead without knowing it.
WATCH_SECONDS = (300, 600)
QUIET_SECONDS = 120.0
# A server that knows no WatchList takes the request for a plain watch and never says that the beginning is over.
BEGINNING_SECONDS = 30.0
# What comes in waves is read together, as far as there is not much to read anyway: to read each change as it comes
# costs as much as to take it in.
WAVE_SECONDS = 0.2
GATHER_SECONDS = 0.05
MUCH = 1 << 15  # bytes
# Close to client-go's (0.8 s to 30 s), but sooner after a watch that worked: that was open for as long as the longest
# delay. A line or a list that comes before the failure must not let a failing server be asked all the time.
RECONNECT_BASE_SECONDS = 0.4
RECONNECT_CAP_SECONDS = 30.0
STEADY_SECONDS = 30.0
RETRY_AFTER_CAP_SECONDS = 300.0  # who asks for more patience is not believed
ATTEMPTS_TO_GO_ON = 3
# A server that has just started knows of no rights for a while: a refusal counts when it goes on, for some seconds.
DENIALS_BELIEVED = 6
_logger = logging.getLogger(__name__)


class QuietError(SchedkitError):
    """A WatchList began and went quiet before its end."""


class OtherHistoryError(SchedkitError):
    """The server does not continue what we saw: one more read of everything tells what is there."""


@dataclass(frozen=True)
class Unreadable:
    """An object that is there and does not fit its projection."""

    metadata: ObjectMeta
    error: str


class WatchedStore(Protocol[Item]):
    """What a stream keeps true."""

    store: Store[Item]
    unreadable: dict[Key, Unreadable]

    def decode(self, raw: msgspec.Raw) -> Item | None:
        """One object, or none if it does not fit."""

    def put(self, item: Item) -> None:
        """Add or replace an object."""

    def remove(self, key: Key, last: Item | None = None) -> None:
        """Remove an object."""

    def sync_changed(self) -> None:
        """`synced` or `denied` changed."""


class Stream(Generic[Item]):
    """One watch that keeps a copy true: of everything, or of one namespace."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        copy: WatchedStore[Item],
        *,
        namespace: str,
        query: Mapping[str, str],
        use_watch_list: bool,
        page_size: int,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self.synced = asyncio.Event()
        self.settled = asyncio.Event()  # synced, or denied
        self.trouble = ""
        self.denied = ""  # the refusal, while the right to watch is missing, or the resource itself
        self._denials = 0
        self._failures = 0  # to go on, in a row
        self._client = client
        self._resource = resource
        self._copy = copy
        self._namespace = namespace
        self._query = query
        self._use_watch_list = use_watch_list
        self._page_size = page_size
        self._sleep = sleep
        self._version = ""  # where to go on; empty: from the beginning
        self._seen: set[Key] = set()  # since that beginning
        self._backoff = Backoff(RECONNECT_BASE_SECONDS, RECONNECT_CAP_SECONDS)

    async def run(self) -> None:
        """Watch until cancelled, through whatever happens to the connection."""
        while True:
            asked_to_wait = 0.0
            try:
                if self._version:
                    await self._watch()
                elif self._use_watch_list:
                    await self._watch_from_the_beginning()
                else:
                    await self._list()
                    continue
            except (ApiExpiredError, OtherHistoryError) as error:
                self._log("history is gone; reading everything again", error)
                self._version = ""
            except SchedkitError as error:
                self._log("watch interrupted" if self._was_reached(error) else "API server not reached yet", error)
                self._count_denial(error)
                self._failures += 1
                if self._is_hopeless(error):
                    self._version = ""
                    self._failures = 0
                if isinstance(error, ApiError):
                    asked_to_wait = min(error.retry_after or 0.0, RETRY_AFTER_CAP_SECONDS)
            await self._sleep(asked_to_wait + self._backoff.next_delay())

    async def _watch_from_the_beginning(self) -> None:
        """WatchList: what there is, a mark, and what happens from then on, in one stream and little memory."""
        self._seen = set()
        beginning = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        try:
            await self._read_stream(beginning)
        except ApiError as error:
            if error.code not in (400, 422):
                raise
            self._fall_back("the server offers no WatchList")
        except QuietError:
            self._fall_back("the server does not mark the end of its WatchList")

    async def _watch(self) -> None:
        await self._check_history()
        await self._read_stream({"resourceVersion": self._version})

    async def _check_history(self) -> None:
        """Ask whether the server is as far as we are, and has our newest object as we have it, or none if we have none.

        Where etcd was lost or restored, a watch from our version would wait forever, or miss what came before it. Where
        that object changed or went after our version, as many do, the server is asked what it was then.
        """
        known = self._find_newest()
        there = await self._fetch_one(known, "NotOlderThan")
        went_on = there is None or _sort_version(there.resource_version) > _sort_version(self._version)
        if known and went_on:
            there = await self._fetch_one(known, "Exact")
        if (there and (there.uid, there.resource_version)) != (known and (known.uid, known.resource_version)):
            raise OtherHistoryError(f"watch {self._resource.plural}: the server has other objects than before")

    async def _fetch_one(self, known: ObjectMeta | None, match: str) -> ObjectMeta | None:
        """An object, or any, as the server has it once it is as far as we are, or had it there."""
        query = {**self._query, "resourceVersion": self._version, "resourceVersionMatch": match}
        namespace = self._namespace
        if known:
            selectors = filter(None, (query.get("fieldSelector"), f"metadata.name={known.name}"))
            query["fieldSelector"], namespace = ",".join(selectors), known.namespace
        page = await self._client.fetch_page(self._resource, namespace=namespace, query=query, limit=1)
        return next((decode(raw, Object).metadata for raw in page.items or []), None)

    def _find_newest(self) -> ObjectMeta | None:
        """Of all objects that we know, readable or not, the one that changed last."""
        unreadable = self._copy.unreadable
        ours = (item.metadata for item in self._copy.store if item.metadata.key not in unreadable)
        known = chain(ours, (one.metadata for one in unreadable.values()))
        here = (one for one in known if self._namespace in ("", one.namespace))
        return max(here, key=lambda one: _sort_version(one.resource_version), default=None)

    async def _list(self) -> None:
        """Page by page; when the pages' version expires under way, everything in one piece."""
        self._seen = set()
        query = dict(self._query)
        limit = self._page_size
        while True:
            try:
                page = await self._client.fetch_page(
                    self._resource, namespace=self._namespace, query=query, limit=limit
                )
            except ApiExpiredError:
                if not limit:
                    raise
                limit = 0
                query.pop("continue", None)
                continue
            self._allowed()
            for raw in page.items or []:
                self._see(raw)
            if not page.metadata.continue_token:
                self._begin_from(page.metadata.resource_version)
                return
            query["continue"] = page.metadata.continue_token

    async def _read_stream(self, query: Mapping[str, str]) -> None:
        asked = {
            **self._query,
            **query,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(random.randint(*WATCH_SECONDS)),  # noqa: S311
        }
        watch = self._client.watch(self._resource, namespace=self._namespace, query=asked, read_seconds=QUIET_SECONDS)
        async with watch as response:
            opened = time.monotonic()
            self._allowed()
            try:
                await self._read_lines(response)
            finally:
                if time.monotonic() - opened >= STEADY_SECONDS:
                    self._backoff.reset()

    async def _read_lines(self, response: aiohttp.ClientResponse) -> None:
        splitter, came = LineSplitter(), float("-inf")
        chunks = response.content.iter_any().__aiter__()
        while True:
            try:
                async with asyncio.timeout(None if self._version else BEGINNING_SECONDS):
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                if self._version:
                    return  # nothing for QUIET_SECONDS: go on from here on a connection that is known to live
                raise QuietError("the watch stopped before its initial list was complete") from error
            for line in splitter.feed(chunk):
                self._take(decode(line, WatchEvent))
                self._recovered()
            before, came = came, time.monotonic()
            is_much = len(chunk) >= MUCH or splitter.holds_part
            if self._version and came - before < WAVE_SECONDS and not is_much:
                await _gather(response)

    def _take(self, event: WatchEvent) -> None:
        if event.type == "ERROR":
            raise make_api_error(decode(event.object, ApiStatus), f"watch {self._resource.plural}")
        if event.type == "BOOKMARK":
            metadata = decode(event.object, Object).metadata
            if self._version:
                self._version = metadata.resource_version
            elif metadata.annotations.get(INITIAL_EVENTS_END) == "true":
                self._begin_from(metadata.resource_version)
            return
        if event.type == "DELETED":
            metadata = decode(event.object, Object).metadata
            self._seen.discard(metadata.key)
            self._copy.remove(metadata.key, self._copy.decode(event.object))
        else:
            metadata = self._see(event.object)
        if self._version:
            self._version = metadata.resource_version

    def _see(self, raw: msgspec.Raw) -> ObjectMeta:
        """Take in an object that is there; one that cannot be understood is there all the same."""
        item = self._copy.decode(raw)
        metadata = item.metadata if item is not None else decode(raw, Object).metadata
        if not self._version:
            self._seen.add(metadata.key)
        if item is not None:
            self._copy.put(item)
        return metadata

    def _begin_from(self, version: str) -> None:
        """All there is has been seen: what the store holds beyond that was deleted while nobody looked."""
        gone = [
            key
            for key in (*self._copy.store.all_keys(), *self._copy.unreadable)
            if key not in self._seen and (not self._namespace or key.namespace == self._namespace)
        ]
        for key in gone:
            self._copy.remove(key)
        self._seen = set()
        self._version = version
        self._recovered()
        if not self.synced.is_set():
            self.synced.set()
            self.settled.set()
            self._copy.sync_changed()

    def _is_hopeless(self, error: SchedkitError) -> bool:
        """Whether going on from here keeps failing, as after etcd lost its history, and a new beginning may not."""
        if isinstance(error, ApiError) and error.is_version_too_large:
            return True
        is_load = isinstance(error, ConnectionLostError | ApiTooManyRequestsError)
        return not is_load and self._failures >= ATTEMPTS_TO_GO_ON

    def _fall_back(self, why: str) -> None:
        self._use_watch_list = False
        _logger.info("listing in pages", extra=fields(kind=self._resource.kind, why=why))

    def _count_denial(self, error: SchedkitError) -> None:
        if not isinstance(error, ApiForbiddenError | ApiNotFoundError):
            return
        self._denials += 1
        if self._denials >= DENIALS_BELIEVED and self.denied != error.message:
            self.denied = error.message
            self.settled.set()
            self._copy.sync_changed()

    def _allowed(self) -> None:
        self._denials = 0
        if self.denied:
            self.denied = ""
            self._copy.sync_changed()

    def _recovered(self) -> None:
        self._failures = 0
        self.trouble = ""

    def _was_reached(self, error: SchedkitError) -> bool:
        return self.synced.is_set() or not isinstance(error, NeverSentError)

    def _log(self, what: str, error: SchedkitError) -> None:
        """Log a trouble once, not at each attempt."""
        # A lost connection is everyday. A refusal (no right, no such kind), or a server that was never there, is for
        # somebody to fix.
        refused = isinstance(error, ApiError) and not isinstance(error, ApiExpiredError)
        level = logging.WARNING if refused or not self._was_reached(error) else logging.INFO
        if error.message == self.trouble:
            level = logging.DEBUG
        self.trouble = error.message
        about = fields(kind=self._resource.kind, namespace=self._namespace or "all", error=error.message)
        _logger.log(level, what, extra=about)


def _sort_version(version: str) -> tuple[int, str]:
    """Versions are decimal numbers: a longer one is larger."""
    return len(version), version


async def _gather(response: aiohttp.ClientResponse) -> None:
    """Leave what comes for a moment: it is decrypted and split into lines together."""
    transport = response.connection.transport if response.connection else None
    if transport is None:  # the stream has ended
        return
    transport.pause_reading()
    try:
        await asyncio.sleep(GATHER_SECONDS)
    finally:
        transport.resume_reading()
