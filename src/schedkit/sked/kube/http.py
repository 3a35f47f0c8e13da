"""As much of an HTTP server as probes and scrapers need: one question, one answer, and the connection ends.

aiohttp has a whole one, of which the import alone takes 2 MB: more than a thousand resources do.
"""

import asyncio
import logging
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Self
from urllib.parse import urlsplit

from schedkit.sked.kube.logs import fields

PIECE = 64 << 10  # of an answer, sent at once: what is not sent yet is held twice, and with TLS three times
LONGEST_HEAD = 32 << 10  # a token is some thousand characters
PATIENCE_SECONDS = 10.0  # for a question to arrive, and for its answer to be taken
HANDSHAKE_SECONDS = 5.0
FAREWELL_SECONDS = 1.0
ACCEPT_AGAIN_SECONDS = 1.0
# At once, those amid their handshake included: probes and scrapers are a few, and each connection takes memory. Others
# wait in the kernel's queue.
MOST_CONNECTIONS = 64
_REQUEST = re.compile(r"([A-Z]+) (\S+) HTTP/1\.[01]")
_logger = logging.getLogger(__name__)


class BadRequestError(Exception):
    """What came is no HTTP."""


@dataclass(frozen=True)
class Request:
    """What is asked for; of the headers, which have small names, the last of a name counts."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class HttpResponse:
    """What is answered."""

    status: int = 200
    body: str | bytearray = ""
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)

    def encode(self, *, with_body: bool = True) -> Iterator[bytes | memoryview]:
        """The answer as it goes over the wire, in pieces."""
        body = self.body.encode() if isinstance(self.body, str) else self.body
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"]
        told = {"Content-Type": self.content_type, "Content-Length": str(len(body)), "Connection": "close"}
        lines += [f"{name}: {value}" for name, value in {**told, **self.headers}.items()]
        yield "\r\n".join([*lines, "", ""]).encode()
        for first in range(0, len(body) if with_body else 0, PIECE):
            yield memoryview(body)[first : first + PIECE]


Application = Callable[[Request], Awaitable[HttpResponse]]


def parse_head(head: bytes) -> Request:
    """Understand a request's first line and headers."""
    first, *lines = head.decode("latin-1").split("\r\n")
    found = _REQUEST.fullmatch(first)
    if found is None:
        raise BadRequestError
    headers = {}
    for line in filter(None, lines):
        name, separator, value = line.partition(":")
        if not separator or not name or name != name.strip():
            raise BadRequestError
        headers[name.lower()] = value.strip()
    try:
        target = urlsplit(found[2])
    except ValueError as error:
        raise BadRequestError from error
    if not target.path.startswith("/"):
        raise BadRequestError
    return Request(found[1], target.path, target.query, headers)


class Listener:
    """Answers whoever connects to a socket, for as long as it is entered."""

    def __init__(self, application: Application, listening: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        self._application = application
        self._socket = listening
        self._tls = tls
        self._answering: set[asyncio.Task[None]] = set()
        self._free = asyncio.Semaphore(MOST_CONNECTIONS)
        self._accepting: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._socket.setblocking(False)
        self._accepting = asyncio.ensure_future(self._accept())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Hear no more, and let those who are being answered have a moment."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
        self._socket.close()
        if self._answering:
            late = (await asyncio.wait(self._answering, timeout=FAREWELL_SECONDS))[1]
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _accept(self) -> None:
        while True:
            await self._free.acquire()
            try:
                connection, _ = await asyncio.get_running_loop().sock_accept(self._socket)
            except OSError as error:  # no file descriptors left, or who called has gone
                self._free.release()
                _logger.warning("cannot accept a connection", extra=fields(error=error.strerror))
                await asyncio.sleep(ACCEPT_AGAIN_SECONDS)
                continue
            task = asyncio.ensure_future(self._serve(connection))
            self._answering.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._answering.discard(task)
        self._free.release()

    async def _serve(self, connection: socket.socket) -> None:
        try:
            reader, writer = await self._open(connection)
        except OSError:  # the handshake failed, or took too long
            return
        try:
            answer = await self._answer(reader)
            async with asyncio.timeout(PATIENCE_SECONDS):
                for piece in answer:
                    writer.write(piece)
                    await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (asyncio.IncompleteReadError, TimeoutError, OSError):  # who asked has gone, or is too slow
            return
        finally:
            writer.transport.abort()

    async def _open(self, connection: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=LONGEST_HEAD)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol,
            connection,
            ssl=self._tls,
            ssl_handshake_timeout=HANDSHAKE_SECONDS if self._tls else None,
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def _answer(self, reader: asyncio.StreamReader) -> Iterator[bytes | memoryview]:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                request = parse_head(await reader.readuntil(b"\r\n\r\n"))
        except asyncio.LimitOverrunError:
            return HttpResponse(431, "the request's headers are too long\n").encode()
        except BadRequestError:
            return HttpResponse(400, "this is not HTTP\n").encode()
        try:
            response = await self._application(request)
        except Exception:
            _logger.exception("cannot answer")
            response = HttpResponse(500, "internal error\n")
        return response.encode(with_body=request.method != "HEAD")
