"""The kernel's log as the lab's kernels wrote it."""

import os
from pathlib import Path

import pytest

from schedkit.kernel.log import Ejection, KernelLog, parse_ejection, parse_records
from schedkit.unknown import Unknown

STALL = """\
6,285,223672738,-;sched_ext: BPF scheduler "schedkit_stall" enabled
3,286,228260616,-;sched_ext: BPF scheduler "schedkit_stall" disabled (runnable task stall)
3,287,228263229,-;sched_ext: schedkit_stall: podman[105] failed to run for 3.508s
4,288,228264736,-;   scx_watchdog_workfn+0x11d/0x160
 SUBSYSTEM=workqueue
"""
SYSRQ = """\
6,298,233380754,-;sched_ext: BPF scheduler "schedkit_fifo" enabled
6,299,233972913,-;sysrq: Disable sched_ext and revert all tasks to CFS
6,300,234136123,-;sched_ext: BPF scheduler "schedkit_fifo" disabled (disabled by sysrq-S)
"""


@pytest.fixture
def kmsg(tmp_path: Path) -> Path:
    path = tmp_path / "dev/kmsg"
    path.parent.mkdir()
    path.write_text('6,1,1,-;sched_ext: BPF scheduler "before" disabled (runtime error)\n')
    return path


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_only_what_is_said_after_entering_counts(kmsg: Path, tmp_path: Path) -> None:
    with KernelLog(tmp_path) as log:
        assert log.read_lines() == []
        assert log.read_ejection() is None
        append(kmsg, STALL)
        assert log.read_ejection() == Ejection(
            "schedkit_stall", "runnable task stall", ("podman[105] failed to run for 3.508s",)
        )
        append(kmsg, SYSRQ)
        assert log.read_ejection() == Ejection("schedkit_fifo", "disabled by sysrq-S")
        lines = log.read_lines()

    assert isinstance(lines, list)
    assert lines[0] == 'sched_ext: BPF scheduler "schedkit_stall" enabled'
    assert len(lines) == 5


def test_what_was_said_before_a_start_can_be_forgotten(kmsg: Path, tmp_path: Path) -> None:
    with KernelLog(tmp_path) as log:
        append(kmsg, STALL)
        log.forget()
        assert (log.read_lines(), log.read_ejection()) == ([], None)
        append(kmsg, SYSRQ)
        assert log.read_ejection() == Ejection("schedkit_fifo", "disabled by sysrq-S")


def test_what_a_program_wrote_into_the_log_is_not_the_kernels_word() -> None:
    assert list(parse_records('12,9,9,-;sched_ext: BPF scheduler "x" disabled (runtime error)\ngarbage\n;;;\n')) == []


def test_details_of_another_scheduler_are_not_taken() -> None:
    lines = ['sched_ext: BPF scheduler "a" disabled (runtime error)', "sched_ext: b: something", "sched_ext: a: cause"]

    assert parse_ejection(lines) == Ejection("a", "runtime error", ("cause",))


@pytest.mark.parametrize("reason", ["runnable task stall", "runtime error", "scx_bpf_error", "reenqueue limit", "new"])
def test_errors_are_faults(reason: str) -> None:
    assert Ejection("x", reason).is_fault


@pytest.mark.parametrize(
    "reason",
    [
        "unregistered from user space",
        "unregistered from BPF",
        "unregistered from the main kernel",
        "disabled by sysrq-S",
        "parent exiting",
    ],
)
def test_orders_to_leave_are_no_faults(reason: str) -> None:
    assert not Ejection("x", reason).is_fault


def test_log_that_cannot_be_opened_is_unknown(tmp_path: Path) -> None:
    why = Unknown(f"{tmp_path}/dev/kmsg: No such file or directory")
    with KernelLog(tmp_path) as log:
        assert log.read_lines() == log.read_ejection() == why


def test_overrun_log_goes_on_and_says_unknown_only_where_it_matters(
    kmsg: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[bytes | OSError] = [BrokenPipeError(), b"6,9,9,-;other\n", BlockingIOError()]
    answers += [SYSRQ.encode(), BlockingIOError()]
    really_read = os.read

    def read(file: int, count: int) -> bytes:
        if os.fstat(file).st_ino != kmsg.stat().st_ino:  # a thread that another test has left
            return really_read(file, count)
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    with KernelLog(tmp_path) as log:
        monkeypatch.setattr("os.read", read)
        assert isinstance(log.read_ejection(), Unknown)
        assert log.read_ejection() == Ejection("schedkit_fifo", "disabled by sysrq-S")
