"""The agent's answers over real sockets, to those who ask as they should and to those who do not."""

import select
import socket
import time
from collections.abc import Iterator

import pytest

from schedkit.errors import UnavailableError
from schedkit.sked.agent.serve import LONGEST_HEAD, MOST_CONNECTIONS, PATIENCE_SECONDS, ProbeAnswer, ProbeServer
from schedkit.sked.kube.addresses import Address


def answer(path: str) -> ProbeAnswer | None:
    return {"/healthz": ProbeAnswer(200, "ok"), "/large": ProbeAnswer(200, "x" * 10_000_000)}.get(path)


class Loop:
    """A loop with nothing else in it, turned by hand."""

    def __init__(self) -> None:
        self.server = ProbeServer()
        self.port = self.server.open("probes", Address("127.0.0.1", 0), answer)
        self.connections: list[socket.socket] = []

    def connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        self.connections.append(connection)
        return connection

    def turn(self, now: float = 0.0) -> None:
        while True:
            poll = select.poll()
            for number in self.server.find_readers():
                poll.register(number, select.POLLIN)
            for number in self.server.find_writers():
                poll.register(number, select.POLLOUT)
            ready = poll.poll(50)
            for number, _ in ready:
                assert self.server.handle(number, now)
            if not ready:
                return

    def ask(self, question: bytes) -> bytes:
        connection = self.connect()
        connection.sendall(question)
        self.turn()
        return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    received = b""
    while part := connection.recv(1 << 20):
        received += part
    return received


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    for connection in loop.connections:
        connection.close()
    loop.turn()
    loop.server.close()


def test_probe_is_answered(loop: Loop) -> None:
    assert loop.ask(b"GET /healthz?verbose HTTP/1.1\r\nHost: a\r\n\r\n") == (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 2\r\n"
        b"Connection: close\r\n\r\nok"
    )
    assert loop.ask(b"HEAD /healthz HTTP/1.0\r\n\r\n").endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("question", "code"),
    [
        (b"GET /other HTTP/1.1\r\n\r\n", 404),
        (b"POST /healthz HTTP/1.1\r\n\r\n", 405),
        (b"\r\n\r\n", 400),
        (b"\xff\xfe\r\n\r\n", 400),
        (b"GET http://a/healthz HTTP/1.1\r\n\r\n", 400),
        (b"GET /healthz SPDY/3\r\n\r\n", 400),
        (b"GET /" + b"a" * (LONGEST_HEAD + 1), 431),
    ],
)
def test_other_questions_are_refused(loop: Loop, question: bytes, code: int) -> None:
    assert loop.ask(question).startswith(f"HTTP/1.1 {code} ".encode())


def test_question_in_parts_is_answered(loop: Loop) -> None:
    connection = loop.connect()
    for part in (b"GET /hea", b"lthz HTTP/1.1\r\n", b"\r\n"):
        connection.sendall(part)
        loop.turn()
    assert read_all(connection).endswith(b"ok")


def test_answer_that_is_taken_slowly_arrives_whole(loop: Loop) -> None:
    connection = loop.connect()
    connection.sendall(b"GET /large HTTP/1.1\r\n\r\n")
    received = b""
    while not received.endswith(b"x" * 1000) or len(received) < 10_000_000:
        loop.turn()
        received += connection.recv(1 << 20)
    assert len(received.partition(b"\r\n\r\n")[2]) == 10_000_000


def test_those_who_say_nothing_are_sent_away_in_time(loop: Loop) -> None:
    silent = loop.connect()
    loop.turn(now=100)
    assert loop.server.find_time() == 100 + PATIENCE_SECONDS
    loop.server.expire(100 + PATIENCE_SECONDS - 1)
    assert loop.server.find_time()
    loop.server.expire(100 + PATIENCE_SECONDS)
    assert loop.server.find_time() is None
    assert silent.recv(1) == b""


def test_many_who_say_nothing_keep_the_others_waiting_for_a_while_only(loop: Loop) -> None:
    for _ in range(MOST_CONNECTIONS + 5):
        loop.connect()
    loop.turn(now=0)
    probe = loop.connect()
    probe.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
    loop.turn(now=1)
    assert len(loop.server.find_readers()) == MOST_CONNECTIONS
    loop.server.expire(PATIENCE_SECONDS)
    loop.turn(now=PATIENCE_SECONDS)
    assert read_all(probe).endswith(b"ok")


def test_those_who_leave_are_forgotten(loop: Loop) -> None:
    loop.connect().close()
    half = loop.connect()
    half.sendall(b"GET /large HTTP/1.1\r\n\r\n")
    loop.turn()
    half.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # reset
    half.close()
    end = time.monotonic() + 10
    while loop.server.find_time() is not None and time.monotonic() < end:
        loop.turn()
    assert loop.server.find_time() is None


def test_address_that_is_taken_is_named(loop: Loop) -> None:
    with pytest.raises(
        UnavailableError, match=f"cannot serve metrics on 127.0.0.1:{loop.port}: Address already in use"
    ):
        ProbeServer().open("metrics", Address("127.0.0.1", loop.port), answer)


def test_strange_descriptor_is_not_ours(loop: Loop) -> None:
    assert not loop.server.handle(999, 0)
