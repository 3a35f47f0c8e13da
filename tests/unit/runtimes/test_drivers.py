"""Who answers: absent, dead, silent and foreign sockets; real runtimes are met in tests/integration/runtimes."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from schedkit.errors import NoAnswerError, NoPermissionError, UnavailableError
from schedkit.runtimes.drivers import find_runtimes, find_socket
from schedkit.runtimes.known import DRIVERS
from schedkit.runtimes.probe import Answered, Failed, probe
from schedkit.runtimes.view import Runtimes
from tests.unit.runtimes.fake_engine import INSPECTED, run_fake_engine

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
    paths = {driver: tmp_path / f"{driver}.sock" for driver in DRIVERS}
    for driver, path in paths.items():
        monkeypatch.setenv(DRIVERS[driver].variable, str(path))
    return paths


def hidden(runtimes: Runtimes) -> list[tuple[str, str]]:
    return [(one.driver, one.why) for one in runtimes.hidden]


def test_no_socket_is_absent_and_costs_nothing(sockets: dict[str, Path]) -> None:
    begun = time.monotonic()
    runtimes = find_runtimes()
    assert time.monotonic() - begun < 2
    assert (runtimes.responding, runtimes.hidden) == ([], [])
    assert [(one.driver, one.socket, one.absent) for one in runtimes.unreachable] == [
        (driver, str(path), True) for driver, path in sockets.items()
    ]


def test_socket_that_refuses_is_not_absent_and_costs_nothing(sockets: dict[str, Path]) -> None:
    with listening(sockets["podman"]):
        pass
    begun = time.monotonic()
    assert hidden(find_runtimes()) == [("podman", "connection refused")]
    assert time.monotonic() - begun < 2


@pytest.mark.parametrize("driver", DRIVERS)
def test_socket_that_accepts_and_never_responds_is_not_absent(sockets: dict[str, Path], driver: str) -> None:
    with listening(sockets[driver]):
        runtimes = find_runtimes(seconds=0.2)
    assert hidden(runtimes) == [(driver, "no response within 0.2 s")]
    assert runtimes.hidden[0].error is NoAnswerError


def test_slow_runtime_is_waited_for_and_told_after_the_first_second(sockets: dict[str, Path]) -> None:
    """As podman is that systemd starts on demand, on a machine that has other things to do."""

    def answer_late(connection: socket.socket) -> None:
        time.sleep(1.5)
        connection.sendall(PODMAN_PONG)

    told: list[str] = []
    with listening(sockets["podman"], answer_late), run_fake_engine(sockets["docker"], "docker"):
        runtimes = find_runtimes(notice=told.append)
        assert [one.driver for one in runtimes] == ["podman", "docker"]
        assert runtimes.chosen.driver == "podman"
    assert told == [f"waiting for podman to respond at {sockets['podman']}"]


def test_quick_runtime_is_not_told_of(sockets: dict[str, Path]) -> None:
    told: list[str] = []
    with run_fake_engine(sockets["docker"], "docker"):
        assert find_runtimes(notice=told.append).chosen.driver == "docker"
    assert told == []


def test_full_queue_is_tried_again(sockets: dict[str, Path]) -> None:
    with listening(sockets["podman"]):
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(10)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(str(sockets["podman"]))

        begun = time.monotonic()
        assert hidden(find_runtimes(seconds=0.3)) == [("podman", "no response within 0.3 s")]
        assert time.monotonic() - begun >= 0.3
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
        runtimes = find_runtimes()

    assert [runtime.driver for runtime in runtimes] == ["podman", "docker"]
    assert [one.driver for one in runtimes.unreachable] == ["containerd"]


def test_podman_that_stands_in_for_docker_is_not_counted_twice(sockets: dict[str, Path]) -> None:
    with run_fake_engine(sockets["podman"], "podman"):
        sockets["docker"].symlink_to(sockets["podman"])
        runtimes = find_runtimes("docker")

        assert [runtime.driver for runtime in runtimes] == ["podman"]
        assert runtimes.hidden == []
        with pytest.raises(UnavailableError, match="podman responds there"):
            _ = runtimes.chosen


def test_choice_of_a_driver_hides_no_other(sockets: dict[str, Path]) -> None:
    with run_fake_engine(sockets["podman"], "podman"), run_fake_engine(sockets["docker"], "docker"):
        runtimes = find_runtimes("docker")
        assert runtimes.chosen.driver == "docker"
        assert [one.driver for one in runtimes] == ["podman", "docker"]


@pytest.mark.parametrize("there", [True, False])
def test_socket_that_the_user_names_and_that_is_dead_hides_only_its_runtime(
    sockets: dict[str, Path], tmp_path: Path, there: bool
) -> None:
    named = tmp_path / "named.sock"
    if there:
        with listening(named):
            pass
    with run_fake_engine(sockets["podman"], "podman"):
        runtimes = find_runtimes("containerd", {"containerd": str(named)})
        assert [one.driver for one in runtimes] == ["podman"]
        assert [(one.driver, one.socket) for one in runtimes.hidden] == [("containerd", str(named))]
        with pytest.raises(UnavailableError, match=f"containerd does not respond at {named}"):
            _ = runtimes.chosen


@pytest.mark.parametrize(
    ("driver", "said", "outcome"),
    [
        ("docker", DOCKER_PONG, Answered("1.45")),
        ("docker", b"HTTP/1.1 200 OK\r\n\r\n", Answered("")),
        ("docker", b"HTTP/1.1 503 Busy\r\n\r\n", Failed("it responds 'HTTP/1.1 503 Busy'")),
        ("docker", SETTINGS, Failed("not a container engine")),
        ("docker", b"", Failed("not a container engine")),
        ("podman", PODMAN_PONG, Answered("1.41")),
        ("containerd", SETTINGS, Answered()),
        ("containerd", SETTINGS + b"more", Answered()),
        ("containerd", DOCKER_PONG, Failed("not containerd")),
        ("containerd", b"", Failed("not containerd")),
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
            runtimes = find_runtimes("podman")
        finally:
            os.seteuid(0)
    assert ("podman", "permission denied") in hidden(runtimes)
    with pytest.raises(NoPermissionError) as raised:
        _ = runtimes.chosen
    assert raised.value.hint.startswith("sudo schedctl")


def test_named_driver_must_respond(sockets: dict[str, Path]) -> None:
    with pytest.raises(UnavailableError, match="podman does not respond at") as absent:
        _ = find_runtimes("podman").chosen
    assert "systemctl start podman.socket" in absent.value.hint

    with listening(sockets["docker"]), pytest.raises(NoAnswerError, match=r"no response within 0\.05 s"):
        _ = find_runtimes("docker", seconds=0.05).chosen


def test_nobody_who_responds_is_an_error_that_names_all(sockets: dict[str, Path]) -> None:
    with pytest.raises(UnavailableError, match=r"no container runtime responds \(podman: no such socket; docker: no "):
        _ = find_runtimes().chosen


def test_runtime_that_is_there_and_slow_is_not_passed_over(sockets: dict[str, Path]) -> None:
    with listening(sockets["podman"]), run_fake_engine(sockets["docker"], "docker"):
        with pytest.raises(NoAnswerError, match="podman is there and does not respond") as raised:
            _ = find_runtimes(seconds=0.2).chosen
        assert raised.value.hint == "restart it, or choose another runtime: --driver docker"
        assert find_runtimes("docker", seconds=0.2).chosen.driver == "docker"


def test_choice_stays_whatever_becomes_of_the_others(sockets: dict[str, Path]) -> None:
    with run_fake_engine(sockets["podman"], "podman"), run_fake_engine(sockets["docker"], "docker"):
        runtimes = find_runtimes()
        chosen = runtimes.chosen
        runtimes.hide(runtimes.responding[1], NoAnswerError("docker hangs"))
        assert runtimes.chosen is chosen


def test_socket_given_by_name_is_taken(sockets: dict[str, Path], tmp_path: Path) -> None:
    with run_fake_engine(tmp_path / "other.sock", "podman") as fake:
        runtime = find_runtimes("podman", {"podman": fake.socket}).chosen

        assert (runtime.driver, runtime.socket) == ("podman", fake.socket)
        assert runtime.fetch_version() == "5.4.2"


def test_runtime_that_responds_and_then_hangs_costs_one_short_wait(
    sockets: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedkit.runtimes.engine.LOOK_SECONDS", 1.3)
    told: list[str] = []
    with run_fake_engine(sockets["podman"], "podman") as hung, run_fake_engine(sockets["docker"], "docker") as docker:
        hung.hang_on("GET /containers/json")
        docker.on("GET /containers/json", 200, [{"Id": "c0ffee"}])
        docker.on("GET /containers/c0ffee/json", 200, INSPECTED)
        runtimes = find_runtimes(notice=told.append)
        begun = time.monotonic()
        for _ in range(3):
            assert [one.id for one in runtimes.fetch_containers()] == ["c0ffee"]
        assert time.monotonic() - begun < 4
        assert [one.driver for one in runtimes.hidden] == ["podman"]
        assert [one.path for one in hung.requests if "containers" in one.path][1:] == []
    assert told == ["waiting for podman to list containers"]


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
    assert find_socket(driver, {variable: value}) == path


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
