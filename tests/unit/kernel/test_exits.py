"""What a scheduler says of its own end."""

import pytest

from schedkit.kernel.exits import SchedulerExit, parse_exit

STALL = 'ejected schedkit_stall: kind=1026 code=0 reason="runnable task stall" message="sh[214] failed to run for 5.1s"'


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (STALL, SchedulerExit(1026, "runnable task stall", "sh[214] failed to run for 5.1s")),
        ("EXIT: runnable task stall (watchdog)", SchedulerExit(1026, "runnable task stall", "watchdog")),
        ("12:00:01 [INFO] EXIT: scx_bpf_error (CPU 9)", SchedulerExit(1025, "scx_bpf_error", "CPU 9")),
        ("EXIT: runtime error", SchedulerExit(1024, "runtime error")),
        ("EXIT: unregistered from user space", None),
        ("EXIT: disabled by sysrq-S", None),
        ('ejected x: kind=64 code=0 reason="unregistered from user space" message=""', None),
        ("see the manual for what ejected means", None),
    ],
)
def test_faults_are_read_and_nothing_else_is(line: str, expected: SchedulerExit | None) -> None:
    assert parse_exit(["attached", line, "bye"]) == expected


def test_last_fault_counts_and_is_told_with_its_kind() -> None:
    found = parse_exit(["EXIT: runtime error", STALL])
    assert str(found) == "runnable task stall (kind 1026): sh[214] failed to run for 5.1s"
    assert str(parse_exit(["EXIT: runtime error"])) == "runtime error (kind 1024)"
