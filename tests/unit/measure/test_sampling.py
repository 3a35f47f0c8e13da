"""One run of a real command, as the kernel accounts for it."""

import os
import pwd
import sys
from pathlib import Path

import pytest

from schedkit.errors import NotFoundError, SchedkitError, UsageError
from schedkit.measure.metric import find_number, parse_metric
from schedkit.measure.model import METRIC, USED, WAKEUP, RunEnding
from schedkit.measure.probe import LatenessHistogram
from schedkit.measure.sampling import Taken, find_work, run_once
from schedkit.measure.workloads import WORKLOADS, find_workload

PYTHON = (sys.executable, "-I", "-S", "-c")


def take(*command: str, **settings: object) -> Taken:
    return run_once(find_work(command, os.environ, **settings))  # type: ignore[arg-type]


def test_a_run_has_all_quantities() -> None:
    taken = take("true")
    assert set(taken.values) == {one.name for one in USED}
    assert (taken.ending, taken.exit_code, taken.wakeups) == (RunEnding.MEASURED, 0, None)


def test_time_is_measured_and_told_apart() -> None:
    slept = take("sleep", "0.3").values
    assert 0.3 <= slept["wall_seconds"] < 60
    assert slept["user_seconds"] + slept["system_seconds"] < 0.2
    computed = take(*PYTHON, "sum(range(6_000_000))").values
    assert computed["user_seconds"] > slept["user_seconds"]


def test_memory_is_the_commands_own_and_not_that_of_who_starts_it() -> None:
    held = bytearray(200_000_000)  # this process is large when it starts the command
    held[::4096] = b"x" * len(held[::4096])
    assert take("true").values["peak_memory_bytes"] < 30e6
    assert take(*PYTHON, "x = b'x' * 100_000_000").values["peak_memory_bytes"] > 100e6


def test_what_children_take_counts_too() -> None:
    assert (
        take("sh", "-c", "for i in 1 2 3 4 5; do /bin/true; done").values["minor_faults"]
        > 2 * (take("true").values["minor_faults"])
    )


def test_a_command_that_waits_switches_of_its_own_will() -> None:
    taken = take("sh", "-c", "for i in 1 2 3 4 5 6 7 8; do sleep 0.01; done")
    assert taken.values["voluntary_switches"] >= 8


@pytest.mark.parametrize(
    ("script", "code", "why"),
    [("echo 1; echo 2 >&2; exit 3", 3, "exit code 3"), ("kill -KILL $$", -9, "ended by SIGKILL")],
)
def test_a_failure_is_no_number(script: str, code: int, why: str) -> None:
    taken = take("sh", "-c", script)
    assert (taken.ending, taken.exit_code, why in taken.why) == (RunEnding.FAILED, code, True)
    assert taken.lines == (("1", "2") if code == 3 else ())


def test_a_program_that_is_not_there_is_found_out_before() -> None:
    with pytest.raises(NotFoundError, match="no such program: no-such-program"):
        find_work(["no-such-program"], os.environ)


def test_a_program_that_is_none_is_an_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    with pytest.raises(SchedkitError, match="could not be started"):
        take(str(broken))


def test_the_command_gets_our_environment_and_folder_and_no_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLOUR", "42")
    monkeypatch.chdir(tmp_path)
    metric = parse_metric("colour ([0-9]+)", None)
    script = f'read line && exit 1; [ "$PWD" = {tmp_path} ] && echo colour $COLOUR'
    assert take("sh", "-c", script, metric=metric).values[METRIC] == 42


def test_the_command_gets_signals_as_a_shell_gives_them() -> None:
    """Python ignores SIGPIPE, and whoever it starts would: then `yes | head` goes another way than on a terminal."""
    metric = parse_metric("SigIgn:\\s*[0-9a-f]{12}([0-9a-f])", None)
    assert take("grep", "SigIgn", "/proc/self/status", metric=metric).values[METRIC] == 0


def test_much_output_stops_nobody() -> None:
    taken = take("sh", "-c", "head -c 80000000 /dev/zero; echo; echo Time: 7", metric=parse_metric("Time: (.*)", None))
    assert taken.values[METRIC] == 7


def test_the_command_runs_as_the_user_that_is_named() -> None:
    nobody = pwd.getpwnam("nobody")
    metric = parse_metric("uid ([0-9]+)", None)
    taken = take(
        "sh", "-c", '[ "$USER" = nobody ] && [ "$(id -g)" != 0 ] && echo uid $(id -u)', user="nobody", metric=metric
    )
    assert taken.values[METRIC] == nobody.pw_uid
    with pytest.raises(NotFoundError, match="no such user"):
        find_work(["true"], os.environ, user="no-such-user")


def test_wake_ups_are_measured_beside_the_command() -> None:
    taken = take("sleep", "0.3", latency=True)
    assert set(taken.values) == {one.name for one in (*USED, *WAKEUP)}
    p50, p99, largest = (taken.values[one.name] for one in WAKEUP)
    assert 0 < p50 <= p99 <= largest < 60
    assert taken.wakeups is not None
    assert taken.wakeups > 10


def test_percentiles_of_wake_ups_are_right_to_about_a_percent() -> None:
    histogram = LatenessHistogram()
    for number in range(1, 10_001):
        histogram.add(number * 1000)
    assert histogram.find(0.5) == pytest.approx(5_000_000, rel=0.011)
    assert histogram.find(0.99) == pytest.approx(9_900_000, rel=0.011)
    assert histogram.find(1.0) == pytest.approx(10_000_000, rel=0.011)
    assert histogram.largest == 10_000_000


@pytest.mark.parametrize(
    ("pattern", "output", "number"),
    [
        (r"Time: ([\d.]+)", "Time: 1.5\nTime: 2.5\n", 2.5),
        (r"\d+ ops", "", "matches nothing"),
        (r"^\d+$", "a\n17\nb", 17.0),
        (r"rate=(\S+)", "rate=1,234,567.5", 1234567.5),
        (r"rate=(\S+)", "rate=fast", "'fast', which is not a number"),
        (r"rate=(\S+)", "rate=nan", "not a finite number"),
        (r"rate=(\S+)", "rate=1e3", 1000.0),
        (r"a|rate=(\S+)", "a", "not a number"),
    ],
)
def test_a_number_is_found_in_the_output(pattern: str, output: str, number: float | str) -> None:
    found = find_number(parse_metric(pattern, None), output)
    assert (number in found) if isinstance(number, str) and isinstance(found, str) else found == number


@pytest.mark.parametrize("pattern", ["(", "(a)(b)"])
def test_a_pattern_that_cannot_be_meant_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError, match="--metric"):
        parse_metric(pattern, None)


def test_the_workload_that_needs_nothing_works(monkeypatch: pytest.MonkeyPatch) -> None:
    command, metric = find_workload("mixed")
    taken = run_once(find_work([*command, "20000"], {}, metric=metric))
    assert taken.ending is RunEnding.MEASURED
    assert taken.values[METRIC] > 0


# What the tools printed: hackbench of rt-tests 2.4, stress-ng 0.15.06, sysbench 1.0.20, perf 6.1.
PRINTED = {
    "hackbench": ("Running in process mode with 2 groups using 40 file descriptors each\nTime: 1.419\n", 1.419),
    "stress-ng": (
        "stress-ng: metrc: [1047] stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/s\n"
        "stress-ng: metrc: [1047] switch           387479      2.00      0.14      1.17    193678.10      295044.06\n"
        "stress-ng: metrc: [1047] switch             10322.10 nanosecs per context switch (pipe method)\n",
        193678.10,
    ),
    "sysbench": ("General statistics:\n    total number of events:              4125\n", 4125.0),
    "perf-pipe": ("# Executed 200000 pipe operations\n\n     Total time: 1.038 [sec]\n", 1.038),
    "perf-messaging": ("# 20 sender and receiver processes per group\n\n     Total time: 0.214 [sec]\n", 0.214),
}


@pytest.mark.parametrize("name", PRINTED)
def test_numbers_of_known_workloads_are_found(name: str) -> None:
    workload = WORKLOADS[name]
    output, number = PRINTED[name]
    assert find_number(parse_metric(workload.metric, workload.better), output) == number


def test_a_workload_whose_tool_is_missing_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(SchedkitError, match="hackbench, which is not installed") as caught:
        find_workload("hackbench")
    assert "rt-tests" in caught.value.hint
