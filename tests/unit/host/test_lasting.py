"""What lasts, over files and a fake systemctl; tests/e2e/test_lasting.py asks the real one."""

import os
import stat
from pathlib import Path

import pytest

from schedkit.errors import SchedkitError
from schedkit.host import trial_state
from schedkit.host.containers import format_args
from schedkit.host.lasting import (
    Service,
    end_lasting,
    end_waiting,
    find_chosen,
    find_unit,
    is_chosen,
    read_lasting,
    start_lasting,
)
from schedkit.host.model import Summary
from schedkit.host.status import LASTING_FILES, TRIAL_FILE, read_status
from schedkit.host.systemd import UnitState
from schedkit.host.units import AT_BOOT, ENABLED, FILES, RERUN, read_choice
from schedkit.runtimes.labels import Label
from schedkit.unknown import Unknown
from tests.unit.host.fake_systemd import FakeSystemd
from tests.unit.host.fakes import World
from tests.unit.host.test_units import CHOICE

PROGRAM = ("/usr/local/bin/schedctl",)


def have_process(world: World, unit: str) -> None:
    (world.machine.root / "sys/fs/cgroup/system.slice" / unit).mkdir(parents=True)


def enable(world: World) -> None:
    start_lasting(world.machine, CHOICE, PROGRAM, ENABLED)
    boot = world.machine.root / AT_BOOT
    boot.parent.mkdir(parents=True)
    boot.symlink_to("../schedkit.service")


def test_enabled_unit_is_written_reloaded_enabled_and_started(world: World, systemd: FakeSystemd) -> None:
    start_lasting(world.machine, CHOICE, PROGRAM, ENABLED)
    assert systemd.calls == [
        "systemctl daemon-reload",
        "systemctl enable --quiet schedkit.service",
        "systemctl reset-failed schedkit.service",
        "systemctl restart schedkit.service",
    ]
    assert read_choice(world.machine.root, ENABLED) == CHOICE
    folder = (world.machine.root / FILES[ENABLED]).parent
    assert [one.name for one in folder.iterdir()] == [ENABLED]


def test_one_that_is_restarted_is_gone_with_the_next_boot(world: World, systemd: FakeSystemd) -> None:
    start_lasting(world.machine, CHOICE, PROGRAM, RERUN)
    assert (world.machine.root / "run/systemd/system/schedkit-run.service").exists()
    assert not any("enable" in call for call in systemd.calls)


@pytest.mark.parametrize(("env", "mode"), [({}, 0o644), ({"TOKEN": "secret"}, 0o600)])
def test_variables_of_a_scheduler_are_for_root_alone(
    world: World, systemd: FakeSystemd, env: dict[str, str], mode: int
) -> None:
    start_lasting(world.machine, CHOICE._replace(env=env), PROGRAM, ENABLED)
    assert stat.S_IMODE((world.machine.root / FILES[ENABLED]).stat().st_mode) == mode


def test_disabling_leaves_nothing_and_what_is_not_there_is_told(world: World, systemd: FakeSystemd) -> None:
    assert not end_lasting(world.machine, ENABLED)
    assert systemd.calls == []
    enable(world)
    before = len(systemd.calls)
    assert end_lasting(world.machine, ENABLED)
    assert systemd.calls[before:] == [
        "systemctl stop schedkit.service",
        "systemctl disable --quiet schedkit.service",
        "systemctl daemon-reload",
        "systemctl reset-failed schedkit.service",
    ]
    assert not (world.machine.root / FILES[ENABLED]).exists()


def test_unit_that_cannot_be_stopped_stays(world: World, systemd: FakeSystemd) -> None:
    enable(world)
    systemd.fail("stop")
    with pytest.raises(SchedkitError):
        end_lasting(world.machine, ENABLED)
    assert read_choice(world.machine.root, ENABLED) == CHOICE


def test_systemd_is_asked_only_where_what_should_run_does_not(world: World, systemd: FakeSystemd) -> None:
    nothing = read_lasting(world.machine)
    assert (nothing.enabled, nothing.at_boot, nothing.rerun, nothing.trial) == (None, False, None, None)
    enable(world)
    have_process(world, ENABLED)
    before = systemd.calls
    lasting = read_lasting(world.machine)
    assert lasting.enabled == Service(ENABLED, CHOICE, running=True)
    assert lasting.at_boot
    assert systemd.calls == before


def test_status_tells_that_systemd_gave_up(world: World, systemd: FakeSystemd) -> None:
    enable(world)
    systemd.show(ActiveState="failed", SubState="failed", NRestarts=5, ExecMainStatus=12)
    status = read_status(world.machine, world.host.runtimes)
    assert status.summary is Summary.IDLE
    told = "scx_rusty is enabled and does not run: systemd gave up on it (exit code 12, EJECTED)"
    assert told in status.explanation
    assert status.remedy == "journalctl -u schedkit.service"
    systemd.show(ActiveState="inactive", SubState="dead", NRestarts=0, ExecMainStatus=0)
    quiet = read_status(world.machine, world.host.runtimes)
    assert "enabled" not in quiet.explanation
    assert quiet.remedy == ""


def test_unit_that_cannot_be_read_is_unknown_not_absent(world: World, systemd: FakeSystemd) -> None:
    enable(world)
    (world.machine.root / FILES[ENABLED]).write_text("[Service]\n")
    enabled = read_lasting(world.machine).enabled
    assert enabled is not None
    assert isinstance(enabled.choice, Unknown)


def test_unit_that_is_about_to_start_one_is_stopped(world: World, systemd: FakeSystemd) -> None:
    enable(world)
    systemd.show(ActiveState="inactive")
    assert end_waiting(world.machine) == []
    systemd.show(ActiveState="activating", SubState="auto-restart", NRestarts=1, ExecMainStatus=1)
    (one,) = end_waiting(world.machine)
    assert one.state == UnitState("activating", "auto-restart", 1, 1)
    assert systemd.calls[-1] == "systemctl stop schedkit.service"


def test_container_of_the_choice_is_found_whoever_started_it(world: World) -> None:
    labels = {Label.DIGEST.value: CHOICE.digest, Label.ARGS.value: format_args(())}
    container = world.runtime.add("mine", labels=labels)
    found = find_chosen(world.host, CHOICE)
    assert found is not None
    assert not is_chosen(found)
    world.kernel.attach("rusty", world.runtime.hold(container))
    assert is_chosen(find_chosen(world.host, CHOICE))
    assert find_chosen(world.host, CHOICE._replace(args=("-v",))) is None
    assert find_chosen(world.host, CHOICE._replace(files=("/etc/scx.json",))) is None
    assert find_chosen(world.host, CHOICE._replace(digest="sha256:" + "2" * 64)) is None
    assert find_chosen(world.host, CHOICE._replace(unprivileged=True)) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_who_may_not_look_does_not_know_of_a_trial(world: World) -> None:
    world.machine.lock.parent.mkdir(mode=0o700)
    assert read_status(world.machine, world.host.runtimes).lasting is None
    os.seteuid(65534)
    try:
        lasting = read_status(world.machine, world.host.runtimes).lasting
    finally:
        os.seteuid(0)
    assert lasting is not None
    assert isinstance(lasting.trial, Unknown)


def test_status_looks_where_it_is_kept() -> None:
    assert set(LASTING_FILES) == set(FILES.values())
    assert trial_state.FILE == TRIAL_FILE


def test_unit_at_work_is_found(world: World, tmp_path: Path) -> None:
    assert find_unit(world.machine) is None
    have_process(world, RERUN)
    assert find_unit(world.machine) == RERUN
