import pytest

from schedkit.errors import NotFoundError, UnavailableError, UsageError
from schedkit.host.errors import NotDetachedError
from schedkit.host.stop import stop, stop_all
from schedkit.kernel.holder import Holder
from schedkit.runtimes.container import Container, ContainerState
from schedkit.runtimes.view import UnreachableRuntime
from tests.unit.host.fakes import World


def add_attached(world: World, name: str) -> Container:
    container = world.runtime.add(name)
    world.kernel.attach(name, world.runtime.hold(container))
    return container


def test_the_only_one_needs_no_name(world: World) -> None:
    container = add_attached(world, "scx_a")
    stopped = stop(world.host, None)
    assert stopped.container == container
    assert stopped.was_attached
    assert not stopped.killed
    assert world.runtime.calls == ["SIGTERM", "remove"]


@pytest.mark.parametrize("which", ["scx_b", "scx_b-docker"])
def test_one_of_several_is_found_by_name_and_by_the_beginning_of_its_id(world: World, which: str) -> None:
    world.runtime.add("scx_a")
    wanted = world.docker.add("scx_b")
    assert stop(world.host, which).container == wanted


def test_container_is_found_by_its_scheduler(world: World) -> None:
    wanted = world.runtime.add("mine", labels={"org.schedkit.scheduler": "scx_rusty"})
    assert stop(world.host, "scx_rusty").container == wanted


def test_several_are_listed_and_none_is_stopped(world: World) -> None:
    world.runtime.add("scx_a")
    world.docker.add("scx_b")
    with pytest.raises(UsageError, match=r"which one\? scx_a \(podman scx_a-podman\), scx_b"):
        stop(world.host, None)
    assert world.runtime.calls == world.docker.calls == []


def test_what_runs_goes_before_what_has_ended(world: World) -> None:
    world.docker.add("scx_a", ContainerState.EXITED)
    running = world.runtime.add("scx_a")
    assert stop(world.host, "scx_a").container == running


@pytest.mark.parametrize("state", [ContainerState.CREATED, ContainerState.EXITED])
def test_leftover_is_removed(world: World, state: ContainerState) -> None:
    world.runtime.add("scx_a", state)
    stop(world.host, "scx_a")
    assert world.runtime.containers == {}
    assert world.runtime.calls == ["remove"]


def test_nothing_there_is_not_found_unless_all_are_meant(world: World) -> None:
    with pytest.raises(NotFoundError, match="schedctl has no container"):
        stop(world.host, None)
    with pytest.raises(NotFoundError, match="called scx_x"):
        stop(world.host, "scx_x")
    assert stop_all(world.host) == ([], [])


@pytest.mark.parametrize("which", [None, "scx_x"])
@pytest.mark.parametrize(
    ("holder", "hint"),
    [
        (Holder(7, "scx_x"), "end it where it was started, or by `schedctl detach`"),
        (Holder(7, "scx_x", unit="scx.service"), "end it by `systemctl disable --now scx`"),
        (Holder(7, "scx_x", container="b" * 64, pod="?"), "the cluster runs it: change it there"),
    ],
)
def test_not_found_names_the_foreign_scheduler_and_how_to_end_it(
    world: World, which: str | None, holder: Holder, hint: str
) -> None:
    world.kernel.attach("x_ops", holder)
    with pytest.raises(NotFoundError, match=r"; x_ops is attached, by process 7 .*, not managed by schedctl") as caught:
        stop(world.host, which)
    assert caught.value.hint == hint


def test_not_found_claims_nothing_of_a_kernel_that_cannot_be_read(world: World) -> None:
    (world.kernel.folder / "state").unlink()
    (world.kernel.folder / "state").mkdir()
    with pytest.raises(NotFoundError, match=r"^schedctl has no container$") as caught:
        stop(world.host, None)
    assert caught.value.hint == "`schedctl status` shows what the kernel runs"


def test_not_found_says_how_to_list_containers_where_there_are_some(world: World) -> None:
    world.runtime.add("scx_a")
    with pytest.raises(NotFoundError) as caught:
        stop(world.host, "scx_x")
    assert caught.value.hint == "`schedctl ps --all` lists them"


def test_not_found_says_whom_it_could_not_ask(world: World) -> None:
    hidden = UnreachableRuntime("docker", "/run/docker.sock", "connection refused", absent=False)
    with pytest.raises(UnavailableError, match=r"not every runtime could be asked: docker .*connection refused"):
        stop(world.hide(hidden), None)


def test_all_are_stopped_and_the_silent_driver_is_told(world: World) -> None:
    world.runtime.add("scx_a")
    world.runtime.add("scx_b", ContainerState.EXITED)
    world.docker.broken = UnavailableError("docker broke off")
    assert len(stop_all(world.host)[0]) == 2
    assert world.runtime.containers == {}
    assert "docker does not respond (docker broke off)" in world.progress.warnings[0]


def test_one_that_ignores_sigterm_is_killed(world: World) -> None:
    add_attached(world, "scx_a")
    world.runtime.ignores_term.add("localhost/scx_a:v1")
    stopped = stop(world.host, None, timeout=0.2)
    assert stopped.killed
    assert stopped.exit_code == 137
    assert world.runtime.calls == ["SIGTERM", "SIGKILL", "remove"]


def test_kernel_that_does_not_let_go_is_an_error_of_its_own(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    container = world.runtime.add("scx_a")
    # A child of its first process holds the link and outlives it.
    world.kernel.attach("scx_a", Holder(999_999, "child", container=container.id))
    monkeypatch.setattr("schedkit.host.stop._DETACH_SECONDS", 0.2)
    with pytest.raises(NotDetachedError, match=r"still says enabled, by process 999999 \(child\)") as caught:
        stop(world.host, None)
    assert "schedctl detach" in caught.value.hint
    assert world.runtime.containers == {}


def test_container_of_a_runtime_without_a_socket_is_not_said_to_be_absent(world: World) -> None:
    absent = UnreachableRuntime("docker", "/run/docker.sock", "no such socket", absent=True)
    with pytest.raises(NotFoundError):
        stop(world.hide(absent), None)
    world.kernel.attach("a", Holder(7, "scx_a", container="b" * 64, driver="docker"))
    with pytest.raises(UnavailableError, match="docker does not respond"):
        stop(world.hide(absent), None)


def test_all_are_stopped_whatever_becomes_of_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    leftover = world.runtime.add("scx_left", ContainerState.EXITED)
    running = world.runtime.add("scx_a")
    world.kernel.attach("a", world.runtime.hold(running))
    remove = world.runtime.remove

    def refuse(id: str) -> None:
        if id == leftover.id:
            raise UnavailableError("the disk is read-only")
        remove(id)

    monkeypatch.setattr(world.runtime, "remove", refuse)
    stopped, failed = stop_all(world.host)
    assert [one.container.name for one in stopped] == ["scx_a"]
    assert [(one.container.name, one.error.message) for one in failed] == [("scx_left", "the disk is read-only")]
    assert world.runtime.calls == ["SIGTERM", "remove"]
