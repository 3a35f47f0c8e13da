"""As much HTTP as probes and scrapers need, in the agent's own loop: one question, one answer, the connection ends."""

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from schedkit.errors import UnavailableError
from schedkit.sked.kube.addresses import Address, listen

PATIENCE_SECONDS = 5.0  # for a question to arrive and its answer to be taken
MOST_CONNECTIONS = 16  # others wait in the kernel's queue
LONGEST_HEAD = 8192
_PLAIN = "text/plain; charset=utf-8"
_PHRASES = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


class ProbeAnswer(NamedTuple):
    """What is answered."""

    status: int
    body: str
    content_type: str = _PLAIN


Answerer = Callable[[str], ProbeAnswer | None]  # by path; None: there is nothing


class _Visit:
    """A connection: what came of the question, and what is left of the answer."""

    def __init__(self, connection: socket.socket, answerer: Answerer, until: float) -> None:
        self.connection = connection
        self.answerer = answerer
        self.until = until
        self.head = b""
        self.left = b""


class ProbeServer:
    """The sockets that are listened on and their visitors; all of them are polled by whoever runs the loop."""

    def __init__(self) -> None:
        self._listeners: dict[int, tuple[socket.socket, Answerer]] = {}
        self._visits: dict[int, _Visit] = {}

    def open(self, what: str, address: Address, answerer: Answerer) -> int:
        """Listen on an address; the port."""
        try:
            listener = listen(address)
        except OSError as error:
            where = f"{address.host}:{address.port}"
            raise UnavailableError(f"cannot serve {what} on {where}: {error.strerror}") from error
        listener.setblocking(False)
        self._listeners[listener.fileno()] = (listener, answerer)
        port: int = listener.getsockname()[1]
        return port

    def close(self) -> None:
        """Send everybody away and listen no more."""
        for number in list(self._visits):
            self._end(number)
        for listener, _ in self._listeners.values():
            listener.close()

    def find_readers(self) -> list[int]:
        """The descriptors from which something may come; with many visitors, no new ones."""
        waiting = [number for number, visit in self._visits.items() if not visit.left]
        return waiting + ([] if len(self._visits) >= MOST_CONNECTIONS else list(self._listeners))

    def find_writers(self) -> list[int]:
        """The descriptors that have yet to take their answer."""
        return [number for number, visit in self._visits.items() if visit.left]

    def find_time(self) -> float | None:
        """When the first visitor's time is over."""
        return min((visit.until for visit in self._visits.values()), default=None)

    def handle(self, number: int, now: float) -> bool:
        """Do what can be done with a descriptor that is ready; whether it is one of these."""
        if number in self._listeners:
            self._accept(*self._listeners[number], now)
        elif number in self._visits:
            self._attend(number, self._visits[number])
        else:
            return False
        return True

    def expire(self, now: float) -> None:
        """Send those away whose time is over."""
        for number in [number for number, visit in self._visits.items() if visit.until <= now]:
            self._end(number)

    def _accept(self, listener: socket.socket, answerer: Answerer, now: float) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:  # they left before
            return
        connection.setblocking(False)
        self._visits[connection.fileno()] = _Visit(connection, answerer, now + PATIENCE_SECONDS)

    def _attend(self, number: int, visit: _Visit) -> None:
        try:
            if not visit.left:
                part = visit.connection.recv(LONGEST_HEAD)
                visit.head += part
                visit.left = _reply(visit.head, visit.answerer)
                if not visit.left and part:
                    return
            sent = visit.connection.send(visit.left) if visit.left else 0
        except BlockingIOError:
            return
        except OSError:
            sent, visit.left = 0, b""
        visit.left = visit.left[sent:]
        if not visit.left:
            self._end(number)

    def _end(self, number: int) -> None:
        connection = self._visits.pop(number).connection
        with suppress(OSError):  # a child that was forked meanwhile holds it open too: say that this is the end
            connection.shutdown(socket.SHUT_WR)
        connection.close()


def _reply(head: bytes, answerer: Answerer) -> bytes:
    """The answer to a question; nothing while it is not all there."""
    if b"\r\n\r\n" not in head:
        return _encode(ProbeAnswer(431, "the request is too long\n")) if len(head) > LONGEST_HEAD else b""
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    if len(words) != 3 or not words[1].startswith("/") or not words[2].startswith("HTTP/1."):
        return _encode(ProbeAnswer(400, "this is not HTTP\n"))
    if words[0] not in ("GET", "HEAD"):
        return _encode(ProbeAnswer(405, "only GET is answered\n"))
    answer = answerer(words[1].partition("?")[0]) or ProbeAnswer(404, "there is nothing here\n")
    return _encode(answer, with_body=words[0] == "GET")


def _encode(answer: ProbeAnswer, *, with_body: bool = True) -> bytes:
    body = answer.body.encode()
    allow = ["Allow: GET, HEAD"] if answer.status == 405 else []
    lines = [
        f"HTTP/1.1 {answer.status} {_PHRASES[answer.status]}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *allow,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + (body if with_body else b"")
