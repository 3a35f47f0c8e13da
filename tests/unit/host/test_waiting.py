"""Waiting for a kernel out of files; tests/e2e/test_schedctl_reading.py waits for a real one."""

import threading
from collections.abc import Callable

import pytest

from schedkit.errors import NoAnswerError, UnavailableError
from schedkit.host import waiting
from schedkit.host.errors import KernelUnfitError
from schedkit.host.events import EventKind, KernelEvent, SlotEvents
from schedkit.host.managed import observe
from schedkit.host.model import Observed
from schedkit.host.waiting import wait_for
from schedkit.kernel.holder import Holder
from schedkit.kernel.state import State
from schedkit.unknown import Unknown
from tests.unit.host.fakes import NOW, World


def wait(world: World, condition: EventKind, which: str | None = None, timeout: float = 0.05) -> waiting.Waited:
    return wait_for(world.machine, lambda: look(world), condition, which, timeout)


def look(world: World) -> Observed:
    return observe(world.machine, world.host.runtimes)


def attach(world: World, name: str) -> str:
    container = world.runtime.add(name)
    world.kernel.attach(f"ops_{name}", world.runtime.hold(container))
    return container.id


def soon(change: Callable[[], object]) -> None:
    threading.Timer(0.1, change).start()


def test_what_is_so_already_is_not_waited_for(world: World) -> None:
    assert wait(world, EventKind.DETACHED).seconds < 1
    attach(world, "scx_a")
    waited = wait(world, EventKind.ATTACHED)
    assert waited.kernel is not None
    assert waited.kernel.ops == "ops_scx_a"


def test_attach_and_detach_are_waited_for(world: World) -> None:
    soon(lambda: attach(world, "scx_a"))
    assert wait(world, EventKind.ATTACHED, timeout=20).seconds > 0.05
    soon(world.kernel.detach)
    assert wait(world, EventKind.DETACHED, timeout=20).seconds > 0.05


def test_a_scheduler_is_known_by_its_names_and_by_those_of_its_container(world: World) -> None:
    id = attach(world, "mine")
    for which in ("mine", id[:6], "ops_mine"):
        assert wait(world, EventKind.ATTACHED, which).kernel
        with pytest.raises(NoAnswerError):
            wait(world, EventKind.DETACHED, which)
    with pytest.raises(NoAnswerError, match=r"scx_other was not attached within 0\.05 s"):
        wait(world, EventKind.ATTACHED, "scx_other")
    assert wait(world, EventKind.DETACHED, "scx_other").kernel, "another one has the slot"


def test_one_that_nobody_manages_is_known_by_the_kernels_name(world: World) -> None:
    world.kernel.attach("rusty_1.1.4_x86_64", Holder(77, "scx_rusty"))
    assert wait(world, EventKind.ATTACHED, "scx_rusty").kernel


def test_whose_it_is_while_that_is_unknown_is_neither_attached_nor_detached(world: World) -> None:
    world.runtime.add("mine")
    world.kernel.attach("something", Unknown("not root"))
    for condition in (EventKind.ATTACHED, EventKind.DETACHED):
        with pytest.raises(NoAnswerError):
            wait(world, condition, "mine")


def test_kernel_without_sched_ext_is_refused(world: World) -> None:
    for path in sorted(world.kernel.folder.rglob("*")):
        path.unlink()
    world.kernel.folder.rmdir()
    for condition in EventKind:
        with pytest.raises(KernelUnfitError):
            wait(world, condition)


def test_runtimes_are_asked_once_for_each_scheduler_that_comes(world: World) -> None:
    attach(world, "scx_a")
    asked = []

    def count() -> Observed:
        asked.append(1)
        return look(world)

    with pytest.raises(NoAnswerError):
        wait_for(world.machine, count, EventKind.ATTACHED, "scx_other", 0.5)
    assert len(asked) == 1


def make_log(world: World) -> None:
    (world.kernel.root / "dev").mkdir()
    (world.kernel.root / "dev/kmsg").touch()


def test_ejection_is_waited_for_and_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    make_log(world)
    nobody = Unknown("it left")
    told = [
        [KernelEvent(NOW, EventKind.ATTACHED, "scx_a", nobody)],
        [KernelEvent(NOW, EventKind.DETACHED, "scx_a", nobody, "unregistered from user space")],
        [KernelEvent(NOW, EventKind.EJECTED, "other", nobody, "runtime error")],
        [KernelEvent(NOW, EventKind.EJECTED, "scx_a", nobody, "runnable task stall")],
    ]
    monkeypatch.setattr(SlotEvents, "wait", lambda *_: told.pop(0))
    waited = wait(world, EventKind.EJECTED, "scx_a", timeout=20)
    assert waited.event is not None
    assert (waited.event.reason, waited.kernel) == ("runnable task stall", None)


def test_ejection_is_not_waited_for_where_it_could_not_be_seen(world: World) -> None:
    with pytest.raises(UnavailableError, match="dev/kmsg: No such file"):
        wait(world, EventKind.EJECTED)


def test_ejection_that_does_not_come_is_a_timeout(world: World) -> None:
    make_log(world)
    with pytest.raises(NoAnswerError, match=r"a scheduler was not ejected within 0\.05 s"):
        wait(world, EventKind.EJECTED)
    assert world.kernel.folder.joinpath("state").read_text().strip() == State.DISABLED
