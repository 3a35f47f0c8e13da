import pytest

from schedkit.errors import NotFoundError
from schedkit.host.errors import NotAttachedError, SlotTakenError
from schedkit.host.restart import restart
from schedkit.kernel.holder import Holder
from schedkit.runtimes.container import ContainerState
from tests.unit.host.fakes import World, die


def test_same_container_runs_again(world: World) -> None:
    container = world.runtime.add("scx_a")
    world.kernel.attach("ops_scx_a", world.runtime.hold(container))
    attached = restart(world.host, None, timeout=5)
    assert (attached.container.id, attached.ops) == (container.id, "ops_scx_a")
    assert world.runtime.calls == ["SIGTERM", "start"]
    assert world.kernel.sequence == 2
    assert attached.container.pid != container.pid


def test_one_that_ended_runs_again_if_the_slot_is_free(world: World) -> None:
    world.runtime.add("scx_a", ContainerState.EXITED)
    assert restart(world.host, "scx_a", timeout=5).ops == "ops_scx_a"
    world.runtime.add("scx_b", ContainerState.EXITED)
    with pytest.raises(SlotTakenError):
        restart(world.host, "scx_b", timeout=5)


def test_one_that_does_not_attach_again_is_removed(world: World) -> None:
    container = world.runtime.add("scx_a")
    world.kernel.attach("ops_scx_a", world.runtime.hold(container))
    world.runtime.behaviours[container.image] = die(3)
    with pytest.raises(NotAttachedError):
        restart(world.host, None, timeout=5)
    assert world.runtime.containers == {}


def test_what_others_run_is_not_restarted(world: World) -> None:
    world.kernel.attach("foreign", Holder(1, "init"))
    with pytest.raises(NotFoundError):
        restart(world.host, None, timeout=5)
    assert world.kernel.sequence == 1
