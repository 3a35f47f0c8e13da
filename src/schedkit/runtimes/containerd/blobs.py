"""One blob into containerd's store, piece by piece as it arrives."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

import grpc

from schedkit.errors import BadDataError, SchedkitError
from schedkit.images.oci import BadMirrorError, Descriptor
from schedkit.runtimes.containerd import calls
from schedkit.runtimes.containerd import messages_pb2 as m
from schedkit.runtimes.containerd.calls import AlreadyThereError, ContainerdClient

PIECE_BYTES = 2 << 20
MOST_PIECES = 1024  # in one message: a registry may send a byte at a time, and each takes memory of its own
_DATA = bytes((m.WriteContentRequest.DATA_FIELD_NUMBER << 3 | 2,))  # how the field begins
STALL_SECONDS = 120.0  # how long containerd may take for one piece, or for the commit of a whole layer


class BlobWrite:
    """The writing of one blob. `run` does it in its own thread; other threads may look at it and cancel it.

    containerd takes a digest that it has (and puts it under the lease) without wanting its bytes: `fetch` is
    called only if it wants them. What an interrupted write left is written again.
    """

    def __init__(
        self,
        client: ContainerdClient,
        blob: Descriptor,
        fetch: Callable[[], Iterable[bytes]],
        told: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._blob = blob
        self._ref = f"schedkit-{blob.digest}"
        self._fetch = fetch
        self._told = told  # of bytes that containerd now has
        self._call: calls.StreamingCall[m.WriteContentResponse] | None = None
        self._first_answer = threading.Event()
        self._offset = 0  # how much containerd has
        self._over = False
        self._failure: BaseException | None = None  # of fetching: it happens in a thread of grpc's
        self._asked = self._answered = 0
        self._last_move = time.monotonic()

    def run(self) -> None:
        """Write it; after an error nothing of it is left."""
        if self._over:
            raise SchedkitError(f"writing {self._blob.digest} was cancelled")
        committed = False
        told = 0
        try:
            self._call = self._client.open_stream(calls.CONTENT_WRITE, self._requests())
            if self._over:
                self._call.cancel()
            for answer in self._call:
                self._answered += 1
                self._last_move = time.monotonic()
                committed = answer.action == m.WRITE_ACTION_COMMIT
                if not self._first_answer.is_set():
                    self._offset = answer.offset
                    self._first_answer.set()
                elif answer.offset > told:
                    self._told(answer.offset - told)
                    told = answer.offset
            if not committed:
                raise self._failure or BadDataError(f"containerd ended the writing of {self._blob.digest} early")
        except grpc.RpcError as error:
            failure = self._client.explain(calls.CONTENT_WRITE.name, error)
            if isinstance(failure, AlreadyThereError):
                self._told(self._blob.size - told)
                return
            self._abort()
            raise self._failure or failure from error
        except BaseException:
            self._abort()
            raise
        finally:
            self._over = True
            self._first_answer.set()

    def cancel(self) -> None:
        """Drop it at once; `run` ends with an error."""
        self._over = True
        if self._call:
            self._call.cancel()

    def is_stalled(self) -> bool:
        """Whether containerd, not the registry, keeps us waiting for too long."""
        waiting = self._asked > self._answered
        return not self._over and waiting and time.monotonic() - self._last_move > STALL_SECONDS

    def _requests(self) -> Iterator[m.WriteContentRequest | bytes]:
        blob = self._blob
        yield self._ask(action=m.WRITE_ACTION_STAT, ref=self._ref, total=blob.size, expected=blob.digest)
        self._first_answer.wait()
        offset = self._offset
        try:
            while not self._over and offset != blob.size:
                offset = 0  # at which containerd drops what it has
                try:
                    for pieces in gather(self._fetch()):
                        self._note_asking()
                        yield format_write(offset, pieces)
                        offset += sum(map(len, pieces))
                except BadMirrorError:
                    offset = -1
                    continue  # from the next mirror, or the registry
                if offset != blob.size:
                    raise BadDataError(f"{blob.digest} is {offset} bytes long and should be {blob.size}")
        except BaseException as error:  # grpc would print it and say only that the call failed
            self._failure = error
            return
        if not self._over:
            commit = m.WRITE_ACTION_COMMIT
            yield self._ask(action=commit, offset=offset, total=blob.size, expected=blob.digest)

    def _ask(
        self, *, action: m.WriteAction, total: int, expected: str, offset: int = 0, ref: str = ""
    ) -> m.WriteContentRequest:
        self._note_asking()
        return m.WriteContentRequest(action=action, ref=ref, total=total, expected=expected, offset=offset)

    def _note_asking(self) -> None:
        self._asked += 1
        self._last_move = time.monotonic()

    def _abort(self) -> None:
        """Have what was written forgotten, so that nobody goes on with it; a cancelled one goes with the lease."""
        if not self._over:
            self.cancel()
            with suppress(SchedkitError):
                self._client.call(calls.CONTENT_ABORT, m.AbortRequest(ref=self._ref), seconds=calls.CLEANING_SECONDS)


def gather(pieces: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The same bytes, about PIECE_BYTES together: each message costs a round through gRPC."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        for start in range(0, len(piece), PIECE_BYTES):
            held.append(piece[start : start + PIECE_BYTES])  # the piece itself, if it is no longer
            size += len(held[-1])
            if size >= PIECE_BYTES or len(held) >= MOST_PIECES:
                yield held
                held, size = [], 0
    if held:
        yield held


def format_write(offset: int, pieces: Sequence[bytes]) -> bytes:
    """A WriteContentRequest with these bytes, as it is sent: protobuf would copy them three times more."""
    head = m.WriteContentRequest(action=m.WRITE_ACTION_WRITE, offset=offset).SerializeToString()
    return b"".join((head, _DATA, _format_varint(sum(map(len, pieces))), *pieces))


def _format_varint(number: int) -> bytes:
    digits = bytearray()
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes((*digits, number))
