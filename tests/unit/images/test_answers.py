"""What a server may say in its headers."""

import socket
import threading
from contextlib import suppress

import pytest

from schedkit.errors import BadDataError
from schedkit.images.blobs import stream_blob
from schedkit.images.oci import Descriptor
from schedkit.images.settings import RegistrySettings
from schedkit.images.transport import Response, Transport

BLOB = Descriptor("x/y", f"sha256:{'a' * 64}", 2)


class OneAnswer:
    """A server that says the same to everybody, for as long as it is asked."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def __enter__(self) -> str:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/v2/"

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(self._answer)


@pytest.mark.parametrize(
    "part", ["", f"bytes {'9' * 5000}-1/2", f"bytes {'9' * 18}-1/2", "bytes 1-1/2", "bytes ٠-1/2", "bytes -1/2"]
)
def test_part_of_a_blob_that_was_not_asked_for_is_refused(part: str) -> None:
    head = f"HTTP/1.1 206 Partial\r\nContent-Range: {part}\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
    transport = Transport(RegistrySettings(), environ={})
    with OneAnswer(head.encode()) as url:

        def open_at(offset: int) -> Response:
            return transport.open(url, about="it")

        with pytest.raises(BadDataError, match="another part"):
            list(stream_blob(open_at, BLOB, "it"))
    transport.close()


@pytest.mark.parametrize(
    "words",
    [
        "Mon, 01 Jan 2024 00:00:00 +99999999999999999",
        "Mon, 01 Jan 0001 00:00:00 +2359",
        "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
        "9" * 5000,
        "soon",
        ",",
        "",
    ],
)
def test_nonsense_in_retry_after_is_no_reason_to_fail(words: str) -> None:
    head = f"HTTP/1.1 503 no\r\nRetry-After: {words}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    naps: list[float] = []
    transport = Transport(RegistrySettings(), environ={}, sleep=naps.append)
    with OneAnswer(head.encode()) as url:
        assert transport.fetch(url, about="it", limit=10).status == 503
    assert all(nap <= 20 for nap in naps)
    transport.close()
