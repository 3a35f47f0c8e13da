"""The commands that tell, the scheduler that is not ours, and the real ones; the runtime is whichever answers first."""

import json
from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.schedctl import PYTHON
from tests.documents import missing, undocumented
from tests.e2e.conftest import Slot, read_slot, wait_attached, wait_detached
from tests.e2e.runtimes import REGISTRY, run_by_hand
from tests.e2e.schedctl import SECONDS, SETTINGS, Schedctl

EVENTS, WAITED = "/tmp/events.log", "/tmp/waited.log"  # noqa: S108  (in the guest)


@pytest.fixture(scope="module")
def schedctl(machine: Machine) -> Iterator[Schedctl]:
    schedctl = Schedctl.install(machine)
    yield schedctl
    schedctl.run("stop --all")


@pytest.fixture
def foreign(schedctl: Schedctl) -> Iterator[None]:
    """A scheduler that somebody started by hand: its container has no label of ours."""
    run_by_hand(schedctl.machine, "scx_fifo:v2", "by-hand")
    wait_attached(schedctl.machine, "schedkit_fifo2")
    yield
    schedctl.machine.run("podman rm -f -t 5 by-hand", timeout=SECONDS)
    wait_detached(schedctl.machine)


def test_what_was_pulled_is_marked_in_list_and_versions(schedctl: Schedctl) -> None:
    pulled = schedctl.read("pull scx_fifo")
    rows = {row["name"]: row for row in schedctl.read("list")["schedulers"]}
    assert (rows["scx_fifo"]["pulled"], rows["scx_fifo"]["attached"]) == (True, False)
    assert rows["scx_lavd"]["pulled"] is False  # of the built-in catalog
    versions = {row["tag"]: row for row in schedctl.read("versions scx_fifo")["versions"]}
    assert set(versions) == {"v1", "v2"}
    assert versions["v1"] == {"tag": "v1", "digest": pulled["digest"], "here": True}


def test_info_tells_the_labels_and_that_this_kernel_meets_them(schedctl: Schedctl) -> None:
    info = schedctl.read("info scx_rusty")
    assert (info["title"], info["image_version"], info["kernel_min_version"]) == ("scx_rusty", "1.1.4", "6.12")
    assert (info["kernel"]["fits"], info["platforms"]) == (True, ["linux/amd64"])
    assert info["size"] > 1_000_000


def test_without_consent_nothing_unsigned_runs_or_is_pulled(schedctl: Schedctl) -> None:
    machine = schedctl.machine
    strict = SETTINGS.replace("SCHEDCTL_ALLOW_UNSIGNED=1", "")
    for command in ("run scx_bpfland", "pull scx_bpfland"):
        result = machine.run(f"{strict} schedctl {command}", check=False, timeout=SECONDS)
        assert result.code == 21
        assert "--allow-unsigned" in result.stderr
    assert "scx_bpfland" not in machine.run("podman images").stdout


def test_a_scheduler_started_by_hand_is_told_refused_and_detached(schedctl: Schedctl, foreign: None) -> None:
    status = schedctl.read("status", code=2)
    assert status["status"] == "orphaned-kernel-state"
    assert status["holder"]["command"] == "scx_fifo"
    assert "schedctl detach" in status["remedy"]

    for command in ("run", "switch", "run --replace"):
        refused = schedctl.run(f"{command} scx_fifo", code=10).stderr
        assert f"process {status['holder']['pid']} (scx_fifo)" in refused
        assert "schedctl detach" in refused

    assert "--yes" in schedctl.run("detach </dev/null", code=64).stderr
    assert read_slot(schedctl.machine).state == "enabled"

    detached = schedctl.read("detach --yes")
    assert detached["ops"] == "schedkit_fifo2"
    assert read_slot(schedctl.machine) == Slot("disabled", "")


def test_detach_asks_on_a_terminal_and_takes_no_for_an_answer(schedctl: Schedctl, foreign: None) -> None:
    ask = f"script -qec '{schedctl.line('detach')}' /dev/null"
    assert schedctl.machine.run(f"echo n | {ask}", check=False, timeout=SECONDS).code == 130
    assert read_slot(schedctl.machine).state == "enabled"
    assert schedctl.machine.run(f"echo y | {ask}", check=False, timeout=SECONDS).code == 0
    assert read_slot(schedctl.machine) == Slot("disabled", "")


def test_doctor_finds_nothing_blocking_here(schedctl: Schedctl) -> None:
    report = schedctl.read("doctor --offline")
    outcomes = {check["id"]: check["outcome"] for check in report["checks"]}
    assert report["summary"]["blocking"] == 0
    assert {outcomes[f"runtime.{name}_socket"] for name in ("podman", "docker", "containerd")} == {"ok"}
    assert outcomes["kernel.sched_ext"] == "ok"


def test_completion_is_bash_and_offers_names(schedctl: Schedctl) -> None:
    assert schedctl.machine.run("schedctl completion bash | bash -n", timeout=SECONDS).code == 0
    assert complete(schedctl, "schedctl", "run", "scx_ru") == ["scx_rustland", "scx_rusty"]


def complete(schedctl: Schedctl, *words: str) -> list[str]:
    """What bash is offered for the last word."""
    asked = f"_SCHEDCTL_COMPLETE=bash_complete COMP_WORDS='{' '.join(words)}' COMP_CWORD={len(words) - 1}"
    # What is not there in time for a person who waits is left out, and an emulated machine is slow.
    patient = f"from schedkit.schedctl import completing, main; completing.RESPONSE_SECONDS = {SECONDS}; main.main()"
    said = schedctl.machine.run(f'{SETTINGS} {asked} {PYTHON} -c "{patient}"', timeout=SECONDS).stdout
    return [entry.partition(",")[2] for entry in said.split()]


def test_real_schedulers_switch_there_and_back_and_serve_statistics(schedctl: Schedctl) -> None:
    assert schedctl.read("run scx_rusty --timeout 60")["container"]["ops"].startswith("rusty")
    assert complete(schedctl, "schedctl", "stop", "scx_") == ["scx_rusty"]
    samples = [json.loads(line) for line in schedctl.run("watch -o json --count 3").stdout.splitlines()]
    assert len(samples) == 3
    assert {sample["kernel"]["state"] for sample in samples} == {"enabled"}
    assert all(sample["uptime_seconds"] > 0 for sample in samples)
    assert any(isinstance(sample["stats"], dict) and "unknown" not in sample["stats"] for sample in samples)
    assert len(schedctl.run("watch --count 2").stdout.splitlines()) == 2

    there = schedctl.read("switch scx_bpfland --timeout 60")
    assert there["container"]["ops"].startswith("bpfland")
    back = schedctl.run("switch scx_rusty --timeout 60").stdout
    assert "; gap " in back
    schedctl.run("stop")
    assert read_slot(schedctl.machine) == Slot("disabled", "")


@pytest.mark.parametrize("name", ["scx_rusty", "scx_bpfland"])
def test_real_schedulers_attach_without_privileges(schedctl: Schedctl, name: str) -> None:
    ran = schedctl.read(f"run {name} --unprivileged --timeout 60")["container"]
    assert ran["ops"].startswith(name.removeprefix("scx_"))
    (one,) = schedctl.read("ps")["containers"]
    assert (one["privileged"], one["attached"]) == (False, "yes")
    schedctl.run("stop")


def test_events_tell_lives_with_whose_they_were_and_wait_sees_the_same(schedctl: Schedctl) -> None:
    schedctl.run("run scx_fifo")
    schedctl.run("stop")
    process = schedctl.start("events --since 1h -o json", EVENTS)
    schedctl.wait_for_word(EVENTS, '"event": "detached"')  # of before: now it listens
    begun = len(schedctl.machine.run(f"cat {EVENTS}").stdout.splitlines())

    schedctl.run("run scx_fifo")
    assert schedctl.read("wait scx_fifo --timeout 60")["kernel"]["ops"] == "schedkit_fifo"
    assert "was not detached" in schedctl.run("wait --for detached --timeout 0.5", code=124).stderr
    schedctl.run("stop")
    assert schedctl.read("wait --for detached --timeout 60")["kernel"]["state"] == "disabled"
    schedctl.start("wait --timeout 170 --for ejected", WAITED)
    schedctl.run("run scx_stall --attach -- 10", code=12)
    code, said = schedctl.wait_for_end(WAITED)
    assert (code, "schedkit_stall" in said, "stall" in said.rpartition("schedkit_stall")[2]) == (0, True, True)

    schedctl.wait_for_word(EVENTS, '"event": "ejected"')
    schedctl.machine.run(f"kill -INT {process}")
    code, said = schedctl.wait_for_end(EVENTS)
    assert code == 0
    # What waits for a runtime says so on stderr, which is in the same file.
    events = [json.loads(line) for line in said.splitlines()[begun:] if line.startswith("{")]
    assert [(one["event"], one["ops"]) for one in events] == [
        ("attached", "schedkit_fifo"),
        ("detached", "schedkit_fifo"),
        ("attached", "schedkit_stall"),
        ("ejected", "schedkit_stall"),
    ]
    gone = {"unknown": "it was detached before it could be examined"}  # nobody gets the processor from one that stalls
    assert [one["managed"] for one in events[:2]] == [True, True]
    assert all(one["managed"] in (True, gone) for one in events[2:])
    assert {one["container"]["name"] for one in events if one["managed"] is True} - {"scx_stall"} == {"scx_fifo"}
    assert [one["reason"] for one in events][::2] == [None, None]
    assert (events[1]["reason"], events[3]["reason"]) == ("unregistered from user space", "runnable task stall")
    assert all(undocumented("events", one) == [] and missing("events", one) == [] for one in events)


def test_an_image_of_a_repository_nobody_knows_is_not_found(schedctl: Schedctl) -> None:
    assert "scx_rusty" in schedctl.run("run scx_rusti", code=66).stderr
    assert "error:" in schedctl.run(f"run {REGISTRY}/scx_nothing", code=66).stderr
