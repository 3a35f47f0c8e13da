"""TLS inside TLS, which Python's sockets do not do: to a registry, through a proxy that is itself asked over TLS."""

import time
from collections.abc import Callable
from functools import partial
from ssl import MemoryBIO, SSLContext, SSLEOFError, SSLWantReadError
from typing import TYPE_CHECKING, TypeVar

from schedkit.deadlines import Wire

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_PIECE = 64 * 1024
T = TypeVar("T")


class NestedTls:
    """A connection whose bytes are encrypted, and sent through another one."""

    def __init__(self, outer: Wire, context: SSLContext, host: str, seconds: float) -> None:
        self._outer = outer
        self._seconds: float | None = seconds
        self._incoming, self._outgoing = MemoryBIO(), MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._do(self._tls.do_handshake)

    def settimeout(self, seconds: float | None) -> None:
        """For each step as a whole, as TLS on a socket has it."""
        self._seconds = seconds

    def recv_into(self, buffer: "WriteableBuffer") -> int:
        """What there is, into the buffer; nothing is the end."""
        view = memoryview(buffer)
        try:
            piece = self._do(partial(self._tls.read, len(view)))
        except SSLEOFError:
            return 0
        view[: len(piece)] = piece
        return len(piece)

    def sendall(self, data: "ReadableBuffer") -> None:
        """All of it: there is no end to what waits to be sent."""
        self._do(partial(self._tls.write, data))

    def close(self) -> None:
        """Hang up."""
        self._outer.close()

    def _do(self, step: Callable[[], T]) -> T:
        """A step of TLS, with what it has to send sent, and what it waits for received."""
        deadline = time.monotonic() + self._seconds if self._seconds else None
        self._outer.settimeout(self._seconds)
        while True:
            try:
                done = step()
            except SSLWantReadError:
                self._flush()
                self._receive(deadline)
            else:
                self._flush()
                return done

    def _flush(self) -> None:
        if said := self._outgoing.read():
            self._outer.sendall(said)

    def _receive(self, deadline: float | None) -> None:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._outer.settimeout(left)
        piece = bytearray(_PIECE)
        if size := self._outer.recv_into(piece):
            self._incoming.write(memoryview(piece)[:size])
        else:
            self._incoming.write_eof()
