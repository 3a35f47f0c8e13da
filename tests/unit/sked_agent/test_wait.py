"""`sked-wait` as a process, with a made-up kernel."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.kernel.roots import ATTACHED, FREE, write_sched_ext

PROGRAM = """
import pathlib, sys
from schedkit.sked.agent.wait import main
root = pathlib.Path(sys.argv.pop(1))
main(root, root / "waited")
"""
SECONDS = 60
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def begin(root: Path, *more: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PROGRAM, str(root), *more]
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


def test_pod_waits_once_though_its_kubelet_probes_again(tmp_path: Path, start: Start) -> None:
    assert start(write_sched_ext(tmp_path, FREE)).wait(SECONDS) == 0
    write_sched_ext(tmp_path, ATTACHED)
    assert start(tmp_path).wait(SECONDS) == 0, "what is attached now is its own scheduler"


def test_one_that_cannot_note_that_it_waited_returns_all_the_same(tmp_path: Path, start: Start) -> None:
    (tmp_path / "waited").symlink_to(tmp_path / "not/there")
    assert start(write_sched_ext(tmp_path, FREE)).wait(SECONDS) == 0


def test_ends_at_once_when_its_pod_is_deleted(tmp_path: Path, start: Start) -> None:
    process = start(write_sched_ext(tmp_path, ATTACHED))
    time.sleep(1)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) == 143


def test_sidecar_sleeps_until_its_pod_ends(tmp_path: Path, start: Start) -> None:
    process = start(write_sched_ext(tmp_path, FREE), "--stay")
    time.sleep(1)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) == 0
