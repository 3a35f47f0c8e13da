"""Statistics from a real socket with servers that behave and that do not; tests/e2e/test_kernel.py asks scx_rusty."""

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from schedkit.kernel.stats import fetch_stats
from schedkit.unknown import Unknown

Serve = Callable[[Callable[[socket.socket], None]], None]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    folder = tmp_path / "var/run/scx/root"
    folder.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as server:
        with monkeypatch.context() as patch:
            patch.chdir(folder)
            server.bind("stats")
        server.listen()
        threads: list[threading.Thread] = []

        def start(behave: Callable[[socket.socket], None]) -> None:
            def answer() -> None:
                connection, _ = server.accept()
                with connection:
                    behave(connection)

            threads.append(threading.Thread(target=answer))
            threads[-1].start()

        yield start
        for thread in threads:
            thread.join()


def reply(answer: bytes) -> Callable[[socket.socket], None]:
    def behave(connection: socket.socket) -> None:
        assert connection.recv(4096) == b'{"req":"stats","args":{"target":"top"}}\n'
        connection.sendall(answer)

    return behave


def test_answer_is_the_schedulers_statistics(serve: Serve, tmp_path: Path) -> None:
    serve(reply(b'{"errno":0,"args":{"resp":{"cpu_busy":12.5,"nr_migrations":3}}}\n'))

    assert fetch_stats(tmp_path, timeout=10) == {"cpu_busy": 12.5, "nr_migrations": 3}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"hello\n", "the answer is not JSON"),
        (b"[" * 100_000 + b"\n", "the answer is not JSON"),
        (b"[]\n", "the answer is not one of scx_stats"),
        (b'{"errno":0,"args":[]}\n', "the answer is not one of scx_stats"),
        (b'{"errno":0,"args":{"resp":7}}\n', "the answer holds no statistics"),
        (b'{"errno":22,"args":{"resp":"unknown target"}}\n', "the scheduler says 'unknown target'"),
        (b'{"errno":0,', "the scheduler hung up"),
        (b"", "the scheduler hung up"),
    ],
)
def test_answer_that_makes_no_sense_is_unknown(serve: Serve, tmp_path: Path, answer: bytes, why: str) -> None:
    serve(reply(answer))

    assert fetch_stats(tmp_path, timeout=10) == Unknown(f"{tmp_path}/var/run/scx/root/stats: {why}")


def test_answer_without_end_is_cut_off(serve: Serve, tmp_path: Path) -> None:
    def flood(connection: socket.socket) -> None:
        try:
            while True:
                connection.sendall(b"x" * 65536)
        except OSError:
            pass

    serve(flood)

    assert fetch_stats(tmp_path, timeout=10) == Unknown(
        f"{tmp_path}/var/run/scx/root/stats: the answer is longer than 1048576 bytes"
    )


def test_silent_server_is_unknown_when_the_time_is_over(serve: Serve, tmp_path: Path) -> None:
    over = threading.Event()

    def say_nothing(connection: socket.socket) -> None:
        over.wait()

    serve(say_nothing)

    assert fetch_stats(tmp_path, timeout=0.1) == Unknown(f"{tmp_path}/var/run/scx/root/stats: no answer within 0.1 s")
    over.set()


def test_nobody_serves_any(tmp_path: Path) -> None:
    assert fetch_stats(tmp_path) is None


def test_socket_of_a_scheduler_that_died_serves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "var/run/scx/root"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("stats")

    assert fetch_stats(tmp_path) is None
