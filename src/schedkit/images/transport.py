"""HTTP for registries and catalogs: retries, redirects that leak nothing, bounded bodies, and errors for people."""

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin, urlsplit

from schedkit import __version__
from schedkit.errors import BadDataError, NoAnswerError, SchedkitError, UnavailableError
from schedkit.images.connections import CONNECT_SECONDS, READ_SECONDS, Connections
from schedkit.images.settings import RegistrySettings

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

    from schedkit.images.timed import TimedResponse

ATTEMPTS = 4
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 20.0  # a server that asks for more is told to the user instead
MOST_REDIRECTS = 5
DOCUMENT_SECONDS = 60.0  # for a whole document, however slowly it drips
PIECE = 256 * 1024
SHORT_BODY = 64 * 1024
WINDOW_SECONDS = 30.0
WINDOW_BYTES = 32 * 1024  # what must arrive in each window of a long transfer, or it is as good as broken
TRANSIENT = frozenset({429, 500, 502, 503, 504})
REDIRECTS = frozenset({301, 302, 303, 307, 308})


class BrokenStreamError(Exception):
    """A body that ended too early. `broken`: the connection broke, so asking again may help."""

    def __init__(self, why: str, *, broken: bool = False) -> None:
        super().__init__(why)
        self.broken = broken


class Answer(NamedTuple):
    """A whole answer, read within its limit."""

    url: str  # where it came from in the end
    status: int
    headers: Mapping[str, str]
    body: bytes


class Response:
    """An answer whose body is still to come."""

    def __init__(
        self,
        response: "BaseHTTPResponse",
        url: str,
        clock: Callable[[], float],
        check_time: Callable[[], float | None],
        read_seconds: float,
    ) -> None:
        self._response = response
        # urllib3 has no other way to it.
        self._timed: TimedResponse = response._original_response  # type: ignore[attr-defined]
        self._clock = clock
        self._check_time = check_time
        self._read_seconds = read_seconds
        self.url = url
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    def pieces(self, deadline: float = math.inf) -> Iterator[bytes]:
        """The body as it arrives, undecoded; BrokenStreamError when it stops, slows to a drip, or at the deadline."""
        from urllib3.exceptions import HTTPError
        from urllib3.exceptions import TimeoutError as Late

        began, in_window = self._clock(), 0
        while True:
            left = self._check_time()
            allowed = min(self._read_seconds, deadline - self._clock(), math.inf if left is None else left)
            try:
                self._timed.allow(allowed)
                piece = self._response.read1(PIECE, decode_content=False)
            except (HTTPError, OSError) as error:
                self._check_time()
                if self._clock() > deadline:
                    raise BrokenStreamError(f"it is incomplete after {DOCUMENT_SECONDS:.0f} s") from error
                raise BrokenStreamError(_why(error), broken=not isinstance(error, Late)) from error
            if not piece:
                return
            in_window += len(piece)
            yield piece
            now = self._clock()
            if now - began > WINDOW_SECONDS:
                if in_window < WINDOW_BYTES:
                    raise BrokenStreamError(f"only {in_window} bytes came in {now - began:.0f} s")
                began, in_window = now, 0

    def read(self, limit: int) -> bytes:
        """The whole body if it has at most `limit` bytes; otherwise one more than that."""
        parts, size = [], 0
        deadline = self._clock() + DOCUMENT_SECONDS
        try:
            for piece in self.pieces(deadline):
                parts.append(piece)
                size += len(piece)
                if size > limit:
                    break
                if self._clock() > deadline:
                    raise BrokenStreamError(f"it is incomplete after {DOCUMENT_SECONDS:.0f} s")
        finally:
            self.close()
        return b"".join(parts)[: limit + 1]

    def discard(self) -> None:
        """Be done with it: a short body is read, so that the connection can be used again."""
        length = self.headers.get("Content-Length", "")
        if length.isascii() and length.isdigit() and int(length[:9]) <= SHORT_BODY:
            with suppress(BrokenStreamError):
                self.read(SHORT_BODY)
        self.close()

    def close(self) -> None:
        """Give the connection back if the body was read to its end, end it if not."""
        self._response.close()
        self._response.release_conn()


class Transport:
    """Sends requests. `about` in each call is what the user asked for, and goes into its errors."""

    def __init__(
        self,
        settings: RegistrySettings,
        *,
        environ: Mapping[str, str] = os.environ,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        connect_seconds: float = CONNECT_SECONDS,
        read_seconds: float = READ_SECONDS,
    ) -> None:
        self.settings = settings
        self._connections = Connections(settings, environ, connect_seconds, read_seconds)
        self._sleep = sleep
        self._clock = clock
        self._connect_seconds = connect_seconds
        self._read_seconds = read_seconds
        self._limit: tuple[float, str] | None = None  # until when all requests must be done, and what to say then

    @contextmanager
    def limit(self, seconds: float, what: str) -> Iterator[None]:
        """Have all requests meanwhile done within this time, pauses included; NoAnswerError for what is not."""
        self._limit = self._clock() + seconds, f"{what} took more than {seconds:.0f} seconds"
        try:
            yield
        finally:
            self._limit = None

    def fetch(
        self,
        url: str,
        *,
        about: str,
        limit: int,
        headers: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
        redirects: bool = True,
    ) -> Answer:
        """A whole answer of at most `limit` bytes, whatever its status."""
        for attempt in range(ATTEMPTS):
            response = self.open(url, about=about, headers=headers, form=form, redirects=redirects)
            try:
                body = response.read(limit)
            except BrokenStreamError as error:
                if attempt == ATTEMPTS - 1 or not error.broken:
                    raise _broken(about, response.url, error) from error
                self._sleep(FIRST_PAUSE * 2**attempt)
                continue
            if len(body) > limit:
                raise BadDataError(
                    f"{about}: {_host(response.url)} sent more than {limit} bytes where that is the limit"
                )
            return Answer(response.url, response.status, response.headers, body)
        raise AssertionError("the last attempt returns or raises")

    def open(
        self,
        url: str,
        *,
        about: str,
        headers: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
        redirects: bool = True,
    ) -> Response:
        """An answer with its body to come; redirects are followed, without Authorization once the host changes."""
        sent = {"User-Agent": f"schedkit/{__version__}", "Accept-Encoding": "identity"} | dict(headers or {})
        for _ in range(MOST_REDIRECTS + 1):
            response = self._send_patiently(url, sent, about, form)
            if response.status not in REDIRECTS:
                return response
            response.discard()
            if not redirects:
                raise BadDataError(f"{about}: {_host(url)} answers with a redirect where none may be followed")
            target = self.follow(url, response.headers.get("Location", ""), about)
            if _origin(target) != _origin(url):
                sent.pop("Authorization", None)
            url = target
        raise BadDataError(f"{about}: {_host(url)} redirects more than {MOST_REDIRECTS} times")

    def follow(self, url: str, target: str, about: str) -> str:
        """The whole URL that a server points to; BadDataError if it is none, or plain where that is not allowed."""
        try:
            joined = urljoin(url, target)
            there = urlsplit(joined)
            host, _ = there.hostname, there.port
        except ValueError:
            host = None
        if not host or there.scheme not in ("http", "https") or there.username is not None:
            raise BadDataError(f"{about}: {_host(url)} points to {target[:200]!r}, which is not a usable URL")
        if there.scheme == "https" or there.netloc in self.settings.insecure:
            return joined
        if urlsplit(url).scheme == "http" and self.settings.may_be_plain(there.netloc):
            return joined
        raise BadDataError(
            f"{about}: {_host(url)} points to {there.netloc} over plain HTTP",
            hint=f"if that is meant, allow it with --insecure-registry {there.netloc}",
        )

    def close(self) -> None:
        """Close what is open."""
        self._connections.close()

    def _send_patiently(
        self, url: str, headers: Mapping[str, str], about: str, form: Mapping[str, str] | None
    ) -> Response:
        from urllib3.exceptions import HTTPError, ProtocolError

        for attempt in range(ATTEMPTS):
            last = attempt == ATTEMPTS - 1
            pause = FIRST_PAUSE * 2**attempt
            try:
                response = self.send(url, headers, form)
            except ProtocolError as error:
                if last or _is_nonsense(error):
                    raise explain_failure(about, url, error) from error
            except (HTTPError, OSError) as error:
                raise explain_failure(about, url, error) from error
            else:
                asked = parse_retry_after(response.headers.get("Retry-After", ""))
                if response.status not in TRANSIENT or last or (asked or 0) > LONGEST_PAUSE:
                    return response
                pause = pause if asked is None else asked
                response.discard()
            left = self._check_time()
            self._sleep(pause if left is None else min(pause, left))
        raise AssertionError("the last attempt returns or raises")

    def _check_time(self) -> float | None:
        """The seconds that are left; None without a limit."""
        if self._limit is None:
            return None
        deadline, late = self._limit
        left = deadline - self._clock()
        if left <= 0:
            raise NoAnswerError(late, hint="the registry, or the way to it, is too slow")
        return left

    def send(self, url: str, headers: Mapping[str, str], form: Mapping[str, str] | None = None) -> Response:
        """One request as it is, once; errors are urllib3's."""
        from urllib3 import Timeout

        left = self._check_time()
        parts = urlsplit(url)
        pool = self._connections.pool(parts.scheme, parts.netloc)
        options = {"headers": dict(headers), "redirect": False, "retries": False, "preload_content": False}
        if left is not None:
            options["timeout"] = Timeout(connect=min(self._connect_seconds, left), read=min(self._read_seconds, left))
        if form is None:
            answer = pool.request("GET", url, **options)  # type: ignore[arg-type]
        else:
            answer = pool.request("POST", url, fields=dict(form), encode_multipart=False, **options)  # type: ignore[arg-type]
        return Response(answer, url, self._clock, self._check_time, self._read_seconds)


def _host(url: str) -> str:
    return urlsplit(url).netloc


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def is_same_origin(one: str, other: str) -> bool:
    """Whether two URLs are of the same scheme, host and port."""
    return _origin(one) == _origin(other)


def parse_retry_after(text: str) -> float | None:
    """Seconds to wait, from a number or a date."""
    if text.isascii() and text.isdigit():
        return float(text[:9])
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def _is_nonsense(error: Exception) -> bool:
    """Whether the server spoke, but no HTTP that we read: asking again will not help."""
    from http.client import HTTPException, RemoteDisconnected

    return any(isinstance(arg, HTTPException) and not isinstance(arg, RemoteDisconnected) for arg in error.args)


def _why(error: BaseException) -> str:
    """The innermost reason, which is the one that a person can do something with."""
    from urllib3.exceptions import NewConnectionError
    from urllib3.exceptions import TimeoutError as Late

    while True:
        if isinstance(error, Late) and not isinstance(error, NewConnectionError):
            return "no response in time"
        inner = next((arg for arg in reversed(error.args) if isinstance(arg, BaseException)), error.__cause__)
        if inner is None or inner is error:
            break
        error = inner
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error) or type(error).__name__
    return " ".join(text.rpartition(": ")[2].split())[:200]


def _broken(about: str, url: str, error: BrokenStreamError) -> SchedkitError:
    return NoAnswerError(f"{about}: the answer of {_host(url)} broke off: {error}")


def explain_failure(about: str, url: str, error: Exception) -> SchedkitError:
    """What to tell of a request that got no answer."""
    import ssl

    from urllib3.exceptions import (
        ConnectTimeoutError,
        NameResolutionError,
        NewConnectionError,
        ProxyError,
        ReadTimeoutError,
        SSLError,
    )

    host = _host(url)
    if isinstance(error, ProxyError):
        return UnavailableError(
            f"{about}: the proxy for {host} failed: {_why(error)}",
            hint="look at HTTPS_PROXY, HTTP_PROXY and NO_PROXY",
        )
    if isinstance(error, ReadTimeoutError):
        return NoAnswerError(f"{about}: {host} accepted the request and sent no response in time")
    if isinstance(error, ConnectTimeoutError) and not isinstance(error, NewConnectionError):
        return NoAnswerError(
            f"{about}: no response from {host}", hint="check your network, and HTTPS_PROXY if you need a proxy"
        )
    if isinstance(error, NameResolutionError):
        return UnavailableError(
            f"{about}: cannot resolve {host} (DNS lookup failed)", hint="check the name and your network"
        )
    if isinstance(error, SSLError):
        inner = next((arg for arg in error.args if isinstance(arg, ssl.SSLCertVerificationError)), None)
        if inner:
            return UnavailableError(
                f"{about}: the certificate of {host} is not trusted: {inner.verify_message or inner}",
                hint="name its authority with ca-file in the configuration file, or put it into "
                f"/etc/containers/certs.d/{host}/ca.crt",
            )
        return UnavailableError(
            f"{about}: {host} does not speak TLS correctly: {_why(error)}",
            hint=f"if it serves plain HTTP and that is meant, allow it with --insecure-registry {host}",
        )
    if _is_nonsense(error):
        return BadDataError(f"{about}: {host} answers with something that is not HTTP: {_why(error)}")
    return UnavailableError(f"{about}: {host} cannot be reached: {_why(error)}")
