import pytest

from schedkit.errors import AlreadyExistsError, UnavailableError, UsageError
from schedkit.host.errors import NotAttachedError, RejectedError, RolledBackError, SlotTakenError
from schedkit.host.switch import switch
from schedkit.kernel.holder import Holder
from schedkit.kernel.state import State, read_state
from schedkit.runtimes.container import Container, ContainerState
from tests.unit.host.fakes import (
    FakeRuntime,
    World,
    die,
    do_nothing,
    is_held,
    request,
    verify,
)

NEW = "localhost/scx_new:v1"
OLD = "localhost/scx_old:v1"


@pytest.fixture
def old(world: World) -> Container:
    """A scheduler of ours that is attached, in another driver than the new one."""
    container = world.docker.add("scx_old")
    world.kernel.attach("ops_scx_old", world.docker.hold(container))
    return container


def test_switch_replaces_what_runs_and_measures_the_gap(world: World, old: Container) -> None:
    switched = switch(world.host, request(), verify)

    assert switched.replaced == old
    assert switched.attached.ops == "ops_scx_new"
    assert switched.gap is not None
    assert 0 < switched.gap < 5
    assert world.docker.containers == {}
    assert world.runtime.calls == ["pull", "create", "start"]


def test_everything_that_can_be_is_done_before_the_old_one_stops(world: World, old: Container) -> None:
    order: list[str] = []
    world.runtime.calls = world.docker.calls = order
    switch(world.host, request(), verify)
    assert order == ["pull", "create", "SIGTERM", "start", "remove"]


def test_switch_with_nothing_there_just_runs(world: World) -> None:
    switched = switch(world.host, request(), verify)
    assert (switched.replaced, switched.gap) == (None, None)
    assert switched.attached.ops == "ops_scx_new"


def test_replacing_takes_the_name_of_what_is_replaced(world: World) -> None:
    mine = world.runtime.add("mine")
    world.kernel.attach("ops_mine", world.runtime.hold(mine))
    with pytest.raises(AlreadyExistsError):
        switch(world.host, request(name="mine"), verify)

    switched = switch(world.host, request(name="mine", replace=True), verify)

    assert switched.replaced == mine
    assert switched.attached.container.name == "mine"
    assert [one.name for one in world.runtime.containers.values()] == ["mine"]
    assert world.runtime.calls[-2:] == ["remove", "rename mine"]


def test_name_that_cannot_be_taken_undoes_no_switch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = world.runtime.add("mine")
    world.kernel.attach("ops_mine", world.runtime.hold(mine))

    def refuse(id: str, name: str) -> None:
        raise UnavailableError("podman broke off")

    monkeypatch.setattr(world.runtime, "rename", refuse)
    switched = switch(world.host, request(name="mine", replace=True), verify)
    assert switched.attached.container.name == "mine-2"
    assert world.progress.warnings == ["the container keeps the name mine-2: podman broke off"]


def test_foreign_scheduler_is_not_replaced(world: World) -> None:
    world.kernel.attach("foreign", Holder(77, "scx_other"))
    with pytest.raises(SlotTakenError):
        switch(world.host, request(name="mine", replace=True), verify)


def test_container_that_never_attached_is_replaced_without_a_gap(world: World) -> None:
    idle = world.docker.add("scx_old")
    switched = switch(world.host, request(), verify)
    assert switched.replaced == idle
    assert switched.gap is None
    assert world.docker.containers == {}


def test_old_one_comes_back_when_the_new_one_is_refused(world: World, old: Container) -> None:
    world.runtime.behaviours[NEW] = die(1)
    world.runtime.logs[NEW] = b"libbpf: prog 'x': BPF program load failed: Permission denied\n"

    with pytest.raises(RolledBackError, match="scx_old runs again") as caught:
        switch(world.host, request(), verify)

    assert isinstance(caught.value.cause, RejectedError)
    assert caught.value.log
    assert world.runtime.containers == {}
    assert world.docker.fetch_container(old.id).state is ContainerState.RUNNING
    assert read_state(world.kernel.root).ops == "ops_scx_old"


def test_it_is_said_when_the_old_one_does_not_come_back_either(world: World, old: Container) -> None:
    world.runtime.behaviours[NEW] = die(1)
    world.docker.behaviours[OLD] = die(1)

    with pytest.raises(NotAttachedError, match="scx_old did not come back"):
        switch(world.host, request(), verify)

    assert world.runtime.containers == {}
    assert old.id in world.docker.containers  # with its log


@pytest.mark.parametrize("step", ["pulling", "creating", "stopping", "waiting"])
def test_ctrl_c_leaves_the_old_one_as_it_was(world: World, old: Container, step: str) -> None:
    world.runtime.behaviours[NEW] = do_nothing
    with pytest.raises(KeyboardInterrupt):
        switch(world.interrupt(step), request(), verify)

    assert world.runtime.containers == {}
    assert world.docker.fetch_container(old.id).state is ContainerState.RUNNING
    kernel = read_state(world.kernel.root)
    assert (kernel.state, kernel.ops) == (State.ENABLED, "ops_scx_old")
    assert not is_held(world.machine.lock)


def test_one_that_ignores_sigterm_is_killed(world: World, old: Container) -> None:
    world.docker.ignores_term.add(OLD)
    switch(world.host, request(), verify, stop_timeout=0.2)
    assert world.docker.calls[:2] == ["SIGTERM", "SIGKILL"]
    assert "killed" in world.progress.warnings[0]


def test_switch_leaves_a_foreign_scheduler_alone(world: World) -> None:
    world.kernel.attach("foreign", Holder(77, "x"))
    with pytest.raises(SlotTakenError, match="process 77") as caught:
        switch(world.host, request(), verify)
    assert "detach" in caught.value.hint
    world.kernel.holder = Holder(77, "x", unit="scx_loader.service")
    with pytest.raises(SlotTakenError, match=r"process 77 \(x\) of scx_loader\.service") as caught:
        switch(world.host, request(), verify)
    assert caught.value.hint == "end it by `schedctl import scx_loader`"


def test_switch_does_not_choose_among_several(world: World, old: Container) -> None:
    world.runtime.add("scx_other")
    with pytest.raises(UsageError, match="scx_other, scx_old"):
        switch(world.host, request(), verify)


def test_new_version_of_the_same_scheduler_gets_a_name_of_its_own(world: World) -> None:
    container = world.runtime.add("scx_new")
    world.kernel.attach("ops_scx_new", world.runtime.hold(container))
    switched = switch(world.host, request(), verify)
    assert switched.attached.container.name == "scx_new-2"
    assert list(world.runtime.containers) == [switched.attached.container.id]


def test_stall_of_the_old_one_is_not_told_of_the_new_one(world: World, old: Container) -> None:
    kmsg = world.kernel.root / "dev/kmsg"
    kmsg.parent.mkdir()
    kmsg.touch()
    stalled = '4,1,1,-;sched_ext: BPF scheduler "old" disabled (runnable task stall)\n'

    def die_late(runtime: FakeRuntime, id: str) -> None:
        with kmsg.open("a") as log:  # the kernel may be late with its words as well
            log.write(stalled)
        die(2)(runtime, id)

    def note_stall(id: str, number: int) -> None:
        with kmsg.open("a") as log:
            log.write(stalled)

    world.docker.on_signal = note_stall
    world.runtime.behaviours["localhost/scx_new:v1"] = die_late
    world.runtime.logs["localhost/scx_new:v1"] = b"error: unexpected argument '--x' found\n"
    with pytest.raises(RolledBackError, match="scx_new ended before it attached, with exit code 2") as caught:
        switch(world.host, request(), verify)
    assert isinstance(caught.value.cause, NotAttachedError)


def test_words_of_the_run_before_do_not_explain_the_way_back(world: World, old: Container) -> None:
    world.docker.logs[OLD] = b"cannot attach x: EBUSY\n"
    world.docker.said[old.id] = [(0.0, b'ejected x: kind=1026 code=0 reason="runnable task stall" message="5s"\n')]
    world.docker.behaviours[OLD] = die(1)
    world.runtime.behaviours["localhost/scx_new:v1"] = die(1)
    with pytest.raises(NotAttachedError, match=r"did not come back: scx_old was refused as busy \(EBUSY\)"):
        switch(world.host, request(), verify)


def test_stall_before_the_start_is_not_told_of_a_new_version_of_the_same(world: World, old: Container) -> None:
    kmsg = world.kernel.root / "dev/kmsg"
    kmsg.parent.mkdir()
    kmsg.touch()

    def note_stall(id: str, number: int) -> None:
        with kmsg.open("a") as log:
            log.write('4,1,1,-;sched_ext: BPF scheduler "old_1.2.3" disabled (runnable task stall)\n')

    world.docker.on_signal = note_stall
    world.runtime.behaviours[OLD] = die(2)
    with pytest.raises(RolledBackError, match="scx_old ended before it attached, with exit code 2"):
        switch(world.host, request("scx_old"), verify)
