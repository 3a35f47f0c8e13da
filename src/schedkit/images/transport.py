"""HTTP for registries and catalogs: retries, redirects that leak nothing, bounded bodies, and errors for people."""

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple
from urllib.parse import urlencode, urljoin, urlsplit

from schedkit import __version__
from schedkit.errors import BadDataError, NoAnswerError, SchedkitError
from schedkit.http1 import Http1Response
from schedkit.images.connections import CONNECT_SECONDS, READ_SECONDS, Connections
from schedkit.images.dialing import RegistryConnection
from schedkit.images.failures import FailedRequestError, explain_failure, find_words
from schedkit.images.settings import RegistrySettings

ATTEMPTS = 4
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 20.0  # a server that asks for more is told to the user instead
MOST_REDIRECTS = 5
LONGEST_HOST = 255
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

    def __init__(self, transport: "Transport", connection: RegistryConnection, answer: Http1Response, url: str) -> None:
        self._transport = transport
        self._connection = connection
        self._answer = answer
        self._closed = False
        self.url = url
        self.status = answer.status
        self.headers = answer.headers  # names in lower case

    def pieces(self, deadline: float = math.inf) -> Iterator[bytes]:
        """The body as it arrives, undecoded; BrokenStreamError when it stops, slows to a drip, or at the deadline."""
        clock = self._transport.clock
        began, in_window = clock(), 0
        while True:
            allowed = min(self._transport.read_seconds, deadline - clock(), self._transport.check_time())
            try:
                self._connection.allow(allowed)
                piece = self._answer.read1(PIECE)
            except OSError as error:
                self._transport.check_time()
                if clock() > deadline:
                    raise BrokenStreamError(f"it is incomplete after {DOCUMENT_SECONDS:.0f} s") from error
                raise BrokenStreamError(find_words(error), broken=not isinstance(error, TimeoutError)) from error
            if not piece:
                return
            in_window += len(piece)
            yield piece
            now = clock()
            if now - began > WINDOW_SECONDS:
                if in_window < WINDOW_BYTES:
                    raise BrokenStreamError(f"only {in_window} bytes came in {now - began:.0f} s")
                began, in_window = now, 0

    def read(self, limit: int) -> bytes:
        """The whole body if it has at most `limit` bytes; otherwise one more than that."""
        content = bytearray()  # a list of pieces would take much more memory when each has a byte or two
        deadline = self._transport.clock() + DOCUMENT_SECONDS
        try:
            for piece in self.pieces(deadline):
                content += piece
                if len(content) > limit:
                    break
                if self._transport.clock() > deadline:
                    raise BrokenStreamError(f"it is incomplete after {DOCUMENT_SECONDS:.0f} s")
        finally:
            self.close()
        return bytes(content[: limit + 1])

    def discard(self) -> None:
        """Be done with it: a short body is read, so that the connection can be used again."""
        length = self.headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length[:9]) <= SHORT_BODY:
            with suppress(BrokenStreamError):
                self.read(SHORT_BODY)
        self.close()

    def close(self) -> None:
        """Give the connection back if the body was read to its end, end it if not."""
        if not self._closed:
            self._closed = True
            self._transport.release(self._connection, whole=self._answer.is_done())


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
        self.clock = clock
        self.read_seconds = read_seconds
        self._connections = Connections(settings, environ)
        self._sleep = sleep
        self._connect_seconds = connect_seconds
        self._limit: tuple[float, str] | None = None  # until when all requests must be done, and what to say then

    @contextmanager
    def limit(self, seconds: float, what: str) -> Iterator[None]:
        """Have all requests meanwhile done within this time, pauses included; NoAnswerError for what is not."""
        self._limit = self.clock() + seconds, f"{what} took more than {seconds:.0f} seconds"
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
                self._sleep(min(FIRST_PAUSE * 2**attempt, self.check_time()))
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
        sent = dict(headers or {})
        for _ in range(MOST_REDIRECTS + 1):
            response = self._send_patiently(url, sent, about, form)
            if response.status not in REDIRECTS:
                return response
            response.discard()
            if not redirects:
                raise BadDataError(f"{about}: {_host(url)} answers with a redirect where none may be followed")
            target = self.follow(url, response.headers.get("location", ""), about)
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
        if (
            not host
            or there.scheme not in ("http", "https")
            or there.username is not None
            or len(host) > LONGEST_HOST
            or not there.netloc.isprintable()
        ):
            raise BadDataError(f"{about}: {_host(url)} points to {target[:200]!r}, which is not a usable URL")
        if there.scheme == "https" or there.netloc in self.settings.insecure:
            return joined
        if urlsplit(url).scheme == "http" and self.settings.may_be_plain(there.netloc):
            return joined
        raise BadDataError(
            f"{about}: {_host(url)} points to {there.netloc} over plain HTTP",
            hint=f"if this is intended, allow it with --insecure-registry {there.netloc}",
        )

    def close(self) -> None:
        """Close what is open."""
        self._connections.close()

    def _send_patiently(
        self, url: str, headers: Mapping[str, str], about: str, form: Mapping[str, str] | None
    ) -> Response:
        for attempt in range(ATTEMPTS):
            last = attempt == ATTEMPTS - 1
            pause = FIRST_PAUSE * 2**attempt
            try:
                response = self.send(url, headers, form)
            except FailedRequestError as failed:
                if last or not failed.is_passing:
                    raise explain_failure(about, url, failed) from failed
            else:
                asked = parse_retry_after(response.headers.get("retry-after", ""))
                if response.status not in TRANSIENT or last or (asked or 0) > LONGEST_PAUSE:
                    return response
                pause = pause if asked is None else asked
                response.discard()
            self._sleep(min(pause, self.check_time()))
        raise AssertionError("the last attempt returns or raises")

    def check_time(self) -> float:
        """The seconds that are left for all requests; NoAnswerError when there are none."""
        if self._limit is None:
            return math.inf
        deadline, late = self._limit
        left = deadline - self.clock()
        if left <= 0:
            raise NoAnswerError(late, hint="the registry, or the way to it, is too slow")
        return left

    def send(self, url: str, headers: Mapping[str, str], form: Mapping[str, str] | None = None) -> Response:
        """One request as it is, once; FailedRequestError if no answer comes."""
        parts = urlsplit(url)
        sent = {"User-Agent": f"schedkit/{__version__}", **headers}
        method, body = "GET", None
        if form is not None:
            method, body = "POST", urlencode(form).encode()
            sent["Content-Type"] = "application/x-www-form-urlencoded"
        seconds = min(self._connect_seconds, self.check_time())
        connection = self._connections.take(parts.scheme, parts.netloc.rpartition("@")[2], seconds)
        try:
            seconds = min(self.read_seconds, self.check_time())
        except NoAnswerError:
            connection.close()
            raise
        return Response(self, connection, connection.ask(method, url, sent, body, seconds), url)

    def release(self, connection: RegistryConnection, *, whole: bool) -> None:
        """Keep a connection whose answer has been read whole, and close any other."""
        if whole:
            self._connections.give_back(connection)
        else:
            connection.close()


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
    if not text:
        return None  # as nearly always, and without the import
    if text.isascii() and text.isdigit():
        return float(text[:9])
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def _broken(about: str, url: str, error: BrokenStreamError) -> SchedkitError:
    return NoAnswerError(f"{about}: the answer of {_host(url)} broke off: {error}")
