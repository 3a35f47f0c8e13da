"""No server holds a request open by dripping, whatever part of the answer it drips."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from schedkit.errors import NoAnswerError
from schedkit.images.settings import RegistrySettings
from schedkit.images.transport import Transport

HEAD = b"HTTP/1.1 200 OK\r\n"
DRIPS = {
    "the status": (b"HTTP/1.1 200 ", b"O"),
    "headers": (HEAD, b"X-A: b\r\n"),
    "one header": (HEAD + b"X-A: ", b"b"),
    "the length of a chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"0"),
    "what is said of a chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;", b"x"),
    "behind the chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n", b"X-A: b\r\n"),
    "the body": (HEAD + b"Content-Length: 1000\r\n\r\n", b"x"),
}


@contextmanager
def dripping(begin: bytes, drop: bytes) -> Iterator[str]:
    """A server that says this, and then a drop ten times a second; its host and port."""
    over = threading.Event()

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(65536)
            connection.sendall(begin)
            while not over.wait(0.1):
                connection.sendall(drop)

    def accept(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listener.accept()[0],)).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, args=(listener,))
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def measure(ask: Callable[[], object]) -> float:
    began = time.monotonic()
    with pytest.raises(NoAnswerError):
        ask()
    return time.monotonic() - began


@pytest.mark.parametrize("part", DRIPS)
def test_all_requests_end_at_the_limit_whatever_drips(part: str) -> None:
    transport = Transport(RegistrySettings(), environ={})

    def ask() -> None:
        with dripping(*DRIPS[part]) as server, transport.limit(0.5, "looking"):
            transport.fetch(f"http://{server}/v2/", about="it", limit=10_000)

    assert measure(ask) < 2
    transport.close()


@pytest.mark.parametrize("part", [part for part in DRIPS if part != "the body"])
def test_an_answer_without_a_limit_has_the_time_of_one_silence_for_its_head_and_each_piece(part: str) -> None:
    transport = Transport(RegistrySettings(), environ={}, read_seconds=0.5)
    with dripping(*DRIPS[part]) as server:
        assert measure(lambda: transport.fetch(f"http://{server}/v2/", about="it", limit=10_000)) < 2
    transport.close()


def test_a_proxy_that_drips_is_left() -> None:
    with dripping(HEAD, b"X-A: b\r\n") as proxy:
        transport = Transport(RegistrySettings(), environ={"https_proxy": f"http://{proxy}"}, connect_seconds=0.5)
        began = time.monotonic()
        with pytest.raises(Exception, match="registry"):
            transport.fetch("https://registry.example/v2/", about="it", limit=10_000)
        assert time.monotonic() - began < 2
        transport.close()


def test_all_addresses_of_a_host_share_one_time_to_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner may name as many as they like, and none of them may answer."""
    resolve = socket.getaddrinfo
    with ExitStack() as stack, socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))  # noqa: S104 - the addresses of loopback
        listener.listen(0)
        port = listener.getsockname()[1]
        addresses = [f"127.0.0.{number}" for number in range(1, 7)]
        for _ in range(3):  # its queue is full then, and who else connects hears nothing
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))

        def find(host: bytes, *args: object, **options: object) -> object:
            if host != b"many.example":
                return resolve(host, *args, **options)  # type: ignore[arg-type]
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in addresses]

        monkeypatch.setattr(socket, "getaddrinfo", find)
        transport = Transport(
            RegistrySettings(insecure=frozenset({f"many.example:{port}"})), environ={}, connect_seconds=0.6
        )
        assert measure(lambda: transport.fetch(f"http://many.example:{port}/", about="it", limit=10)) < 1.2
        transport.close()


def test_an_address_that_fails_leaves_its_time_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve = socket.getaddrinfo
    with dripping(HEAD + b"Content-Length: 2\r\nConnection: close\r\n\r\nok", b" ") as server:
        port = int(server.partition(":")[2])

        def find(host: bytes, *args: object, **options: object) -> object:
            if host != b"two.example":
                return resolve(host, *args, **options)  # type: ignore[arg-type]
            there = [("127.0.0.9", port), ("127.0.0.1", port)]
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", one) for one in there]

        monkeypatch.setattr(socket, "getaddrinfo", find)
        transport = Transport(RegistrySettings(), environ={})
        assert transport.fetch(f"http://two.example:{port}/", about="it", limit=10).body == b"ok"
        transport.close()
