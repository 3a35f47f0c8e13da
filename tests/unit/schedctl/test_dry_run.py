"""--dry-run: all checks, sentences, and nothing done; tests/e2e/test_schedctl.py has it on a real kernel."""

import json
from pathlib import Path
from typing import Any

import pytest

from schedkit.errors import NotFoundError, SchedkitError
from schedkit.host import lasting, managed, run, switch, systemd, trial
from schedkit.host.detaching import Foreign
from schedkit.host.errors import SlotTakenError
from schedkit.host.machine import Machine
from schedkit.host.trial_state import Before, Phase, Trial, read_clock, read_trial, write_trial
from schedkit.host.units import ENABLED, FILES, RERUN, Choice, render_unit
from schedkit.kernel.detach import Way
from schedkit.kernel.state import KernelState, State
from schedkit.runtimes.container import ContainerState
from schedkit.runtimes.labels import Label
from schedkit.schedctl import session as sessions
from schedkit.schedctl.commands import detach
from tests.documents import missing, undocumented
from tests.unit.schedctl.fakes import (
    DIGEST,
    HOLDER,
    ID,
    KERNEL,
    MANAGED,
    OBSERVED,
    FakeRegistry,
    FakeRuntime,
    make_container,
)
from tests.unit.schedctl.runner import call, note

IMAGE = "ghcr.io/schedkit/scx_rusty:latest"
PULLED = f"use {IMAGE}, which podman has already"


BEFORE = Before("podman", "feed", "old", "scx_old", attached=True, unit=None)
TRIAL = Trial("0123", "scx_rusty", "podman", 600.0, read_clock() + 600, BEFORE, Phase.ON)


@pytest.fixture(autouse=True)
def machine(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    """One on which everything that changes something fails."""
    machine = Machine(root=tmp_path / "root", lock=tmp_path / "lock")
    (machine.root / "run/systemd/system").mkdir(parents=True)
    monkeypatch.setattr(sessions, "Machine", lambda: machine)
    monkeypatch.setattr("schedkit.host.preparing.observe", lambda *_: OBSERVED)
    runtime.containers = []
    done = AssertionError("this changes something")
    for module, name in ((run, "run"), (switch, "switch"), (systemd, "call"), (systemd, "stop_unit")):
        note(monkeypatch, module, name, done)
    for name in ("pull", "create", "start", "signal", "remove", "remove_image"):
        note(monkeypatch, runtime, name, done)
    return machine


def plan(*words: str, code: int = 0) -> Any:
    document = json.loads(call(words[0], "--dry-run", "-o", "json", *words[1:], code=code).stdout)
    assert undocumented("COMMAND --dry-run", document) == []
    assert missing("COMMAND --dry-run", document) == []
    assert document["dry_run"] is True
    return document


def test_run_says_what_it_would_do() -> None:
    document = plan("run", "scx_rusty", "--allow-unsigned", "--", "--slice", "20 us")
    assert document["steps"] == [
        PULLED,
        "create the container scx_rusty in podman, with --slice '20 us'",
        "start scx_rusty, and wait up to 30s for the kernel to attach it",
    ]
    assert (document["scheduler"], document["image"], document["digest"]) == ("scx_rusty", IMAGE, DIGEST)
    assert document["verified"] == "unsigned-allowed"
    text = call("run", "scx_rusty", "--allow-unsigned", "--dry-run").stdout
    assert text.splitlines()[0] == f"would {PULLED}"
    assert all(line.startswith("would ") for line in text.splitlines())


def test_what_is_not_here_would_be_pulled(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "fetch_digests", frozenset)
    monkeypatch.setattr(FakeRegistry, "find_sources", lambda *_: [])
    steps = plan("run", "scx_rusty", "--allow-unsigned", "--no-wait")["steps"]
    assert (steps[0], steps[-1]) == (f"pull {IMAGE} (2.0 kB) with podman", "start scx_rusty")


def test_a_leftover_and_a_taken_name_are_told(runtime: FakeRuntime) -> None:
    runtime.containers = [make_container(state=ContainerState.EXITED)]
    steps = plan("run", "scx_rusty", "--allow-unsigned")["steps"]
    assert steps[1] == "remove the container scx_rusty, left over from before"
    runtime.containers = [make_container()]
    steps = plan("run", "scx_rusty", "--allow-unsigned")["steps"]
    assert "create the container scx_rusty-2 in podman" in steps


def test_replacing_is_told_with_its_name(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime.containers = [make_container(name="mine")]
    note(monkeypatch, switch, "check_switch", MANAGED._replace(container=runtime.containers[0]))
    words = ("run", "scx_rusty", "--allow-unsigned", "--name", "mine", "--unprivileged")
    call(*words, "--dry-run", code=17)
    assert plan(*words, "--replace")["steps"][1:] == [
        "create the container mine-2 in podman without privileges",
        f"stop and remove the container mine (podman {ID[:12]})",
        "start mine-2, and wait up to 30s for the kernel to attach it",
        "rename it to mine",
    ]


def test_what_would_fail_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    call("run", "scx_rusty", "--dry-run", code=21)  # not signed
    note(monkeypatch, run, "check_run", SlotTakenError("taken"))
    call("run", "scx_rusty", "--allow-unsigned", "--dry-run", code=10)


def test_run_with_attach_would_take_over_what_runs_already(monkeypatch: pytest.MonkeyPatch) -> None:
    note(monkeypatch, run, "find_same", MANAGED)
    steps = plan("run", "scx_rusty", "--attach")["steps"]
    assert steps[0] == f"take over the container scx_rusty (podman {ID[:12]}), which is attached already"
    note(monkeypatch, run, "find_same", None)
    steps = plan("run", "scx_rusty", "--attach", "--allow-unsigned")["steps"]
    assert steps[-1] == "show its output until Ctrl-C, and then stop it"


def test_switch_says_what_it_would_replace(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
    note(monkeypatch, switch, "check_switch", MANAGED)
    steps = plan("switch", "scx_rusty", "--allow-unsigned", "--restart", "on-failure:3")["steps"]
    assert f"stop and remove the container scx_rusty (podman {ID[:12]})" in steps
    assert steps[-1] == "have schedkit-run.service start it again when it fails (on-failure:3)"
    write_unit(machine, RERUN)
    assert plan("switch", "scx_rusty", "--allow-unsigned")["steps"][-1] == "remove schedkit-run.service"


def write_unit(machine: Machine, unit: str) -> None:
    choice = Choice(
        "scx_lavd", f"x/scx_lavd@{DIGEST}", DIGEST, "podman", "/x", "me", "on-failure:5", allow_unsigned=True
    )
    path = machine.root / FILES[unit]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_unit(choice, ["schedctl"], unit))


def test_enable_says_what_would_be_started_at_boot(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    write_unit(machine, ENABLED)
    steps = plan("enable", "scx_rusty", "--allow-unsigned")["steps"]
    assert steps[-1] == f"have schedkit.service start {IMAGE}@{DIGEST} at boot, in place of scx_lavd"
    monkeypatch.setattr(lasting, "find_chosen", lambda *_: MANAGED)
    steps = plan("enable", "scx_rusty", "--allow-unsigned")["steps"]
    assert steps[0] == f"leave the container scx_rusty (podman {ID[:12]}) as it is, which is attached already"
    assert len(steps) == 2


def test_disable_says_what_would_go(machine: Machine) -> None:
    call("disable", "--dry-run", code=66)
    write_unit(machine, ENABLED)
    assert plan("disable")["steps"] == ["remove schedkit.service"]
    (machine.root / "sys/fs/cgroup/system.slice" / ENABLED).mkdir(parents=True)
    assert plan("disable")["steps"] == ["stop scx_lavd", "remove schedkit.service"]
    assert (machine.root / FILES[ENABLED]).exists()


def test_stop_says_what_would_end(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    write_unit(machine, RERUN)
    note(monkeypatch, lasting, "read_service", None)
    wait = f"stop and remove the container scx_rusty (podman {ID[:12]}), and wait until the kernel has let it go"
    assert plan("stop")["steps"] == [wait, "remove schedkit-run.service"]
    ended = MANAGED._replace(container=make_container(name="old", state=ContainerState.EXITED))
    monkeypatch.setattr(managed, "observe", lambda *_: OBSERVED._replace(managed=(ended,)))
    assert plan("stop", "--all")["steps"][0].startswith("remove the container old (podman")
    monkeypatch.setattr(managed, "observe", lambda *_: OBSERVED._replace(managed=()))
    assert plan("stop", "--all")["steps"] == []
    assert call("stop", "--all", "--dry-run").stdout == "would do nothing\n"
    call("stop", "nobody", "--dry-run", code=66)


def test_detach_says_how_and_does_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = Foreign("lavd_1.0", KERNEL, HOLDER, Way("detach the BPF link 17", 17))
    note(monkeypatch, detach, "find_foreign", foreign)
    note(monkeypatch, detach, "end_foreign", AssertionError("this changes something"))
    assert plan("detach")["steps"] == ["end lavd_1.0 by: detach the BPF link 17"]
    note(monkeypatch, detach, "find_foreign", NotFoundError("no scheduler is attached"))
    refused = call("detach", "--dry-run", code=66)
    assert isinstance(refused.exception, SchedkitError)


def test_restart_says_which_one(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    container = f"the container scx_rusty (podman {ID[:12]})"
    again = f"start {container} again, and wait up to 7s for the kernel to attach it"
    assert plan("restart", "--timeout", "7s")["steps"] == [f"stop {container}", again]
    ended = MANAGED._replace(container=make_container(state=ContainerState.EXITED))
    monkeypatch.setattr("schedkit.host.preparing.observe", lambda *_: OBSERVED._replace(managed=(ended,)))
    call("restart", "--dry-run", code=10)  # another has the slot
    free = OBSERVED._replace(managed=(ended,), kernel=KernelState(State.DISABLED))
    monkeypatch.setattr("schedkit.host.preparing.observe", lambda *_: free)
    assert plan("restart", "--timeout", "7s")["steps"] == [again]
    call("restart", "nobody", "--dry-run", code=66)


def test_trial_says_what_it_would_go_back_to(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    note(monkeypatch, switch, "check_switch", MANAGED)
    document = plan("trial", "scx_rusty", "--for", "90s", "--allow-unsigned")
    assert document["steps"][-3:] == [
        f"stop the container scx_rusty (podman {ID[:12]})",
        "start scx_rusty, and wait up to 30s for the kernel to attach it",
        "have schedkit-trial.service go back to scx_rusty after 1m30s, unless `schedctl keep` comes in time",
    ]
    note(monkeypatch, switch, "check_switch", None)
    steps = plan("trial", "scx_rusty", "--allow-unsigned")["steps"]
    assert "go back to the kernel's own scheduler after 10m" in steps[-1]
    write_trial(machine, TRIAL)
    call("trial", "scx_rusty", "--allow-unsigned", "--dry-run", code=64)  # one at a time


def test_restore_says_what_it_would_go_back_to(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    call("restore", "--dry-run", code=66)
    write_unit(machine, ENABLED)
    write_unit(machine, RERUN)
    note(monkeypatch, switch, "check_switch", MANAGED)
    document = plan("restore")
    assert f"stop and remove the container scx_rusty (podman {ID[:12]})" in document["steps"]
    assert document["steps"][-2:] == ["remove schedkit-run.service", "have schedkit.service look after it"]
    assert (document["scheduler"], document["verified"]) == ("scx_lavd", "unsigned-allowed")
    monkeypatch.setattr(lasting, "find_chosen", lambda *_: MANAGED)
    (machine.root / "sys/fs/cgroup/system.slice" / ENABLED).mkdir(parents=True)
    (machine.root / FILES[RERUN]).unlink()
    leave = f"leave the container scx_rusty (podman {ID[:12]}) as it is, which is attached already"
    assert plan("restore")["steps"] == [leave]


def test_restore_during_a_trial_says_that_it_would_end_it(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    write_trial(machine, TRIAL)
    mine = MANAGED._replace(container=make_container(labels={Label.TRIAL.value: TRIAL.mark}))
    monkeypatch.setattr(trial, "observe", lambda *_: OBSERVED._replace(managed=(mine,)))
    assert plan("restore")["steps"] == [
        f"stop and remove the container scx_rusty (podman {ID[:12]}), which is on trial",
        "start the container old again, which was before",
    ]
    write_trial(machine, TRIAL._replace(before=None))
    assert len(plan("restore")["steps"]) == 1
    assert read_trial(machine) == TRIAL._replace(before=None)


def test_keep_says_which_trial_it_would_end(machine: Machine) -> None:
    call("keep", "--dry-run", code=66)
    write_trial(machine, TRIAL)
    assert plan("keep")["steps"] == ["end the trial of scx_rusty", "keep scx_rusty"]
    assert read_trial(machine) == TRIAL


def test_bench_says_what_it_would_run() -> None:
    words = ["bench", "--allow-unsigned", "--with", "none,scx_rusty", "--with"]
    found = plan(*words, "scx_rusty --kthreads", "--runs", "3", "--", "true", "a b")
    assert found["steps"] == [
        PULLED,
        "run true 'a b' 3 times under each of none, scx_rusty, scx_rusty --kthreads, after 1 that does not count",
        "attach again what is attached now, or nothing",
    ]
