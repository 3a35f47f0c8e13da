"""Every command of schedctl that acts, on a real kernel: one life with each runtime, each way to fail with one of them.

That the runtimes do the same is what tests/integration/runtimes proves, claim by claim.
"""

import re
from collections.abc import Iterator

import pytest

from lab.machine import Machine
from tests.e2e.conftest import Slot, read_slot
from tests.e2e.runtimes import REGISTRY
from tests.e2e.schedctl import Schedctl

LOG = "/tmp/schedctl.log"  # noqa: S108  (in the guest)
FIFO, FIFO2 = "schedkit_fifo", "schedkit_fifo2"


@pytest.fixture(scope="module")
def installed(machine: Machine) -> Schedctl:
    return Schedctl.install(machine)


# By the runtimes' own command lines: who else could say that schedctl leaves nothing.
OURS = {
    "podman": "podman ps -aq --filter label=provider=schedkit",
    "docker": "docker ps -aq --filter label=provider=schedkit",
    "containerd": "ctr -n schedkit containers ls -q",
}


@pytest.fixture(params=list(OURS))
def schedctl(installed: Schedctl, request: pytest.FixtureRequest) -> Iterator[Schedctl]:
    """With one driver; what a test leaves is stopped, and then nothing may be there."""
    schedctl = Schedctl(installed.machine, request.param)
    yield schedctl
    if list_ours(schedctl):
        schedctl.run("stop --all --timeout 1")
    assert_nothing_left(schedctl)


def list_ours(schedctl: Schedctl) -> list[str]:
    return schedctl.machine.run(OURS[schedctl.driver]).stdout.split()


def assert_nothing_left(schedctl: Schedctl) -> None:
    assert list_ours(schedctl) == []
    assert read_slot(schedctl.machine) == Slot("disabled", "")


def assert_tracefs_is_read_only(schedctl: Schedctl, pid: int) -> None:
    """Some schedulers look up the kernel's tracers and events in it, as the file system of that name; none writes."""
    seen = schedctl.machine.run(f"grep ' /sys/kernel/tracing ' /proc/{pid}/mountinfo").stdout.split()
    assert "ro" in seen[5].split(",")
    assert seen[seen.index("-") + 1] == "tracefs"
    assert "nop" in schedctl.machine.run(f"cat /proc/{pid}/root/sys/kernel/tracing/available_tracers").stdout


def only(driver: str) -> pytest.MarkDecorator:
    """For what does not depend on the runtime: the tests take turns."""
    return pytest.mark.parametrize("schedctl", [driver], indirect=True)


@only("podman")
def test_one_life_from_run_over_switch_to_stop(schedctl: Schedctl) -> None:
    ran = schedctl.read("run scx_fifo --name mine --env COLOUR=blue")["container"]
    assert (ran["ops"], ran["driver"]) == (FIFO, schedctl.driver)
    assert read_slot(schedctl.machine) == Slot("enabled", FIFO)

    (one,) = schedctl.read("ps")["containers"]
    assert (one["id"], one["name"], one["attached"], one["state"]) == (ran["id"], "mine", "yes", "running")
    assert (one["image"], one["verified"]) == (f"{REGISTRY}/scx_fifo:v1", "unsigned-allowed")
    assert_tracefs_is_read_only(schedctl, one["pid"])
    assert "COLOUR=blue" in schedctl.machine.run(f"tr '\\0' '\\n' </proc/{one['pid']}/environ").stdout.split()

    status = schedctl.read("status")
    assert (status["status"], status["kernel"]["ops"], status["discrepancy"]) == ("running", FIFO, None)
    assert status["scheduler"]["container_id"] == one["id"]

    refused = schedctl.run("run scx_fifo", code=10).stderr
    assert FIFO in refused
    assert "mine" in refused
    assert "schedctl switch" in refused

    there = schedctl.run(f"switch {REGISTRY}/scx_fifo:v2").stdout
    assert re.search(rf"attached as {FIFO2}.*in place of mine; gap [\d.]+ m?s", there)
    back = schedctl.read("switch scx_fifo")
    assert (back["container"]["ops"], back["gap_seconds"] > 0) == (FIFO, True)

    assert "error:" in schedctl.run("switch scx_reject", code=15).stderr
    assert read_slot(schedctl.machine) == Slot("enabled", FIFO)
    assert len(list_ours(schedctl)) == 1
    assert f"attached {FIFO}" in schedctl.run(f"logs {back['container']['id'][:6]} --tail 5").stdout

    (stopped,) = schedctl.read("stop --timeout 120")["stopped"]
    assert (stopped["was_attached"], stopped["killed"]) == (True, False)
    assert_nothing_left(schedctl)
    schedctl.run("stop", code=66)
    assert schedctl.read("status")["status"] == "idle"


@pytest.mark.parametrize("schedctl", ["docker", "containerd"], indirect=True)
def test_short_life_with_the_other_runtimes(schedctl: Schedctl) -> None:
    ran = schedctl.read("run scx_fifo")["container"]
    assert (ran["ops"], ran["driver"]) == (FIFO, schedctl.driver)
    assert schedctl.run("stop --dry-run").stdout.startswith("would stop and remove the container scx_fifo")
    assert "would stop and remove the container scx_fifo" in schedctl.run("switch scx_stall --dry-run").stdout
    assert "would start the container scx_fifo" in schedctl.run("restart --dry-run").stdout
    (one,) = schedctl.read("ps")["containers"]
    assert one["id"] == ran["id"]
    assert_tracefs_is_read_only(schedctl, one["pid"])
    assert f"attached {FIFO}" in schedctl.run("logs --since 1h").stdout
    assert schedctl.run("logs --since 2100-01-01T00:00:00Z").stdout == ""

    there = schedctl.read(f"switch {REGISTRY}/scx_fifo:v2")
    assert (there["container"]["ops"], there["container"]["driver"]) == (FIFO2, schedctl.driver)
    status = schedctl.read("status")
    (one,) = status["managed"]
    assert (one["id"], one["attached"], one["state"]) == (there["container"]["id"], "yes", "running")
    # Which container it is says the process that holds the slot, by its cgroup.
    assert (status["holder"]["pid"], status["holder"]["container"]) == (one["pid"], one["id"])

    (stopped,) = schedctl.read("stop --timeout 120")["stopped"]
    assert (stopped["was_attached"], stopped["killed"]) == (True, False)
    assert_nothing_left(schedctl)


def test_replacing_takes_the_slot_and_the_name(schedctl: Schedctl) -> None:
    first = schedctl.read("run scx_fifo --name mine --replace")
    assert (first["container"]["name"], first["replaced"], first["gap_seconds"]) == ("mine", None, None)
    then = schedctl.read(f"run {REGISTRY}/scx_fifo:v2 --name mine --replace")
    assert (then["container"]["name"], then["container"]["ops"]) == ("mine", FIFO2)
    assert (then["replaced"]["id"], then["gap_seconds"] > 0) == (first["container"]["id"], True)
    assert schedctl.run("ps --format '{{.name}} {{.attached}}'").stdout == "mine yes\n"
    assert re.search(rf"^2\d\d\d-\d\d-\d\dT\S+ .*attached {FIFO2}$", schedctl.run("logs -t").stdout, re.MULTILINE)


def test_scheduler_attaches_without_privileges(schedctl: Schedctl) -> None:
    ran = schedctl.read("run scx_fifo --unprivileged")["container"]
    assert (ran["ops"], ran["driver"]) == (FIFO, schedctl.driver)
    (one,) = schedctl.read("ps")["containers"]
    assert (one["privileged"], one["attached"]) == (False, "yes")
    process = f"/proc/{one['pid']}"
    status = schedctl.machine.run(f"cat {process}/status").stdout
    for name in ("CapEff", "CapPrm", "CapBnd"):
        assert re.search(rf"^{name}:\s+000000c000200000$", status, re.MULTILINE)  # BPF, PERFMON, SYS_ADMIN
    assert re.search(r"^NoNewPrivs:\s+1$", status, re.MULTILINE)
    limits = schedctl.machine.run(f"cat {process}/limits").stdout
    assert re.search(r"^Max locked memory\s+unlimited\s+unlimited", limits, re.MULTILINE)
    assert schedctl.machine.run(f"find {process}/root/dev -type b").stdout == ""
    assert re.search(r" /sys ro,", schedctl.machine.run(f"cat {process}/mountinfo").stdout)
    assert_tracefs_is_read_only(schedctl, one["pid"])


@pytest.mark.parametrize(
    ("schedctl", "words", "code", "said"),
    [
        ("podman", "run scx_reject", 11, ["verifier refused its program: R3 unbounded memory access"]),
        ("docker", "run scx_idle --timeout 3", 13, ["attach", "idle: schedkit_idle never attaches"]),
        ("containerd", "run scx_stall --attach -- 1", 12, ["stall"]),
        ("podman", "run scx_mortal --attach -- 10", 1, ["exit code 3"]),
    ],
    ids=["rejected", "never-attaches", "ejected", "dies-later"],
    indirect=["schedctl"],
)
def test_what_goes_wrong_is_explained_and_leaves_nothing(
    schedctl: Schedctl, words: str, code: int, said: list[str]
) -> None:
    stderr = schedctl.run(words, code=code).stderr
    assert [one for one in said if one not in stderr] == []
    assert_nothing_left(schedctl)


@only("docker")
def test_one_that_ignores_sigterm_is_killed_and_detached(schedctl: Schedctl) -> None:
    schedctl.run("run scx_stubborn")
    (stopped,) = schedctl.read("stop scx_stubborn --timeout 1")["stopped"]
    assert (stopped["killed"], stopped["was_attached"]) == (True, True)
    assert read_slot(schedctl.machine) == Slot("disabled", "")


@only("containerd")
def test_while_it_waits_others_are_told_and_ctrl_c_leaves_nothing(schedctl: Schedctl) -> None:
    process = schedctl.start("run --timeout 170 scx_idle", LOG)
    schedctl.wait_for_word(LOG, "waiting for the kernel")
    assert f"process {process} (" in schedctl.run("stop", code=75).stderr  # who is at work
    schedctl.machine.run(f"kill -INT {process}")
    code, said = schedctl.wait_for_end(LOG)
    assert (code, "interrupted" in said) == (130, True)
    assert_nothing_left(schedctl)


@only("containerd")
def test_attached_run_shows_the_output_and_ctrl_c_stops_it(schedctl: Schedctl) -> None:
    process = schedctl.start("run --attach scx_fifo", LOG)
    schedctl.wait_for_word(LOG, f"attached {FIFO}\n")
    assert read_slot(schedctl.machine) == Slot("enabled", FIFO)
    schedctl.machine.run(f"kill -INT {process}")
    assert schedctl.wait_for_end(LOG)[0] == 0
    assert_nothing_left(schedctl)


@only("podman")
def test_no_wait_returns_at_once_and_status_tells_the_rest(schedctl: Schedctl) -> None:
    schedctl.run("run --no-wait scx_idle")
    status = schedctl.read("status", code=2)
    assert status["status"] == "managed-detached"
    assert "schedctl" in status["remedy"]
