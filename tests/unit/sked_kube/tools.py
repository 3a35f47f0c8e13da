"""What these tests share: a clock that is told the time, and an API server that is told its lines."""

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from schedkit.sked.kube.client import Client
from schedkit.sked.kube.config import Access
from schedkit.sked.kube.credentials import ApiCredentials, ApiIdentity, FixedCredentials
from schedkit.sked.kube.metrics import MetricsRegistry

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ManualTimer:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualClock:
    """Time stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0
        self._calls: list[tuple[float, int, Callable[[], None], ManualTimer]] = []
        self._numbers = itertools.count()

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> ManualTimer:
        timer = ManualTimer()
        heapq.heappush(self._calls, (when, next(self._numbers), callback, timer))
        return timer

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self._calls and self._calls[0][0] <= end:
            when, _, callback, timer = heapq.heappop(self._calls)
            self.now = max(self.now, when)
            if not timer.cancelled:
                callback()
        self.now = end


class Naps:
    """A sleep that only takes note."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


@asynccontextmanager
async def fake_server(handler: Handler) -> AsyncIterator[str]:
    """A server on a free port of this host, and its address."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return await handler(request)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def fake_client(
    handler: Handler,
    *,
    naps: Naps | None = None,
    credentials: ApiCredentials | None = None,
    registry: MetricsRegistry | None = None,
) -> AsyncIterator[Client]:
    """A client of such a server."""
    async with fake_server(handler) as address:
        access = Access(server=address, credentials=credentials or FixedCredentials(ApiIdentity()))
        async with Client(access, sleep=naps or Naps(), registry=registry) as client:
            yield client


def status(code: int, reason: str = "", message: str = "", **headers: str) -> web.Response:
    """A refusal as the API server writes it."""
    body: dict[str, Any] = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return web.json_response(
        body, status=code, headers={name.replace("_", "-"): text for name, text in headers.items()}
    )


async def until(condition: Callable[[], object]) -> None:
    """Let the loop run until something is so; the bound is there to fail in, not to measure with."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)
