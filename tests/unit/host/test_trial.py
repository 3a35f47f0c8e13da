"""Trials on a machine out of files; tests/e2e/test_lasting.py kills everything of a real one."""

import os
import stat
import threading
import time
from typing import Any

import pytest

from schedkit.errors import NotFoundError, SchedkitError, UnavailableError, UsageError
from schedkit.host import trial as trials
from schedkit.host import trial_state
from schedkit.host.errors import RolledBackError
from schedkit.host.following import follow
from schedkit.host.status import read_status
from schedkit.host.stop import stop
from schedkit.host.switch import switch
from schedkit.host.trial import (
    begin_trial,
    check_trial,
    end_trial,
    go_back,
    keep,
    keep_if_on_trial,
    remove_leftovers,
    require_trial,
    watch_trial,
)
from schedkit.host.trial_state import Phase, Trial, read_trial, write_trial
from schedkit.kernel.log import Ejection, KernelLog
from schedkit.runtimes.container import Container, ContainerState
from schedkit.unknown import Unknown
from tests.unit.host.fake_systemd import FakeSystemd
from tests.unit.host.fakes import World, die, request, verify

PROGRAM = ("/usr/local/bin/schedctl",)


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def old(world: World) -> Container:
    container = world.runtime.add("scx_old")
    world.kernel.attach("ops_scx_old", world.runtime.hold(container))
    return container


def begin(world: World, seconds: float = 600.0, **fields: Any) -> Trial:
    return begin_trial(world.host, request(**fields), verify, seconds, PROGRAM)[1]


def names(world: World) -> dict[str, str]:
    return {one.name: str(one.state) for one in world.runtime.fetch_containers()}


def eject(world: World) -> None:
    """The scheduler ends, as those do that the kernel throws out."""
    new = next(one for one in world.runtime.fetch_containers() if one.name == "scx_new")
    world.kernel.detach()
    time.sleep(0.2)  # the kernel is done first
    world.runtime.processes[new.id].terminate()
    world.runtime.processes[new.id].wait()


def read_ops(world: World) -> str:
    path = world.kernel.folder / "root/ops"
    return path.read_text().strip() if path.exists() else ""


def test_unit_is_there_before_anything_ends(world: World, systemd: FakeSystemd, old: Container) -> None:
    seen: list[tuple[list[str], object]] = []
    world.runtime.on_signal = lambda *_: seen.append((systemd.calls, read_trial(world.machine)))
    trial = begin(world)
    calls, noted = seen[0]
    assert calls[0] == "systemctl stop schedkit-trial.service"
    assert calls[1].startswith("systemd-run --quiet --collect --unit=schedkit-trial.service ")
    assert "--property Restart=on-failure" in calls[1]
    assert calls[1].endswith(" /usr/local/bin/schedctl service schedkit-trial.service")
    assert isinstance(noted, Trial)
    assert (noted.phase, trial.phase) == (Phase.SWITCHING, Phase.ON)
    assert trial.before is not None
    assert (trial.before.id, trial.before.attached, trial.before.unit) == (old.id, True, None)
    assert names(world) == {"scx_old": "exited", "scx_new": "running"}
    assert 590 < trial.left <= 600


def test_it_goes_back_when_its_time_is_over(
    world: World, systemd: FakeSystemd, old: Container, notes: list[str]
) -> None:
    begin(world, 0.3)
    watch_trial(world.host, notes.append)
    assert names(world) == {"scx_old": "running"}
    assert read_ops(world) == "ops_scx_old"
    assert notes[-1] == "scx_new: its 0 s are over; back to scx_old"
    ended = read_trial(world.machine)
    assert isinstance(ended, Trial)
    assert (ended.phase, ended.sequence) == (Phase.ENDED, world.kernel.sequence)
    assert not any("systemctl start" in call for call in systemd.calls)


def test_it_goes_back_to_none_where_there_was_none(world: World, systemd: FakeSystemd, notes: list[str]) -> None:
    begin(world, 0.2)
    watch_trial(world.host, notes.append)
    assert (names(world), read_ops(world)) == ({}, "")
    assert notes[-1].endswith("back to the kernel's own scheduler")


def test_one_that_ends_early_goes_back_at_once_and_status_tells(
    world: World, systemd: FakeSystemd, old: Container, notes: list[str]
) -> None:
    world.runtime.logs["localhost/scx_new:v1"] = b"EXIT: runnable task stall (watchdog failed)\n"
    begin(world)
    ejected = threading.Timer(0.3, lambda: eject(world))
    ejected.start()
    begun = time.monotonic()
    watch_trial(world.host, notes.append)
    assert time.monotonic() - begun < 20
    assert read_ops(world) == "ops_scx_old"
    status = read_status(world.machine, world.host.runtimes)
    assert status.lasting is not None
    assert isinstance(status.lasting.trial, Trial)
    assert "stall" in status.lasting.trial.why


def test_what_the_kernel_says_only_when_it_is_done_is_told(
    world: World, systemd: FakeSystemd, old: Container, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Ejection] = []
    monkeypatch.setattr(KernelLog, "read_ejection", lambda _: said[-1] if said else None)
    begin(world)
    world.kernel.detach()

    def end(id: str, timeout: float) -> None:
        said.append(Ejection("ops_scx_new", "runnable task stall", ()))

    monkeypatch.setattr(world.runtime, "wait", end)
    watch_trial(world.host, notes.append)
    assert notes[-1] == "scx_new: the kernel ejected ops_scx_new: runnable task stall; back to scx_old"


def test_one_that_runs_on_without_being_attached_goes_back_too(
    world: World, systemd: FakeSystemd, old: Container, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "_ENDING_SECONDS", 0.1)
    begin(world)
    world.kernel.detach()
    watch_trial(world.host, notes.append)
    assert names(world) == {"scx_old": "running"}
    assert notes == ["scx_new: it runs and is not attached; back to scx_old"]


def test_one_that_somebody_removes_while_it_is_waited_for_goes_back_too(
    world: World, systemd: FakeSystemd, old: Container, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(world)
    world.kernel.detach()

    def remove(id: str, timeout: float) -> None:
        world.runtime.remove(id)
        raise NotFoundError(f"no container {id}")

    monkeypatch.setattr(world.runtime, "wait", remove)
    watch_trial(world.host, notes.append)
    assert names(world) == {"scx_old": "running"}
    assert "how it ended is not known: no container" in notes[-1]


def test_one_that_attaches_once_more_has_left_before_the_old_one_starts(
    world: World, systemd: FakeSystemd, old: Container, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(world)
    world.kernel.detach()
    waited = []
    monkeypatch.setattr(trials, "wait_detached", lambda *_: waited.append(read_ops(world)))

    wait = world.runtime.wait

    def attach_again(id: str, timeout: float) -> int | None:
        found = world.runtime.fetch_container(id)
        if not found.pid:  # it has been stopped meanwhile
            return wait(id, timeout)
        world.kernel.attach("ops_scx_new", world.runtime.hold(found))
        return None

    monkeypatch.setattr(world.runtime, "wait", attach_again)
    watch_trial(world.host, notes.append)
    assert (names(world), read_ops(world)) == ({"scx_old": "running"}, "ops_scx_old")
    assert waited == [""]


def test_unit_of_what_was_before_looks_after_it_again(
    world: World, systemd: FakeSystemd, old: Container, notes: list[str]
) -> None:
    group = world.machine.root / "sys/fs/cgroup/system.slice/schedkit.service"
    group.mkdir(parents=True)
    trial = begin(world, 0.2)
    group.rmdir()  # its process ends when it sees its scheduler replaced
    assert trial.before is not None
    assert trial.before.unit == "schedkit.service"
    watch_trial(world.host, notes.append)
    assert systemd.calls[-1] == "systemctl start --no-block schedkit.service"


def test_follower_leaves_what_is_kept_for_the_way_back(world: World, systemd: FakeSystemd, old: Container) -> None:
    begin(world)
    assert follow(world.host, old, "ops_scx_old", lambda _: None) is None
    assert names(world)["scx_old"] == "exited"
    status = read_status(world.machine, world.host.runtimes)
    assert "Left over" not in status.explanation


def test_keeping_ends_the_trial_and_removes_what_was_before(
    world: World, systemd: FakeSystemd, old: Container, notes: list[str]
) -> None:
    begin(world)
    assert keep(world.host).scheduler == "scx_new"
    assert names(world) == {"scx_new": "running"}
    assert systemd.calls[-1] == "systemctl stop schedkit-trial.service"
    assert read_trial(world.machine) is None
    watch_trial(world.host, notes.append)
    assert (notes, read_ops(world)) == ([], "ops_scx_new")
    with pytest.raises(NotFoundError, match="no trial is under way"):
        keep(world.host)


def test_second_trial_is_refused(world: World, systemd: FakeSystemd, old: Container) -> None:
    check_trial(world.machine)
    begin(world)
    with pytest.raises(UsageError, match="scx_new is on trial already"):
        check_trial(world.machine)
    first = read_trial(world.machine)
    with pytest.raises(UsageError, match="scx_new is on trial already"):
        begin(world, scheduler="scx_other")
    assert (read_trial(world.machine), read_ops(world)) == (first, "ops_scx_new")
    assert names(world) == {"scx_old": "exited", "scx_new": "running"}
    assert end_trial(world.host, print) is not None
    check_trial(world.machine)


def test_restore_goes_back_now(world: World, systemd: FakeSystemd, old: Container, notes: list[str]) -> None:
    assert end_trial(world.host, notes.append) is None
    begin(world)
    ended = end_trial(world.host, notes.append)
    assert ended is not None
    assert (ended.phase, read_ops(world)) == (Phase.ENDED, "ops_scx_old")
    watch_trial(world.host, notes.append)  # its unit has nothing to do any more
    assert len(notes) == 1


@pytest.mark.parametrize("verb", ["stop", "switch"])
def test_who_stops_or_replaces_it_ends_the_trial(
    world: World, systemd: FakeSystemd, old: Container, notes: list[str], verb: str
) -> None:
    begin(world)
    if verb == "stop":
        stop(world.host, None)
    else:
        switch(world.host, request("scx_third"), verify)
    watch_trial(world.host, notes.append)
    assert names(world) == ({} if verb == "stop" else {"scx_third": "running"})
    assert read_trial(world.machine) is None
    assert "stopped or replaced" in notes[-1]


def test_failed_switch_leaves_no_trial(world: World, systemd: FakeSystemd, old: Container, notes: list[str]) -> None:
    world.runtime.behaviours["localhost/scx_new:v1"] = die(1)
    with pytest.raises(RolledBackError):
        begin(world)
    assert read_trial(world.machine) is None
    watch_trial(world.host, notes.append)
    assert (names(world), notes) == ({"scx_old": "running"}, [])


def test_unit_that_cannot_be_started_leaves_all_as_it_was(world: World, systemd: FakeSystemd, old: Container) -> None:
    systemd.fail("--quiet", "no")
    with pytest.raises(SchedkitError, match="systemd-run"):
        begin(world)
    assert (names(world), read_ops(world)) == ({"scx_old": "running"}, "ops_scx_old")
    assert read_trial(world.machine) is None


def test_one_that_its_unit_has_undone_already_is_not_called_on_trial(
    world: World, systemd: FakeSystemd, old: Container, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def switch_and_leave(*arguments: Any, **options: Any) -> Any:
        switched = switch(*arguments, **options)
        eject(world)
        watch_trial(world.host, notes.append)
        return switched

    monkeypatch.setattr(trials, "switch", switch_and_leave)
    with pytest.raises(RolledBackError, match=r"scx_new attached and did not stay.* Back to scx_old"):
        begin(world)
    ended = read_trial(world.machine)
    assert isinstance(ended, Trial)
    assert (ended.phase, read_ops(world)) == (Phase.ENDED, "ops_scx_old")


class Killed(BaseException):
    """SIGKILL: nobody cleans up after it."""


@pytest.mark.parametrize("stage", ["old stopped", "attached"])
def test_command_that_is_killed_is_undone_by_the_unit(
    world: World,
    systemd: FakeSystemd,
    old: Container,
    notes: list[str],
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
) -> None:
    def die_here(*_: object, **__: object) -> None:
        raise Killed

    for name in ("discard", "end"):  # the handlers of a killed process do not run
        monkeypatch.setattr(f"schedkit.host.switch.containers.{name}", lambda *_, **__: None)
    monkeypatch.setattr("schedkit.host.switch._bring_back", lambda *_: None)
    monkeypatch.setattr(trials, "_close", lambda *_: None)
    if stage == "attached":
        monkeypatch.setattr("schedkit.host.switch._settle_old", die_here)
    else:
        world.runtime.behaviours["localhost/scx_new:v1"] = die_here
    with pytest.raises(Killed):
        begin(world, 0.3)
    monkeypatch.undo()
    monkeypatch.setenv("PATH", f"{world.machine.root.parent / 'bin'}:/usr/bin:/bin")
    for module in ("managed", "watching"):
        monkeypatch.setattr(f"schedkit.host.{module}.read_holder", world.kernel.read_holder)
    monkeypatch.setattr("schedkit.kernel.holder.read_holder", world.kernel.read_holder)
    monkeypatch.setattr("schedkit.kernel.preflight.examine_kernel", lambda root: [])
    assert names(world)["scx_old"] == "exited"
    watch_trial(world.host, notes.append)
    assert (names(world), read_ops(world)) == ({"scx_old": "running"}, "ops_scx_old")


def test_what_cannot_be_asked_is_not_gone(world: World, systemd: FakeSystemd, old: Container, notes: list[str]) -> None:
    trial = begin(world)
    world.runtime.broken = UnavailableError("podman broke off")
    with pytest.raises(UnavailableError, match="podman does not respond"):
        go_back(world.host, trial.mark, notes.append)
    world.runtime.broken = None
    assert require_trial(world.machine).mark == trial.mark
    assert names(world) == {"scx_old": "exited", "scx_new": "running"}


def test_state_that_cannot_be_read_is_unknown(world: World, systemd: FakeSystemd, old: Container) -> None:
    begin(world)
    path = world.machine.lock.parent / "trial.json"
    path.write_text("{")
    assert isinstance(read_trial(world.machine), Unknown)
    assert trial_state.is_kept(world.machine, old.id)
    with pytest.raises(UnavailableError):
        keep(world.host)
    with pytest.raises(UnavailableError):
        watch_trial(world.host, print)


def test_old_one_that_is_gone_or_fails_is_told(
    world: World, systemd: FakeSystemd, old: Container, notes: list[str]
) -> None:
    begin(world)
    world.runtime.behaviours[old.image] = die(1)
    ended = end_trial(world.host, notes.append)
    assert ended is not None
    assert "scx_old did not come back" in ended.why
    assert names(world) == {}


def test_one_that_is_enabled_while_on_trial_is_kept(world: World, systemd: FakeSystemd, old: Container) -> None:
    begin(world)
    (new,) = [one for one in world.runtime.fetch_containers() if one.name == "scx_new"]
    keep_if_on_trial(world.host, old)
    assert isinstance(read_trial(world.machine), Trial)
    keep_if_on_trial(world.host, new)
    assert read_trial(world.machine) is None
    assert names(world) == {"scx_new": "running"}


def test_restarted_one_stays_on_trial(
    world: World, systemd: FakeSystemd, old: Container, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = begin(world)
    original = trials._wait
    waits: list[float] = []

    def wait(*arguments: Any) -> bool:
        waits.append(trial.left)
        if len(waits) == 2:
            return True  # the time is over
        (new,) = [one for one in world.runtime.fetch_containers() if one.name == "scx_new"]
        holder = world.kernel.holder
        world.kernel.detach()  # another schedctl restarts it
        world.kernel.attach("ops_scx_new", holder)
        assert new.state is ContainerState.RUNNING
        return original(*arguments)

    monkeypatch.setattr(trials, "_wait", wait)
    watch_trial(world.host, notes.append)
    assert len(waits) == 2
    assert notes[-1].startswith("scx_new: its 600 s are over")


def test_noted_trial_is_read_back(world: World) -> None:
    before = trial_state.Before("podman", "1" * 64, "a", "scx_a", attached=False, unit="schedkit-run.service")
    trial = Trial(
        "m",
        "scx_b",
        "docker",
        5.0,
        7.0,
        before,
        Phase.ENDED,
        "why",
        "2026-01-01T00:00:00+00:00",
        3,
        "schedctl enable scx_b",
    )
    world.machine.lock.parent.mkdir()
    write_trial(world.machine, trial)
    assert read_trial(world.machine) == trial
    assert trial.left == 0.0


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_anybody_sees_the_trial_and_nobody_else_the_lock(
    world: World, systemd: FakeSystemd, old: Container, umask: int
) -> None:
    before = os.umask(umask)
    try:
        trial = begin(world)
    finally:
        os.umask(before)
    folder = world.machine.lock.parent
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "trial.json", folder / "lock")}
    assert modes == {folder.name: 0o711, "trial.json": 0o644, "lock": 0o600}
    assert read_trial(world.machine) == trial


def test_why_a_trial_ended_is_for_root_alone(world: World, systemd: FakeSystemd, old: Container) -> None:
    trial = begin(world)._replace(phase=Phase.ENDED, why="the kernel's log says so")
    write_trial(world.machine, trial)
    assert read_trial(world.machine) == trial
    folder = world.machine.lock.parent
    assert "log" not in (folder / "trial.json").read_text()
    assert stat.S_IMODE((folder / "trial-why").stat().st_mode) == 0o600
    (folder / "trial-why").unlink()
    unread = read_trial(world.machine)
    assert isinstance(unread, Trial)
    assert unread.why == Unknown(f"{folder}/trial-why: No such file or directory")


def test_why_another_trial_ended_is_not_told_of_this_one(world: World, systemd: FakeSystemd, old: Container) -> None:
    trial = begin(world)._replace(phase=Phase.ENDED)
    write_trial(world.machine, trial._replace(mark="other", why="it was slow"))
    write_trial(world.machine, trial)
    unread = read_trial(world.machine)
    assert isinstance(unread, Trial)
    assert isinstance(unread.why, Unknown)


def test_reboot_leaves_a_container_of_the_trial_that_the_next_start_removes(
    world: World, systemd: FakeSystemd, old: Container
) -> None:
    begin(world)
    remove_leftovers(world.host)
    assert set(names(world)) == {"scx_old", "scx_new"}  # what is under way is nobody's leftover
    eject(world)
    trial_state.forget_trial(world.machine)  # its file is in a folder that a reboot empties
    remove_leftovers(world.host)
    assert names(world) == {"scx_old": "exited"}


def test_container_of_a_trial_that_was_kept_stays_as_long_as_it_runs(world: World, systemd: FakeSystemd) -> None:
    begin(world)
    keep(world.host)
    remove_leftovers(world.host)
    assert names(world) == {"scx_new": "running"}


def test_nothing_is_removed_where_a_trial_cannot_be_read(world: World, systemd: FakeSystemd, old: Container) -> None:
    begin(world)
    eject(world)
    (world.machine.lock.parent / trial_state.FILE).write_text("{")
    remove_leftovers(world.host)
    assert set(names(world)) == {"scx_old", "scx_new"}
