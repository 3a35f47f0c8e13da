"""One connection to a registry: opened within one time for all of it, then used for one request after another."""

import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlsplit

from schedkit.deadlines import TimedReader, Wire
from schedkit.http1 import Http1Response, format_request
from schedkit.images.failures import FailedRequestError, Stage
from schedkit.images.proxies import Proxy

if TYPE_CHECKING:
    from ssl import SSLContext

_UNQUOTED = "!$%&'()*+,/:;=?@~"  # what may stand in a URL, the escapes that are there already among it


class Route(NamedTuple):
    """The way to one host."""

    scheme: str
    authority: str
    host: str
    port: int
    tls: "SSLContext | None"  # for https
    proxy: Proxy | None
    proxy_tls: "SSLContext | None"  # for a proxy that is spoken to over TLS


class RegistryConnection:
    """A connection that is open: one request at a time."""

    def __init__(self, route: Route, sock: Wire) -> None:
        self.route = route
        self._sock = sock
        self._reader = TimedReader(sock, None)
        self._stream = BufferedReader(self._reader)

    def ask(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, seconds: float
    ) -> Http1Response:
        """Send a request and read the head of its answer, within so many seconds."""
        parts = urlsplit(url)
        target = quote(parts.path or "/", _UNQUOTED) + (f"?{quote(parts.query, _UNQUOTED)}" if parts.query else "")
        fields = {"Host": self.route.authority, **headers}
        if self.route.proxy and self.route.scheme == "http":
            target = f"http://{self.route.authority}{target}"
            fields |= self.route.proxy.headers
        try:
            self._sock.settimeout(seconds)
            self.allow(seconds)
            self._sock.sendall(format_request(method, target, fields, body))
            return Http1Response(self._stream)
        except OSError as error:
            self.close()
            raise FailedRequestError(Stage.ANSWER, error) from error

    def allow(self, seconds: float) -> None:
        """Have so much time, from now on, for what is read next."""
        self._reader.deadline = time.monotonic() + seconds

    def is_quiet(self) -> bool:
        """Whether the server neither hung up nor said what it was not asked for, so that it can be asked again."""
        self._reader.deadline = None
        try:
            self._sock.settimeout(0)
            self._stream.peek(1)
        except BlockingIOError:
            return True
        except OSError as error:
            from ssl import SSLWantReadError  # how TLS says the same

            return isinstance(error, SSLWantReadError)
        return False

    def close(self) -> None:
        """Hang up."""
        with suppress(OSError):
            self._sock.close()


def open_connection(route: Route, seconds: float) -> RegistryConnection:
    """Connect to a host, through its proxy if it has one; FailedRequestError if that fails or takes longer."""
    deadline = time.monotonic() + seconds
    first = route.proxy or route
    with _failing_at(Stage.PROXY if route.proxy else Stage.CONNECT):
        sock: Wire = _connect(first.host, first.port, deadline)
    try:
        if route.proxy:
            with _failing_at(Stage.PROXY):
                if route.proxy_tls:
                    sock = _secure(sock, route.proxy_tls, route.proxy.host, deadline)
                if route.tls:
                    _open_tunnel(sock, route, deadline)
        if route.tls:
            with _failing_at(Stage.ANSWER):
                sock = _secure(sock, route.tls, route.host, deadline)
    except FailedRequestError:
        sock.close()
        raise
    return RegistryConnection(route, sock)


@contextmanager
def _failing_at(stage: Stage) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FailedRequestError(stage, error) from error


def _connect(host: str, port: int, deadline: float) -> socket.socket:
    """To the first of a host's addresses that answers: the time is divided among those not yet tried."""
    try:
        name = host.encode("ascii")  # as it is already; for text, all that encodes international names is imported
    except UnicodeError as error:
        raise _invalid(host) from error
    found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    failure = TimeoutError() if found else OSError("it has no address")
    for number, (family, kind, protocol, _, address) in enumerate(found):
        left = (deadline - time.monotonic()) / (len(found) - number)
        if left <= 0:
            break
        try:
            sock = socket.socket(family, kind, protocol)
        except OSError as error:  # this machine has no IPv6
            failure = error
            continue
        try:
            sock.settimeout(left)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.connect(address)
        except OSError as error:
            sock.close()
            failure = error
        else:
            return sock
    raise failure


def _secure(sock: Wire, context: "SSLContext", host: str, deadline: float) -> Wire:
    """TLS on a connection, with the host's certificate checked as the context says."""
    from ssl import SSLSocket

    seconds, name = _left(deadline), host.rstrip(".")
    try:
        if isinstance(sock, socket.socket) and not isinstance(sock, SSLSocket):
            sock.settimeout(seconds)
            return context.wrap_socket(sock, server_hostname=name)
        from schedkit.images.nested_tls import NestedTls

        return NestedTls(sock, context, name, seconds)
    except OSError:  # some of them are a ValueError, too
        raise
    except ValueError as error:
        raise _invalid(name) from error


def _open_tunnel(sock: Wire, route: Route, deadline: float) -> None:
    """Have the proxy connect to the host."""
    there = f"[{route.host}]:{route.port}" if ":" in route.host else f"{route.host}:{route.port}"
    headers = {"Host": there, **(route.proxy.headers if route.proxy else {})}
    sock.settimeout(_left(deadline))
    sock.sendall(format_request("CONNECT", there, headers, None))
    answer = Http1Response(BufferedReader(TimedReader(sock, deadline)))
    if answer.status != 200:
        raise ConnectionError(f"it answers with HTTP {answer.status}")


def _invalid(host: str) -> OSError:
    return OSError(f"invalid host name {host[:80]!r}")


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
