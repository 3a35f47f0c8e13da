"""What a server may say in its headers."""

import socket
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

from schedkit.errors import BadDataError, NoAnswerError, NotFoundError, SchedkitError, UnavailableError
from schedkit.images.blobs import stream_blob
from schedkit.images.oci import Descriptor
from schedkit.images.reference import parse_reference
from schedkit.images.registry import Registry
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


@pytest.fixture
def transport() -> Iterator[Transport]:
    transport = Transport(RegistrySettings(), environ={}, sleep=lambda _: None)
    yield transport
    transport.close()


@pytest.mark.parametrize(
    ("status", "error"),
    [("404 Not Found", NotFoundError), ("503 Unavailable", UnavailableError), ("418 No", BadDataError)],
)
def test_refusal_that_breaks_off_is_told_by_its_status(status: str, error: type[SchedkitError]) -> None:
    head = f"HTTP/1.1 {status}\r\nContent-Length: 100\r\nConnection: close\r\n\r\nhalf"
    with OneAnswer(head.encode()) as url:
        registry = Registry(environ={}, sleep=lambda _: None)
        with pytest.raises(error):
            list(registry.fetch_blob(parse_reference(f"{urlsplit(url).netloc}/it:1"), BLOB))
        registry.close()


@pytest.mark.parametrize(
    "location",
    [
        "https://127.0.0.1\0.example/",
        "https://a\x7fb.example/",
        f"https://{'a' * 60_000}/",
        f"https://{'a.' * 200}example/",
    ],
    ids=["a zero byte", "a control character", "a long name", "many labels"],
)
def test_redirect_to_what_is_no_host_is_refused(transport: Transport, location: str) -> None:
    head = f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    with OneAnswer(head.encode()) as url, pytest.raises(BadDataError, match=r"not a usable URL|not HTTP"):
        transport.fetch(url, about="it", limit=10)


def test_document_in_tiny_chunks_takes_no_more_memory_than_another(transport: Transport) -> None:
    size = 60_000
    body = b"2\r\nok\r\n" * (size // 2) + b"0\r\n\r\n"
    with OneAnswer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + body) as url:
        tracemalloc.start()
        try:
            assert len(transport.fetch(url, about="it", limit=size).body) == size
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert most < 8 * size


def test_pause_before_another_attempt_ends_at_the_limit() -> None:
    naps: list[float] = []
    times = iter([0.0, *[0.9] * 1000])
    transport = Transport(RegistrySettings(), environ={}, sleep=naps.append, clock=lambda: next(times))
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\n"
    with OneAnswer(head + b"half") as url, pytest.raises(NoAnswerError), transport.limit(1, "it"):
        transport.fetch(url, about="it", limit=10)
    assert max(naps) < 0.2
    transport.close()
