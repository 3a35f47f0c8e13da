"""`sked-wait` as a process, with a made-up kernel."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.kernel.roots import ATTACHED, FREE, write_sched_ext

PROGRAM = "import pathlib, sys; from schedkit.sked.agent.wait import main; main(pathlib.Path(sys.argv[1]))"
SECONDS = 60
Start = Callable[[Path], subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def begin(root: Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PROGRAM, str(root)]
        started.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_returns_at_once_where_nothing_is_attached(tmp_path: Path, start: Start) -> None:
    assert start(write_sched_ext(tmp_path, FREE)).wait(SECONDS) == 0


@pytest.mark.parametrize("state", ["enabled", "enabling", "disabling"])
def test_returns_when_the_scheduler_has_left(state: str, tmp_path: Path, start: Start) -> None:
    write_sched_ext(tmp_path, ATTACHED | {"state": state})
    process = start(tmp_path)
    time.sleep(1)
    assert process.poll() is None
    write_sched_ext(tmp_path, FREE)
    assert process.wait(SECONDS) == 0


def test_kernel_without_sched_ext_is_not_waited_for(tmp_path: Path, start: Start) -> None:
    (tmp_path / "sys/kernel").mkdir(parents=True)
    assert start(tmp_path).wait(SECONDS) == 0


def test_what_cannot_be_seen_is_told_and_not_waited_for(tmp_path: Path, start: Start) -> None:
    write_sched_ext(tmp_path, FREE | {"state": "a word that is not known"})
    process = start(tmp_path)
    assert process.wait(SECONDS) == 0
    assert process.stderr is not None
    assert "cannot see what the kernel has attached" in process.stderr.read()


def test_ends_when_its_pod_is_deleted(tmp_path: Path, start: Start) -> None:
    process = start(write_sched_ext(tmp_path, ATTACHED))
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) == 143
