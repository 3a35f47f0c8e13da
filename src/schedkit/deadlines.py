"""Reading from a socket until a point in time: a socket's own timeout begins again with every byte that comes."""

import io
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class TimedReader(io.RawIOBase):
    """What comes from a socket; TimeoutError at the deadline, however much has come until then.

    Without a deadline, the socket's own timeout holds for each silence.
    """

    def __init__(self, sock: socket.socket, deadline: float | None) -> None:
        self._sock = sock
        self._stream = sock.makefile("rb", buffering=0)
        self.deadline = deadline

    def readinto(self, buffer: "WriteableBuffer", /) -> int | None:
        if self.deadline is not None:
            left = self.deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            self._sock.settimeout(left)
        return self._stream.readinto(buffer)

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._stream.close()
