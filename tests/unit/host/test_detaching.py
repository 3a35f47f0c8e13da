import pytest

from schedkit.errors import BusyError, NotFoundError, UnavailableError, UsageError
from schedkit.host.detaching import end_foreign, find_foreign
from schedkit.host.errors import NotDetachedError
from schedkit.kernel.detach import Way
from schedkit.kernel.holder import Holder
from schedkit.kernel.state import State
from schedkit.runtimes.view import UnreachableRuntime
from schedkit.unknown import Unknown
from tests.unit.host.fakes import World

HIDDEN = UnreachableRuntime("docker", "/run/docker.sock", "silent", absent=False)


@pytest.fixture(autouse=True)
def way(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedkit.host.detaching.find_way", lambda root: Way("detach BPF link 17", 17))
    monkeypatch.setattr("schedkit.host.detaching.detach", lambda way, root: world.kernel.detach())


def test_foreign_scheduler_is_described_and_ended(world: World) -> None:
    world.kernel.attach("foreign", Holder(7, "scx_foreign"))
    foreign = find_foreign(world.host)
    assert foreign.describe() == (
        "foreign is attached, by process 7 (scx_foreign); it will be ended by: detach BPF link 17"
    )
    assert end_foreign(world.host, foreign).after.state is State.DISABLED


def test_ours_is_not_detached_but_stopped(world: World) -> None:
    container = world.runtime.add("scx_a")
    world.kernel.attach("a", world.runtime.hold(container))
    with pytest.raises(UsageError) as caught:
        find_foreign(world.host)
    assert caught.value.hint == "`schedctl stop scx_a` ends it"


def test_empty_slot_has_nothing_to_detach(world: World) -> None:
    with pytest.raises(NotFoundError, match="no scheduler is attached"):
        find_foreign(world.host)


def test_no_way_says_why(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedkit.host.detaching.find_way", lambda root: Unknown("not root"))
    world.kernel.attach("foreign", Unknown("not root"))
    with pytest.raises(UnavailableError, match="not root"):
        find_foreign(world.host)


def test_another_that_came_meanwhile_is_left_alone(world: World) -> None:
    world.kernel.attach("foreign", Holder(7, "x"))
    foreign = find_foreign(world.host)
    world.kernel.detach()
    world.kernel.attach("newcomer", Holder(8, "y"))
    with pytest.raises(BusyError, match="newcomer came"):
        end_foreign(world.host, foreign)


def test_one_that_left_by_itself_is_fine(world: World) -> None:
    world.kernel.attach("foreign", Holder(7, "x"))
    foreign = find_foreign(world.host)
    world.kernel.detach()
    assert end_foreign(world.host, foreign).after.state is State.DISABLED
    assert world.progress.steps == []


def test_one_that_stays_is_an_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedkit.host.detaching.detach", lambda way, root: None)
    monkeypatch.setattr("schedkit.host.detaching._DETACH_SECONDS", 0.1)
    world.kernel.attach("foreign", Holder(7, "x"))
    with pytest.raises(NotDetachedError):
        end_foreign(world.host, find_foreign(world.host))


def test_container_behind_a_silent_driver_may_be_ours(world: World) -> None:
    world.kernel.attach("x", Holder(7, "x", container="b" * 64))
    assert "docker does not respond" in find_foreign(world.hide(HIDDEN)).doubt
    world.kernel.holder = Holder(7, "x", container="b" * 64, pod="1234")
    assert find_foreign(world.hide(HIDDEN)).doubt == ""
    assert find_foreign(world.hide(HIDDEN)).returns
    world.kernel.holder = Holder(7, "x")
    assert find_foreign(world.hide(HIDDEN)).doubt == ""


def test_container_of_a_runtime_without_a_socket_may_be_ours(world: World) -> None:
    absent = HIDDEN._replace(absent=True)
    for holder in (
        Holder(7, "x", container="b" * 64, driver="docker"),
        Holder(7, "x", container=Unknown("/proc/7/cgroup: Input/output error")),
    ):
        world.kernel.detach()
        world.kernel.attach("x", holder)
        assert "docker does not respond" in find_foreign(world.hide(absent)).doubt
    world.kernel.holder = Holder(7, "x", container="b" * 64, driver="podman")
    assert find_foreign(world.hide(absent)).doubt == ""
    assert find_foreign(world.hide(HIDDEN)).doubt == ""


def test_container_that_runs_under_a_holder_who_cannot_be_read_may_be_it(world: World) -> None:
    world.runtime.add("scx_a")
    world.kernel.attach("a", Unknown("not root"))
    assert "the container scx_a runs, and who holds a could not be read" in find_foreign(world.host).doubt
