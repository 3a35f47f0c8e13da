"""A scheduler's output, followed while the daemon of its runtime restarts."""

import threading
import time
from pathlib import Path

import pytest

from schedkit.host.following import follow
from schedkit.host.lock import hold_lock
from schedkit.host.machine import Machine
from schedkit.host.model import Host
from schedkit.runtimes.container import Container, ContainerState
from schedkit.runtimes.view import Runtimes
from tests.integration.runtimes.bench import IDLE_ENDS, IDLE_SAYS, PATIENCE, Bench
from tests.unit.host.fakes import FakeProgress


class Follower:
    """`run --attach` of one container, in a thread."""

    def __init__(self, bench: Bench, container: Container, folder: Path) -> None:
        self.progress = FakeProgress()
        self.said = b""
        self.ended: Container | None = None
        self.host = Host(Machine(lock=folder / "run/lock"), Runtimes([bench.runtime]), self.progress)
        self.thread = threading.Thread(target=self._follow, args=(container,), daemon=True)
        self.thread.start()

    def wait_for(self, words: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while words.encode() not in self.said:
            assert time.monotonic() < deadline, self.said
            time.sleep(0.02)

    def _follow(self, container: Container) -> None:
        self.ended = follow(self.host, container, None, self._write)

    def _write(self, piece: bytes) -> None:
        self.said += piece


def test_scheduler_goes_on_and_is_followed_while_its_runtime_restarts(bench: Bench, tmp_path: Path) -> None:
    container = bench.start("followed")
    follower = Follower(bench, container, tmp_path)
    follower.wait_for(IDLE_SAYS)

    bench.daemon.kill()
    deadline = time.monotonic() + PATIENCE
    while not follower.progress.warnings:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert follower.thread.is_alive()
    if bench.runtime.driver != "docker":
        assert Path(f"/proc/{container.pid}").exists()
    bench.daemon.resume()

    if bench.runtime.driver != "docker":  # which ends its containers when it restarts, by default
        assert bench.runtime.fetch_container(container.id).state is ContainerState.RUNNING
        deadline = time.monotonic() + PATIENCE
        while not follower.progress.steps:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert bench.stop(container.id) in (0, 255)
    follower.thread.join(PATIENCE)

    assert not follower.thread.is_alive()
    assert "the scheduler keeps running, and" in follower.progress.warnings[0]
    assert follower.ended is not None
    assert follower.ended.id == container.id
    assert bench.runtime.fetch_containers() == []  # ended by itself, so removed
    if bench.runtime.driver != "docker":
        assert follower.said.decode() == IDLE_SAYS + IDLE_ENDS  # each word once


def test_one_that_somebody_removed_is_not_touched(bench: Bench, tmp_path: Path) -> None:
    container = bench.start("removed")
    follower = Follower(bench, container, tmp_path)
    follower.wait_for(IDLE_SAYS)
    with hold_lock(tmp_path / "run/lock"):
        bench.stop(container.id)
        time.sleep(0.5)
        assert [one.id for one in bench.runtime.fetch_containers()] == [container.id]
        bench.runtime.remove(container.id)
    follower.thread.join(PATIENCE)
    assert (follower.thread.is_alive(), follower.ended) == (False, None)


@pytest.mark.parametrize("follow", [True, False])
def test_output_of_one_that_runs_is_whole(bench: Bench, follow: bool) -> None:
    container = bench.start("whole")
    if follow:
        bench.wait_ready(container.id)
    assert bench.read_logs(container.id) == IDLE_SAYS
