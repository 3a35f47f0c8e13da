"""Reading from a socket until a point in time: a socket's own timeout begins again with every byte that comes."""

import io
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


class Wire(Protocol):
    """A socket, as far as it is used here; or what stands for one."""

    def settimeout(self, seconds: float | None, /) -> None: ...
    def recv_into(self, buffer: "WriteableBuffer", /) -> int: ...
    def sendall(self, data: "ReadableBuffer", /) -> None: ...
    def close(self) -> None: ...


class TimedReader(io.RawIOBase):
    """What comes from a socket; TimeoutError at the deadline, however much has come until then.

    Without a deadline, the socket's own timeout holds for each silence.
    """

    def __init__(self, sock: Wire, deadline: float | None) -> None:
        self._sock = sock
        self.deadline = deadline

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        if self.deadline is not None:
            left = self.deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            self._sock.settimeout(left)
        return self._sock.recv_into(buffer)

    def readable(self) -> bool:
        return True
