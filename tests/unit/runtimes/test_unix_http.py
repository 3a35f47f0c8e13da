"""Every call ends in time, however the engine answers."""

import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from schedkit.errors import NoAnswerError
from schedkit.runtimes.unix_http import EngineSocket

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("begin", "drop"),
    [
        (b"HTTP/1.1 200 ", b"O"),
        (HEAD, b"X-A: b\r\n"),
        (CHUNKED, b"0"),
        (CHUNKED + b"1;", b"x"),
        (HEAD + b"Content-Length: 1000\r\n\r\n", b"x"),
    ],
)
def test_engine_that_drips_does_not_hold_a_call(tmp_path: Path, begin: bytes, drop: bytes) -> None:
    over = threading.Event()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "engine.sock"))
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.recv(65536)
                connection.sendall(begin)
                while not over.wait(0.05):
                    connection.sendall(drop)

        thread = threading.Thread(target=answer)
        thread.start()
        began = time.monotonic()
        with pytest.raises(NoAnswerError, match=r"did not respond within 0\.3 s"):
            EngineSocket("docker", str(tmp_path / "engine.sock")).call("GET", "/info", "look", seconds=0.3)
        took = time.monotonic() - began
        over.set()
        thread.join()
    assert took < 10


def test_answer_that_is_followed_may_take_longer_than_one_silence(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "engine.sock"))
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(HEAD + b"\r\n")
                for _ in range(4):
                    time.sleep(0.2)
                    connection.sendall(b"line\n")

        thread = threading.Thread(target=answer)
        thread.start()
        engine = EngineSocket("docker", str(tmp_path / "engine.sock"))
        with engine.open("GET", "/logs", "follow", seconds=0.5) as (response, _):
            assert list(response) == [b"line"] * 4
        thread.join()
