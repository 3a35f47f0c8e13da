"""What the operator serves: its health, to the kubelet; its metrics, to those who may see them."""

import logging
import ssl
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Self
from urllib.parse import parse_qs

from schedkit.errors import UnavailableError
from schedkit.sked.kube.addresses import Address, listen
from schedkit.sked.kube.authorization import AuthorizationVerdict, Gate
from schedkit.sked.kube.http import Application, HttpResponse, Listener, Request
from schedkit.sked.kube.logs import fields
from schedkit.sked.kube.metrics import CONTENT_TYPE, MetricsRegistry

Check = Callable[[], str]  # what is wrong, or nothing
_logger = logging.getLogger(__name__)
_REFUSALS = {
    AuthorizationVerdict.UNKNOWN_CALLER: (401, "Unauthorized\n"),
    AuthorizationVerdict.FORBIDDEN: (403, "Forbidden\n"),
    AuthorizationVerdict.UNDECIDED: (503, "the API server did not say whether you may\n"),
}


class Server:
    """One application on one address, for as long as it is entered."""

    def __init__(self, name: str, application: Application, address: Address, tls: ssl.SSLContext | None = None):
        self.name = name
        self.port = address.port  # where it listens, once it does
        self._application = application
        self._address = address
        self._tls = tls
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            listening = listen(self._address)
        except OSError as error:
            where = f"{self._address.host}:{self._address.port}"
            raise UnavailableError(f"cannot serve {self.name} on {where}: {error.strerror}") from error
        self.port = listening.getsockname()[1]
        await self._stack.enter_async_context(Listener(self._application, listening, self._tls))
        _logger.info("serving", extra=fields(what=self.name, port=self.port, tls=self._tls is not None))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()


def make_health_application(*, live: Mapping[str, Check], ready: Mapping[str, Check]) -> Application:
    """`/healthz` and `/readyz`: 200 when no check complains, else 500 with the names and words of those that do."""

    async def serve_health(request: Request) -> HttpResponse:
        if request.method not in ("GET", "HEAD"):
            return HttpResponse(405, headers={"Allow": "GET, HEAD"})
        _, name, *rest = request.path.split("/", 2)
        checks = {"healthz": live, "readyz": ready}.get(name)
        if checks is None:
            return HttpResponse(404, f"there is nothing at {request.path}\n")
        verbose = "verbose" in parse_qs(request.query, keep_blank_values=True)
        return _probe(name, checks, rest[0] if rest else "", verbose=verbose)

    return serve_health


def make_metrics_application(registry: MetricsRegistry, gate: Gate | None) -> Application:
    """`/metrics`, for everyone or for those whom the gate lets in."""

    async def serve_metrics(request: Request) -> HttpResponse:
        if request.path != "/metrics":
            return HttpResponse(404, f"there is nothing at {request.path}\n")
        if request.method != "GET":
            return HttpResponse(405, headers={"Allow": "GET"})
        if gate is not None:
            verdict = await gate.judge(request.headers.get("authorization", ""), request.path, "get")
            if verdict is not AuthorizationVerdict.ALLOWED:
                code, text = _REFUSALS[verdict]
                return HttpResponse(code, text, headers={"WWW-Authenticate": "Bearer"} if code == 401 else {})
        return HttpResponse(body=registry.render(), content_type=CONTENT_TYPE)

    return serve_metrics


def _probe(name: str, checks: Mapping[str, Check], one: str, *, verbose: bool) -> HttpResponse:
    if one and one not in checks:
        return HttpResponse(404, f"there is no check {one!r}\n")
    chosen = {one: checks[one]} if one else checks
    complaints = {check: complain() for check, complain in chosen.items()}
    healthy = not any(complaints.values())
    if healthy and not verbose:
        return HttpResponse(body="ok")
    lines = [f"[-]{check} failed: {told}" if told else f"[+]{check} ok" for check, told in complaints.items()]
    lines.append(f"{name} check {'passed' if healthy else 'failed'}")
    return HttpResponse(200 if healthy else 500, "".join(f"{line}\n" for line in lines))
