"""Informers: a local copy of a resource, kept true by a watch, and a call for every change."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic

import msgspec

from schedkit.sked.kube.client import PAGE_SIZE, Client, selector_query
from schedkit.sked.kube.decoding import decode
from schedkit.sked.kube.errors import UnexpectedAnswerError
from schedkit.sked.kube.logs import fields
from schedkit.sked.kube.objects import Key, Object
from schedkit.sked.kube.resources import Resource
from schedkit.sked.kube.store import Index, Item, Store, same_projection
from schedkit.sked.kube.watch import Stream, Unreadable

Handler = Callable[[Item | None, Item | None], None]
_logger = logging.getLogger(__name__)


class Informer(Generic[Item]):
    """Keeps a store of one resource: all of it, or what some namespaces and selectors choose.

    A handler is called with the old and the new object after the store has changed, None standing for absent. It is
    not called when nothing changed that the projection holds: heartbeats cost a comparison. What `transform` cuts off
    an object, such as long annotations, is neither kept nor compared.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        type: type[Item],
        *,
        namespaces: Sequence[str] = (),
        label_selector: str = "",
        field_selector: str = "",
        indexes: Mapping[str, Index[Item]] | None = None,
        transform: Callable[[Item], Item] | None = None,
        use_watch_list: bool = True,
        page_size: int = PAGE_SIZE,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.resource = resource
        self.store: Store[Item] = Store(indexes)
        self.unreadable: dict[
            Key, Unreadable
        ] = {}  # what is there in a form that does not fit; the store may be behind
        self.synced = False  # whether the store has held everything there is, at some time since the start
        # The API server's refusal, while there is no right to see the resource or no such resource: the store may be
        # behind, or empty.
        self.denied = ""
        self._handlers: list[Handler[Item]] = []
        self._unreadable_handlers: list[Callable[[Key], None]] = []
        self._sync_handlers: list[Callable[[], None]] = []
        self._type = type
        self._transform = transform
        query = selector_query(label_selector, field_selector)
        self._streams = [
            Stream(
                client,
                resource,
                self,
                namespace=namespace,
                query=query,
                use_watch_list=use_watch_list,
                page_size=page_size,
                sleep=sleep,
            )
            for namespace in (namespaces or [""])
        ]

    @property
    def trouble(self) -> str:
        """Why the store may be behind, or nothing."""
        return next((stream.trouble for stream in self._streams if stream.trouble), "")

    def on_change(self, handler: Handler[Item]) -> None:
        """Register a function that is called for each change; it is first called for all objects known so far."""
        self._handlers.append(handler)
        for item in self.store:
            self._call(handler, None, item)

    def on_unreadable(self, handler: Callable[[Key], None]) -> None:
        """Have a function called for each version of an object that does not fit, and for the first that does again."""
        self._unreadable_handlers.append(handler)

    def on_sync_change(self, handler: Callable[[], None]) -> None:
        """Register a function that is called when `synced` or `denied` changes."""
        self._sync_handlers.append(handler)

    async def wait_settled(self) -> None:
        """Wait until the store holds everything there is, or it is known that this may not be seen."""
        for stream in self._streams:
            await stream.settled.wait()

    async def run(self) -> None:
        """Keep the store true until cancelled."""
        async with asyncio.TaskGroup() as group:
            for stream in self._streams:
                group.create_task(stream.run())

    def put(self, item: Item) -> None:
        """Take in an object that is there; called by the informer's streams."""
        key = item.metadata.key
        old = self.store.get(*key)
        if old is not None and old.metadata.resource_version == item.metadata.resource_version:
            return
        self.store.put(item)
        replaced = old is not None and old.metadata.uid != item.metadata.uid
        if old is None or replaced or not same_projection(old, item):
            self._tell(old, item)

    def remove(self, key: Key, last: Item | None = None) -> None:
        """Take in that an object is gone; called by the informer's streams."""
        self.unreadable.pop(key, None)
        old = self.store.remove(key)
        if old is not None:
            self._tell(last if last is not None else old, None)

    def decode(self, raw: msgspec.Raw) -> Item | None:
        """One object; what does not fit the projection is left out rather than allowed to stop everything else."""
        try:
            item = decode(raw, self._type)
        except UnexpectedAnswerError as error:
            self._note_unreadable(Unreadable(decode(raw, Object).metadata, error.message))
            return None
        if item.metadata.key in self.unreadable:
            del self.unreadable[item.metadata.key]
            self._tell_unreadable(item.metadata.key)
        return self._transform(item) if self._transform else item

    def sync_changed(self) -> None:
        """Take in that a stream is synced or denied, or no longer; called by the informer's streams."""
        self.synced = all(stream.synced.is_set() for stream in self._streams)
        self.denied = next((stream.denied for stream in self._streams if stream.denied), "")
        for handler in self._sync_handlers:
            handler()

    def _note_unreadable(self, found: Unreadable) -> None:
        key = found.metadata.key
        before = self.unreadable.get(key)
        self.unreadable[key] = found
        if before is None or before.error != found.error:  # said once, not with every change of its status
            about = fields(kind=self.resource.kind, object=str(key), error=found.error)
            _logger.error("object left out", extra=about)
        self._tell_unreadable(key)

    def _tell_unreadable(self, key: Key) -> None:
        for handler in self._unreadable_handlers:
            handler(key)

    def _tell(self, old: Item | None, new: Item | None) -> None:
        for handler in self._handlers:
            self._call(handler, old, new)

    def _call(self, handler: Handler[Item], old: Item | None, new: Item | None) -> None:
        try:
            handler(old, new)
        except Exception:
            _logger.exception("handler failed", extra=fields(kind=self.resource.kind))
