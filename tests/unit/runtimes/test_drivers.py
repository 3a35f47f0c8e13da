"""Who answers: absent, dead, silent and foreign sockets; real runtimes are met in tests/integration/runtimes."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from schedkit.errors import NoAnswerError, NoPermissionError, UnavailableError, UsageError
from schedkit.runtimes import drivers
from schedkit.runtimes.drivers import Silent, find_runtimes, open_runtime, socket_of
from schedkit.runtimes.probe import Answered, Failed, probe
from tests.unit.runtimes.fake_engine import run_fake_engine

SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
PODMAN_PONG = b"HTTP/1.1 200 OK\r\nLibpod-API-Version: 5.4.2\r\nApi-Version: 1.41\r\nContent-Length: 2\r\n\r\nOK"
DOCKER_PONG = b"HTTP/1.1 200 OK\r\nApi-Version: 1.45\r\nContent-Length: 2\r\n\r\nOK"


@contextmanager
def listening(path: Path, answer: Callable[[socket.socket], None] | None = None) -> Iterator[None]:
    """A socket that takes connections; without `answer` nobody ever looks at them."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(5)

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                answer(connection)  # type: ignore[misc]

        thread = threading.Thread(target=serve, daemon=True) if answer else None
        if thread:
            thread.start()
        yield
        if thread:
            thread.join()


@pytest.fixture
def sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """The places where drivers look, in a folder of the test's."""
    paths = {driver: tmp_path / f"{driver}.sock" for driver in drivers.DRIVERS}
    monkeypatch.setattr(drivers, "SOCKETS", {driver: str(path) for driver, path in paths.items()})
    for variable in ("CONTAINER_HOST", "DOCKER_HOST", "CONTAINERD_ADDRESS"):
        monkeypatch.delenv(variable, raising=False)
    return paths


def test_no_socket_is_absent(sockets: dict[str, Path]) -> None:
    runtimes, silent = find_runtimes()

    assert runtimes == []
    assert [(one.driver, one.socket, one.absent) for one in silent] == [
        (driver, str(path), True) for driver, path in sockets.items()
    ]


def test_socket_without_a_listener_is_not_absent(sockets: dict[str, Path]) -> None:
    with listening(sockets["podman"]):
        pass

    assert find_runtimes(["podman"])[1] == [
        Silent("podman", str(sockets["podman"]), "nobody listens at it", absent=False)
    ]


@pytest.mark.parametrize("driver", drivers.DRIVERS)
def test_silent_socket_is_not_absent(sockets: dict[str, Path], driver: str) -> None:
    with listening(sockets[driver]):
        assert find_runtimes([driver])[1] == [
            Silent(driver, str(sockets[driver]), "no answer within 100 ms", absent=False)
        ]


def test_full_queue_is_not_absent(sockets: dict[str, Path]) -> None:
    with listening(sockets["podman"]):
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(10)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(str(sockets["podman"]))

        assert [one.absent for one in find_runtimes(["podman"])[1]] == [False]
        for one in waiting:
            one.close()


def test_all_are_asked_at_once_and_told_in_order(sockets: dict[str, Path]) -> None:
    everybody = threading.Barrier(2)

    def answer_together(connection: socket.socket) -> None:
        everybody.wait(10)
        connection.sendall(PODMAN_PONG)

    def answer_first(connection: socket.socket) -> None:
        everybody.wait(10)
        connection.sendall(DOCKER_PONG)

    with listening(sockets["podman"], answer_together), listening(sockets["docker"], answer_first):
        runtimes, silent = find_runtimes(seconds=10)

    assert [runtime.driver for runtime in runtimes] == ["podman", "docker"]
    assert [one.driver for one in silent] == ["containerd"]


def test_podman_that_stands_in_for_docker_is_not_counted_twice(sockets: dict[str, Path]) -> None:
    with run_fake_engine(sockets["podman"], "podman"):
        sockets["docker"].symlink_to(sockets["podman"])
        runtimes, silent = find_runtimes(["podman", "docker"], seconds=10)

        assert [runtime.driver for runtime in runtimes] == ["podman"]
        assert [(one.driver, one.why, one.absent) for one in silent] == [
            ("docker", "it is podman that answers there", True)
        ]
        with pytest.raises(UnavailableError, match="it is podman that answers there"):
            open_runtime("docker")


@pytest.mark.parametrize(
    ("driver", "said", "outcome"),
    [
        ("docker", DOCKER_PONG, Answered("1.45")),
        ("docker", b"HTTP/1.1 200 OK\r\n\r\n", Answered("")),
        ("docker", b"HTTP/1.1 503 Busy\r\n\r\n", Failed("it answers 'HTTP/1.1 503 Busy'")),
        ("docker", SETTINGS, Failed("what answers is no container engine")),
        ("docker", b"", Failed("what answers is no container engine")),
        ("podman", PODMAN_PONG, Answered("1.41")),
        ("containerd", SETTINGS, Answered()),
        ("containerd", SETTINGS + b"more", Answered()),
        ("containerd", DOCKER_PONG, Failed("what answers is not containerd")),
        ("containerd", b"", Failed("what answers is not containerd")),
    ],
)
def test_who_is_there_is_told_by_the_answer(tmp_path: Path, driver: str, said: bytes, outcome: object) -> None:
    def answer(connection: socket.socket) -> None:
        with suppress(BrokenPipeError):  # who has heard enough hangs up
            for byte in said:  # in the smallest pieces
                connection.sendall(bytes((byte,)))

    with listening(tmp_path / "s", answer):
        assert probe({driver: str(tmp_path / "s")}, 10) == {driver: outcome}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_missing_permission_is_told_and_not_absence(sockets: dict[str, Path]) -> None:
    nobody = 65534
    sockets["podman"].parent.chmod(0o700)
    with listening(sockets["podman"]):
        os.seteuid(nobody)
        try:
            assert [(one.why, one.absent) for one in find_runtimes(["podman"])[1]] == [("no permission", False)]
            with pytest.raises(NoPermissionError) as raised:
                open_runtime("podman")
        finally:
            os.seteuid(0)
    assert "root" in raised.value.hint


def test_named_driver_must_answer(sockets: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnavailableError, match="podman does not answer at") as absent:
        open_runtime("podman")
    assert "systemctl start podman.socket" in absent.value.hint

    monkeypatch.setattr(drivers, "PATIENT_SECONDS", 0.05)
    with listening(sockets["docker"]), pytest.raises(NoAnswerError, match="no answer within 50 ms"):
        open_runtime("docker")


def test_unknown_driver_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no such driver: rkt") as raised:
        open_runtime("rkt")
    assert raised.value.hint == "there are podman, docker, containerd"


def test_socket_given_by_name_is_taken(tmp_path: Path) -> None:
    with run_fake_engine(tmp_path / "other.sock", "podman") as fake:
        runtime = open_runtime("podman", fake.socket)

        assert (runtime.driver, runtime.socket) == ("podman", fake.socket)
        assert runtime.fetch_version() == "5.4.2"


@pytest.mark.parametrize(
    ("driver", "variable", "value", "path"),
    [
        ("podman", "CONTAINER_HOST", "unix:///run/other.sock", "/run/other.sock"),
        ("podman", "CONTAINER_HOST", "ssh://root@host/run/podman.sock", "/run/podman/podman.sock"),
        ("docker", "DOCKER_HOST", "unix:///run/other.sock", "/run/other.sock"),
        ("docker", "DOCKER_HOST", "tcp://127.0.0.1:2375", "/run/docker.sock"),
        ("docker", "DOCKER_HOST", "", "/run/docker.sock"),
        ("containerd", "CONTAINERD_ADDRESS", "/run/k3s/containerd.sock", "/run/k3s/containerd.sock"),
    ],
)
def test_environment_may_name_another_unix_socket(driver: str, variable: str, value: str, path: str) -> None:
    assert socket_of(driver, {variable: value}) == path


def test_looking_for_runtimes_imports_nothing_heavy() -> None:
    code = (
        "import sys; from schedkit.runtimes.drivers import find_runtimes; find_runtimes();"
        "print(sorted({'grpc', 'google.protobuf', 'http.client', 'urllib3', 'ssl', 'asyncio'} & set(sys.modules)))"
    )
    # No runtime may answer there, or its driver would be imported.
    nowhere = dict.fromkeys(("CONTAINER_HOST", "DOCKER_HOST", "CONTAINERD_ADDRESS"), "/nonexistent/sock")
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **nowhere}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
