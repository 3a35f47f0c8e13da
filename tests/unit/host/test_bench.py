"""A bench on a machine of files and processes; tests/e2e/test_bench.py makes the same claims of a real kernel."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from schedkit.errors import BusyError, ExitCode
from schedkit.host.bench import Benched, Entrant, bench, confirm_attached, confirm_free, find_lender, prepare
from schedkit.host.errors import CommandFailedError, NoMetricError, RejectedError, SlotTakenError
from schedkit.host.lock import hold_lock
from schedkit.host.managed import observe
from schedkit.host.model import Host
from schedkit.kernel.holder import Holder
from schedkit.kernel.log import Ejection
from schedkit.kernel.state import KernelState, State, read_state
from schedkit.measure.metric import parse_metric
from schedkit.measure.model import BenchRun, RunEnding
from schedkit.measure.plan import PlannedRun, make_plan
from schedkit.measure.sampling import Work, find_work, run_once
from schedkit.runtimes.container import Container, ContainerState
from schedkit.unknown import Unknown
from tests.unit.host.fakes import FakeRuntime, World, attach, die, request, verify

FAST, SLOW = "localhost/scx_fast:v1", "localhost/scx_slow:v1"


@pytest.fixture
def old(world: World) -> Container:
    """A scheduler that is attached before, in another driver."""
    container = world.docker.add("scx_old")
    world.kernel.attach("ops_scx_old", world.docker.hold(container))
    return container


def enter(world: World, *names: str, host: Host | None = None) -> list[Entrant]:
    requests = [None if name == "none" else request(name, timeout=5.0) for name in names]
    return prepare(host or world.host, names, requests, verify)


def run(world: World, *names: str, work: Work | None = None, runs: int = 2, host: Host | None = None) -> Benched:
    host = host or world.host
    told: list[BenchRun] = []
    benched = bench(
        host,
        enter(world, *names, host=host),
        make_plan(len(names), runs, 0, seed=1),
        work or find_work(["true"], os.environ),
        settle=0,
        notice=lambda run, total: told.append(run),
    )
    assert tuple(told) == benched.runs
    return benched


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").exists() and " Z " not in Path(f"/proc/{pid}/stat").read_text()


def is_locked(world: World) -> bool:
    """Whether another schedctl would have to wait."""
    try:
        with hold_lock(world.machine.lock, patience=0):
            return False
    except BusyError:
        return True


def assert_free(world: World) -> None:
    assert read_state(world.kernel.root).state is State.DISABLED
    assert world.runtime.containers == {}
    assert not is_locked(world)


def test_each_run_has_its_scheduler_newly_attached_and_all_is_removed(world: World, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    look = f"{{ cat {world.kernel.folder}/root/ops 2>/dev/null || echo none; }} >>{seen}"
    benched = run(world, "none", "scx_fast", "scx_slow", work=find_work(["sh", "-c", look], os.environ), runs=2)

    assert [one.ending for one in benched.runs] == [RunEnding.MEASURED] * 6
    assert [one.number for one in benched.runs] == list(range(1, 7))
    assert world.kernel.sequence == 4  # twice each of two
    assert world.runtime.calls.count("create") == 2
    assert [one.ops for one in benched.contenders] == [None, "ops_bench-2-scx_fast", "ops_bench-3-scx_slow"]
    assert all(one.values["wall_seconds"] > 0 for one in benched.runs)
    assert seen.read_text().split() == [benched.contenders[one.contender].ops or "none" for one in benched.runs]
    assert (benched.interrupted, benched.trouble) == (False, None)
    assert_free(world)


def test_two_copies_of_the_same_image_have_a_container_each(world: World) -> None:
    benched = run(world, "scx_fast", "scx_fast")
    assert len({one.ops for one in benched.contenders}) == 2
    assert_free(world)


def test_images_are_verified_and_pulled_before_the_first_run(world: World) -> None:
    asked: list[str] = []

    def note(image: object) -> str:
        asked.append(image.reference)  # type: ignore[attr-defined]
        assert world.kernel.sequence == 0
        return "key SHA256:x"

    entrants = prepare(world.host, ["none", "a", "b"], [None, request("scx_a"), request("scx_b")], note)
    assert asked == ["localhost/scx_a:v1", "localhost/scx_b:v1"]
    assert world.runtime.calls == ["pull", "pull"]
    assert [one.contender.verified for one in entrants] == [None, "key SHA256:x", "key SHA256:x"]


def test_what_was_attached_before_is_attached_again(world: World, old: Container) -> None:
    benched = run(world, "none", "scx_fast")
    assert [one.ending for one in benched.runs] == [RunEnding.MEASURED] * 4
    assert world.docker.fetch_container(old.id).state is ContainerState.RUNNING
    assert read_state(world.kernel.root).ops == "ops_scx_old"
    assert world.runtime.containers == {}


def test_it_is_told_when_what_was_there_before_does_not_come_back(world: World, old: Container) -> None:
    world.docker.behaviours["localhost/scx_old:v1"] = die(1)
    benched = run(world, "none", "scx_fast")
    assert len(benched.runs) == 4  # the numbers are not lost
    assert benched.trouble is not None
    assert benched.trouble.exit_code is ExitCode.NOT_ATTACHED
    assert "scx_old did not come back" in benched.trouble.message


def test_a_scheduler_that_others_started_is_left_alone(world: World) -> None:
    world.kernel.attach("rusty", Holder(1, "scx_rusty", link=3, container=None))
    with pytest.raises(SlotTakenError, match="rusty is attached already"):
        run(world, "none", "scx_fast")
    assert read_state(world.kernel.root).ops == "rusty"


def test_a_container_that_runs_without_being_attached_is_in_the_way(world: World) -> None:
    world.runtime.add("scx_idle")
    with pytest.raises(SlotTakenError, match="though nothing is attached") as caught:
        find_lender(observe(world.machine, world.host.runtimes))
    assert caught.value.hint == "`schedctl stop scx_idle` ends it"


def test_several_containers_that_run_are_in_the_way(world: World, old: Container) -> None:
    world.runtime.add("scx_idle")
    with pytest.raises(SlotTakenError) as caught:
        find_lender(observe(world.machine, world.host.runtimes))
    assert "schedctl switch" not in caught.value.hint


def test_a_scheduler_that_never_attaches_ends_the_bench(world: World, old: Container) -> None:
    world.runtime.behaviours[SLOW] = die(1)
    world.runtime.logs[SLOW] = b"libbpf: prog 'x': BPF program load failed: Permission denied\n"
    with pytest.raises(RejectedError):
        run(world, "scx_fast", "scx_slow")
    assert read_state(world.kernel.root).ops == "ops_scx_old"
    assert world.runtime.containers == {}


def test_one_that_attached_before_and_does_not_later_is_a_result(world: World) -> None:
    def tire(runtime: FakeRuntime, id: str) -> None:
        (attach if runtime.calls.count("start") < 3 else die(1))(runtime, id)

    world.runtime.behaviours[SLOW] = tire
    benched = run(world, "none", "scx_slow", runs=3)
    assert [one.ending for one in benched.runs if one.contender == 1] == [
        RunEnding.MEASURED,
        RunEnding.MEASURED,
        RunEnding.NOT_ATTACHED,
    ]
    assert_free(world)


def test_a_run_in_which_the_scheduler_goes_is_no_number(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(work: Work) -> object:
        if world.kernel.sequence:
            world.kernel.detach()
        return run_once(work)

    monkeypatch.setattr("schedkit.host.bench.run_once", lose)
    benched = run(world, "none", "scx_fast")
    endings = {one.contender: one.ending for one in benched.runs}
    assert endings == {0: RunEnding.MEASURED, 1: RunEnding.DETACHED}
    assert all("wall_seconds" in one.values for one in benched.runs)
    assert not any(one.counts for one in benched.runs if one.contender == 1)
    assert_free(world)


def test_what_was_measured_is_kept_when_it_cannot_go_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's scheduler takes the slot in the middle and stays."""
    monkeypatch.setattr("schedkit.host.stop._DETACH_SECONDS", 0.1)
    taken: list[Work] = []

    def intrude(work: Work) -> object:
        taken.append(work)
        if world.kernel.sequence == 2:
            world.kernel.detach()
            world.kernel.attach("rusty", Holder(1, "scx_rusty", link=3, container=None))
        return run_once(work)

    monkeypatch.setattr("schedkit.host.bench.run_once", intrude)
    benched = run(world, "none", "scx_fast", runs=4)
    assert benched.runs[-1].ending is RunEnding.DISTURBED
    assert "rusty" in benched.runs[-1].why
    assert sum(one.counts for one in benched.runs) == len(benched.runs) - 1 > 0
    assert benched.trouble is not None
    assert read_state(world.kernel.root).ops == "rusty"
    assert world.runtime.containers == {}


ON = KernelState(State.ENABLED, ops="fifo", enable_seq=4)
OFF = KernelState(State.DISABLED, enable_seq=4)


@pytest.mark.parametrize(
    ("now", "ejection", "ending", "why"),
    [
        (ON, None, None, ""),
        (OFF, Ejection("fifo", "runnable task stall", ("x failed to run",)), RunEnding.EJECTED, "stall; x failed"),
        (OFF, Ejection("fifo", "unregistered from user space"), RunEnding.DETACHED, "unregistered"),
        (OFF, Ejection("other", "runtime error"), RunEnding.DETACHED, "why is not known"),
        (OFF, Unknown("/dev/kmsg: denied"), RunEnding.DETACHED, "why is not known"),
        (ON._replace(enable_seq=5), Ejection("fifo", "runtime error"), RunEnding.EJECTED, "runtime error"),
        (ON._replace(enable_seq=5), None, RunEnding.DISTURBED, "fifo was attached"),
        (ON._replace(ops="lavd", enable_seq=5), None, RunEnding.DISTURBED, "lavd"),
        (KernelState(Unknown("denied")), None, RunEnding.UNKNOWN, "denied"),
        (ON._replace(ops=Unknown("changing")), None, RunEnding.UNKNOWN, "changing"),
        (ON._replace(state=State.DISABLING), None, RunEnding.DETACHED, "disabling"),
    ],
)
def test_the_kernels_word_after_a_run_with_a_scheduler(
    now: KernelState, ejection: Ejection | Unknown | None, ending: RunEnding | None, why: str
) -> None:
    taken = confirm_attached(ON, now, ejection)
    assert (taken and taken.ending) == ending
    assert why in (taken.why if taken else "")


@pytest.mark.parametrize(
    ("now", "ending"),
    [
        (OFF, None),
        (ON, RunEnding.DISTURBED),
        (OFF._replace(enable_seq=5), RunEnding.DISTURBED),  # one came and went
        (KernelState(Unknown("denied")), RunEnding.UNKNOWN),
        (OFF._replace(state=State.ENABLING), RunEnding.DISTURBED),
    ],
)
def test_the_kernels_word_after_a_run_without(now: KernelState, ending: RunEnding | None) -> None:
    taken = confirm_free(OFF, now)
    assert (taken and taken.ending) == ending


def test_a_command_that_fails_at_once_ends_the_bench(world: World, old: Container) -> None:
    with pytest.raises(CommandFailedError, match="exit code 3 in the first run") as caught:
        run(world, "none", "scx_fast", work=find_work(["sh", "-c", "echo oh; exit 3"], os.environ))
    assert caught.value.log == ("oh",)
    assert caught.value.exit_code is ExitCode.COMMAND_FAILED
    assert read_state(world.kernel.root).ops == "ops_scx_old"


def test_an_output_without_the_number_ends_the_bench(world: World) -> None:
    metric = parse_metric(r"Time: ([\d.]+)", None)
    with pytest.raises(NoMetricError, match="matches nothing"):
        run(world, "none", "scx_fast", work=find_work(["echo", "hello"], os.environ, metric=metric))
    assert_free(world)


def test_a_command_that_fails_later_is_a_result(world: World, tmp_path: Path) -> None:
    script = f"[ ! -e {tmp_path}/ran ] || exit 5; touch {tmp_path}/ran"
    benched = run(world, "none", "scx_fast", work=find_work(["sh", "-c", script], os.environ))
    assert [one.ending for one in benched.runs] == [RunEnding.MEASURED, *[RunEnding.FAILED] * 3]
    assert {one.exit_code for one in benched.runs} == {0, 5}


@pytest.mark.parametrize("step", ["creating the container bench-1", "creating the container bench-2"])
def test_ctrl_c_before_the_first_run_leaves_all_as_it_was(world: World, old: Container, step: str) -> None:
    benched = run(world, "scx_fast", "scx_slow", host=world.interrupt(step))
    assert (benched.interrupted, benched.runs) == (True, ())
    assert "SIGTERM" not in world.docker.calls  # it was never stopped
    assert read_state(world.kernel.root).ops == "ops_scx_old"
    assert world.runtime.containers == {}


def test_ctrl_c_during_a_run_ends_the_command_and_brings_back_what_was_before(
    world: World, old: Container, tmp_path: Path
) -> None:
    mark = tmp_path / "child"
    script = f"sleep 600 & echo $! > {mark}; wait"

    def press(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, press)
    waiter = subprocess.Popen(["sh", "-c", f"until [ -s {mark} ]; do sleep 0.01; done; kill -USR1 {os.getpid()}"])
    try:
        benched = run(world, "none", "scx_fast", work=find_work(["sh", "-c", script], os.environ))
    finally:
        signal.signal(signal.SIGUSR1, before)
        waiter.wait()
    assert benched.interrupted
    assert read_state(world.kernel.root).ops == "ops_scx_old"
    assert world.runtime.containers == {}
    deadline = time.monotonic() + 5
    while is_alive(int(mark.read_text())):  # the command's own child ends, too
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_other_schedctls_wait_until_it_is_over(world: World) -> None:
    held: list[bool] = []
    entrants = enter(world, "none", "scx_fast")
    work = find_work(["true"], os.environ)
    plan = (PlannedRun(1, 0), PlannedRun(1, 1))
    bench(world.host, entrants, plan, work, settle=0, notice=lambda *_: held.append(is_locked(world)))
    assert held == [True, True]


def test_a_scheduler_for_tasks_that_ask_for_it_is_told(world: World) -> None:
    run(world, "none", "scx_fast")
    assert any("SCHED_EXT" in one for one in world.progress.warnings)
