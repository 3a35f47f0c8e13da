"""Requests to the API server that answer with structs: retried where that is safe, paged, typed in their failures."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Literal, Self, TypeVar

import aiohttp
import msgspec

from schedkit.sked.kube.backoff import Backoff
from schedkit.sked.kube.config import Access
from schedkit.sked.kube.connection import Connection, NeverSentError, UntrustedServerError
from schedkit.sked.kube.decoding import Page, decode
from schedkit.sked.kube.errors import ApiError, ApiTooManyRequestsError, ConnectionLostError
from schedkit.sked.kube.logs import fields
from schedkit.sked.kube.metrics import MetricsRegistry
from schedkit.sked.kube.objects import Model
from schedkit.sked.kube.resources import Resource

Answer = TypeVar("Answer")
FIELD_MANAGER = "sked"
PAGE_SIZE = 500
ATTEMPTS = 6
REQUEST_SECONDS = 60.0
RETRY_BASE_SECONDS = 0.2
RETRY_CAP_SECONDS = 10.0
# Who asks for more patience than this is told to the caller, whose queue waits better than a worker does.
LONGEST_RETRY_AFTER = 60.0
_PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
_logger = logging.getLogger(__name__)


class Preconditions(Model, frozen=True):
    """Delete only this very object, not another of its name."""

    uid: str


class _DeleteOptions(Model, frozen=True):
    preconditions: Preconditions | None = None
    propagation_policy: str = ""


class Client:
    """Our side of the API server. One for a program; enter it before use."""

    def __init__(
        self,
        access: Access,
        *,
        registry: MetricsRegistry | None = None,
        user_agent: str = FIELD_MANAGER,
        attempts: int = ATTEMPTS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.namespace = access.namespace
        self._connection = Connection(access, registry, user_agent)
        self._attempts = attempts
        self._sleep = sleep

    async def __aenter__(self) -> Self:
        await self._connection.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._connection.__aexit__(*error)

    async def fetch(
        self, resource: Resource, type: type[Answer], name: str, *, namespace: str = "", subresource: str = ""
    ) -> Answer:
        """One object."""
        path = resource.path(namespace, name, subresource)
        return decode(await self._request("GET", path, f"get {_describe(resource, namespace, name)}"), type)

    async def fetch_page(
        self, resource: Resource, *, namespace: str = "", query: Mapping[str, str], limit: int = PAGE_SIZE
    ) -> Page:
        """One page of a list, the first or the one that `continue` in the query asks for."""
        asked = {**query, "limit": str(limit)} if limit else query
        path = resource.path(namespace)
        body = await self._request("GET", path, f"list {_describe(resource, namespace)}", query=asked)
        return decode(body, Page)

    async def create(
        self,
        resource: Resource,
        type: type[Answer],
        body: object,
        *,
        namespace: str = "",
        repeatable: bool = False,
    ) -> Answer:
        """Create an object; `repeatable` when sending it twice does no harm, as with reviews."""
        path, doing = resource.path(namespace), f"create {_describe(resource, namespace)}"
        query = {"fieldManager": FIELD_MANAGER}
        return await self._write("POST", path, doing, type, body=body, query=query, repeatable=repeatable)

    async def apply(
        self,
        resource: Resource,
        type: type[Answer],
        name: str,
        body: object,
        *,
        namespace: str = "",
        status: bool = False,
        force: bool = False,
        field_manager: str = FIELD_MANAGER,
    ) -> Answer:
        """Server-side apply: `body`, with apiVersion and kind, is all we want to own; force takes it from others."""
        query = {"fieldManager": field_manager, "force": str(force).lower()}
        path = resource.path(namespace, name, "status" if status else "")
        doing = f"apply {_describe(resource, namespace, name)}"
        return await self._write(
            "PATCH", path, doing, type, body=body, query=query, repeatable=True, content_type=_PATCH_TYPES["apply"]
        )

    async def patch(
        self,
        resource: Resource,
        type: type[Answer],
        name: str,
        body: object,
        *,
        namespace: str = "",
        status: bool = False,
        kind: Literal["merge", "json"] = "merge",
        field_manager: str = FIELD_MANAGER,
    ) -> Answer:
        """Change parts of an object; a resourceVersion in a merge patch makes it conditional."""
        path = resource.path(namespace, name, "status" if status else "")
        doing = f"patch {_describe(resource, namespace, name)}"
        query = {"fieldManager": field_manager}
        repeatable = kind == "merge"  # a JSON patch may append: twice is not the same as once
        return await self._write(
            "PATCH", path, doing, type, body=body, query=query, repeatable=repeatable, content_type=_PATCH_TYPES[kind]
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str = "",
        preconditions: Preconditions | None = None,
        propagation: Literal["", "Background", "Foreground", "Orphan"] = "",
    ) -> None:
        """Ask for an object's end; its finalizers and dependants decide when that is."""
        options = _DeleteOptions(preconditions=preconditions, propagation_policy=propagation)
        path = resource.path(namespace, name)
        doing = f"delete {_describe(resource, namespace, name)}"
        await self._request("DELETE", path, doing, body=msgspec.json.encode(options))

    async def fetch_text(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str,
        subresource: str,
        query: Mapping[str, str],
        limit_bytes: int,
        seconds: float,
    ) -> str:
        """The beginning of what is no object, such as a log; tried once, as whoever has it may not answer for long."""
        opened = self._connection.open(
            "GET",
            resource.path(namespace, name, subresource),
            query=query,
            doing=f"get {subresource} of {_describe(resource, namespace, name)}",
            total_seconds=seconds,
        )
        content = bytearray()
        async with opened as response:
            while len(content) < limit_bytes and (part := await response.content.read(limit_bytes - len(content))):
                content += part
        return content.decode(errors="replace")

    def watch(
        self, resource: Resource, *, namespace: str = "", query: Mapping[str, str], read_seconds: float
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """An open watch to read from: tried once, as only the watcher knows where to go on."""
        return self._connection.open(
            "GET",
            resource.path(namespace),
            query={**query, "watch": "true"},
            doing=f"watch {_describe(resource, namespace)}",
            total_seconds=None,
            read_seconds=read_seconds,
        )

    async def _write(
        self,
        method: str,
        path: str,
        doing: str,
        type: type[Answer],
        *,
        body: object,
        repeatable: bool,
        query: Mapping[str, str],
        content_type: str = "application/json",
    ) -> Answer:
        content = msgspec.json.encode(body)
        answer = await self._request(
            method, path, doing, query=query, body=content, content_type=content_type, repeatable=repeatable
        )
        return decode(answer, type)

    async def _request(
        self,
        method: str,
        path: str,
        doing: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        repeatable: bool = True,
    ) -> bytes:
        backoff = Backoff(RETRY_BASE_SECONDS, RETRY_CAP_SECONDS)
        for attempt in range(1, self._attempts + 1):
            try:
                async with self._connection.open(
                    method,
                    path,
                    query=query or {},
                    doing=doing,
                    body=body,
                    content_type=content_type,
                    total_seconds=REQUEST_SECONDS,
                ) as response:
                    return await response.read()
            except (ApiError, ConnectionLostError) as error:
                if attempt == self._attempts or not may_repeat(error, repeatable=repeatable):
                    raise
                delay = backoff.next_delay()
                if isinstance(error, ApiError) and error.retry_after:
                    delay += error.retry_after
                _logger.debug("trying again", extra=fields(error=error.message, seconds=round(delay, 1)))
            await self._sleep(delay)
        raise AssertionError("the last attempt returns or raises")


def may_repeat(error: ApiError | ConnectionLostError, *, repeatable: bool) -> bool:
    """Whether a request that failed so can be sent again without doing a thing twice."""
    if isinstance(error, UntrustedServerError):
        return False
    if isinstance(error, ConnectionLostError):
        return repeatable or isinstance(error, NeverSentError)
    if (error.retry_after or 0.0) > LONGEST_RETRY_AFTER or error.is_version_too_large or error.is_permanent:
        return False
    if isinstance(error, ApiTooManyRequestsError):
        return True
    # With a Retry-After the server itself says that asking again is right.
    return error.code >= 500 and (repeatable or error.retry_after is not None)


def selector_query(label_selector: str, field_selector: str) -> dict[str, str]:
    """The query that chooses objects."""
    chosen = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {name: value for name, value in chosen.items() if value}


def _describe(resource: Resource, namespace: str, name: str = "") -> str:
    if not name:
        return f"{resource.plural} in {namespace}" if namespace else resource.plural
    return f"{resource.kind} {namespace}/{name}" if namespace else f"{resource.kind} {name}"
