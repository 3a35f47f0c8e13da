"""What the operator serves: its health, to the kubelet; its metrics, to those who may see them."""

import errno
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Self

from aiohttp import web

from schedkit.errors import UnavailableError, UsageError
from schedkit.sked.kube.authorization import Gate, Verdict
from schedkit.sked.kube.logs import fields
from schedkit.sked.kube.metrics import CONTENT_TYPE, Registry

Check = Callable[[], str]  # what is wrong, or nothing
SHUTDOWN_SECONDS = 1.0
_logger = logging.getLogger(__name__)
_REFUSALS = {
    Verdict.UNKNOWN_CALLER: (401, "Unauthorized\n"),
    Verdict.FORBIDDEN: (403, "Forbidden\n"),
    Verdict.UNDECIDED: (503, "the API server did not say whether you may\n"),
}


@dataclass(frozen=True)
class Address:
    """Where to listen; an empty host is every address there is."""

    host: str
    port: int


def parse_address(text: str) -> Address | None:
    """An address as controller-runtime's flags take it: `:8081`, `host:8081`, `[::1]:8081`; `0` is none at all."""
    if text in ("", "0"):
        return None
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"{text!r} is no address to listen on", hint="write :8081, host:8081, or 0 for none")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


class Server:
    """One application on one address, for as long as it is entered."""

    def __init__(self, name: str, application: web.Application, address: Address, tls: ssl.SSLContext | None = None):
        self.name = name
        self._application = application
        self._address = address
        self._tls = tls
        self._stack = AsyncExitStack()
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        """Where it listens; of use when the address said 0."""
        addresses = self._runner.addresses if self._runner else []
        return int(addresses[0][1]) if addresses else self._address.port

    async def __aenter__(self) -> Self:
        self._runner = web.AppRunner(
            self._application, access_log=None, handle_signals=False, shutdown_timeout=SHUTDOWN_SECONDS
        )
        await self._runner.setup()
        self._stack.push_async_callback(self._runner.cleanup)
        try:
            await web.SockSite(self._runner, _listen(self._address), ssl_context=self._tls).start()
        except OSError as error:
            await self._stack.aclose()
            where = f"{self._address.host}:{self._address.port}"
            raise UnavailableError(f"cannot serve {self.name} on {where}: {error.strerror}") from error
        _logger.info("serving", extra=fields(what=self.name, port=self.port, tls=self._tls is not None))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()


def make_health_application(*, live: Mapping[str, Check], ready: Mapping[str, Check]) -> web.Application:
    """`/healthz` and `/readyz`: 200 when no check complains, else 500 with the names and words of those that do."""
    application = web.Application()
    for path, checks in (("/healthz", live), ("/readyz", ready)):
        handler = _make_probe(path.removeprefix("/"), checks)
        application.router.add_get(path, handler)
        application.router.add_get(path + "/{check}", handler)
    return application


def make_metrics_application(registry: Registry, gate: Gate | None) -> web.Application:
    """`/metrics`, for everyone or for those whom the gate lets in."""

    async def serve_metrics(request: web.Request) -> web.Response:
        if gate is not None:
            verdict = await gate.judge(request.headers.get("Authorization", ""), request.path, request.method.lower())
            if verdict is not Verdict.ALLOWED:
                code, text = _REFUSALS[verdict]
                headers = {"WWW-Authenticate": "Bearer"} if code == 401 else {}
                return web.Response(status=code, text=text, headers=headers)
        return web.Response(body=registry.render().encode(), headers={"Content-Type": CONTENT_TYPE})

    application = web.Application()
    application.router.add_get("/metrics", serve_metrics, allow_head=False)
    return application


def _listen(address: Address) -> socket.socket:
    """A socket on an address; on every one, of both kinds, where the host has both."""
    if address.host:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        return socket.create_server((address.host, address.port), family=family)
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", address.port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:  # version 6 is there, and switched off
                raise
    return socket.create_server(("", address.port))


def _make_probe(name: str, checks: Mapping[str, Check]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def probe(request: web.Request) -> web.Response:
        one = request.match_info.get("check")
        if one is not None and one not in checks:
            return web.Response(status=404, text=f"there is no check {one!r}\n")
        chosen = checks if one is None else {one: checks[one]}
        complaints = {check: complain() for check, complain in chosen.items()}
        healthy = not any(complaints.values())
        if healthy and "verbose" not in request.query:
            return web.Response(text="ok")
        lines = [f"[-]{check} failed: {told}" if told else f"[+]{check} ok" for check, told in complaints.items()]
        lines.append(f"{name} check {'passed' if healthy else 'failed'}")
        return web.Response(status=200 if healthy else 500, text="".join(f"{line}\n" for line in lines))

    return probe
