"""`run --attach` as the host's verb; tests/integration/runtimes restarts real daemons under it."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedkit.errors import NotFoundError, UnavailableError
from schedkit.host.errors import EjectedError, RolledBackError
from schedkit.host.following import follow, stream
from schedkit.host.lock import hold_lock
from schedkit.host.run import check_run, find_same, remove_unattached, run
from schedkit.host.switch import switch
from schedkit.kernel.state import State, read_state
from schedkit.runtimes.container import Container, ContainerState
from schedkit.runtimes.view import Runtimes
from tests.unit.host.fakes import FakeRuntime, World, die, do_nothing, request, verify

IMAGE = "localhost/scx_new:v1"


class Flaky(FakeRuntime):
    """A runtime whose streams of output a test lets end or break."""

    def __init__(self, world: World) -> None:
        super().__init__(world.kernel)
        self.streams: list[Iterator[bytes]] = []
        self.asked: list[tuple[int | None, float | None]] = []

    def stream_logs(
        self,
        id: str,
        *,
        follow: bool = False,
        tail: int | None = None,
        since: float | None = None,
        timestamps: bool = False,
    ) -> Iterator[bytes]:
        self.asked.append((tail, since))
        yield from self.streams.pop(0) if self.streams else iter(())


@pytest.fixture
def flaky(world: World) -> Iterator[Flaky]:
    runtime = Flaky(world)
    yield runtime
    runtime.close()


def breaks(*pieces: bytes) -> Iterator[bytes]:
    yield from pieces
    raise UnavailableError("podman at /run/podman.sock broke off")


def test_stream_goes_on_after_its_runtime_was_away(world: World, flaky: Flaky) -> None:
    container = flaky.add("scx_a")
    flaky.streams = [breaks(b"one\n"), breaks(), iter([b"two\n"]), iter([b"three\n"])]

    def end_at_last(_: float) -> None:
        if len(flaky.asked) == 3:
            flaky.processes[container.id].kill()
            flaky.processes[container.id].wait()

    before = time.time()
    assert list(stream(flaky, container.id, world.progress, tail=5, sleep=end_at_last)) == [
        b"one\n",
        b"two\n",
        b"three\n",
    ]
    assert [tail for tail, _ in flaky.asked] == [5, None, None, None]
    assert all(since is not None and since >= before for _, since in flaky.asked[1:])
    assert (
        world.progress.warnings
        == ["podman at /run/podman.sock broke off; the scheduler keeps running, and podman is waited for"] * 2
    )
    assert world.progress.steps == ["podman responds again"] * 2


def test_stream_ends_where_its_container_ended_meanwhile(world: World, flaky: Flaky) -> None:
    container = flaky.add("scx_a")
    flaky.streams = [breaks(b"one\n")]

    def end(_: float) -> None:
        flaky.processes[container.id].kill()
        flaky.processes[container.id].wait()

    assert list(stream(flaky, container.id, world.progress, sleep=end)) == [b"one\n"]


def start_attached(world: World) -> Container:
    return run(world.host, request(), verify).container


def end_later(world: World, container: Container, code: int = 0) -> None:
    """Its process ends, as by itself."""
    world.kernel.detach()
    die(code)(world.runtime, container.id)
    world.runtime.processes[container.id].wait()


def test_container_that_ended_by_itself_is_told_and_removed(world: World) -> None:
    container = start_attached(world)
    world.runtime.said[container.id] = [(0.0, b"bye\n")]
    end_later(world, container, code=3)
    said: list[bytes] = []
    ended = follow(world.host, container, "ops_scx_new", said.append)
    assert ended is not None
    assert (ended.exit_code, said) == (3, [b"bye\n"])
    assert world.runtime.containers == {}


def test_ejection_is_told_if_it_was_this_scheduler(world: World) -> None:
    kmsg = world.kernel.root / "dev/kmsg"
    kmsg.parent.mkdir()
    kmsg.touch()
    container = start_attached(world)

    def write(_: bytes) -> None:
        with kmsg.open("a") as log:
            log.write('4,1,1,-;sched_ext: BPF scheduler "ops_scx_new" disabled (runnable task stall)\n')

    world.runtime.said[container.id] = [(0.0, b"x")]
    end_later(world, container, code=1)
    with pytest.raises(EjectedError, match="the kernel ejected ops_scx_new: runnable task stall"):
        follow(world.host, container, "ops_scx_new", write)
    assert world.runtime.containers == {}


def test_stream_that_ends_while_the_container_lives_ends_nothing(world: World) -> None:
    container = start_attached(world)
    looks: list[float] = []

    def look(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            end_later(world, container)

    assert follow(world.host, container, "ops_scx_new", lambda _: None, sleep=look) is not None
    assert len(looks) == 3
    assert "SIGTERM" not in world.runtime.calls


def test_replaced_container_is_left_to_who_replaces_it(world: World) -> None:
    """`switch` stops the old one and may need it again: whoever follows it waits for the lock, and looks again."""
    container = start_attached(world)
    results: list[Container | None] = []
    with hold_lock(world.machine.lock):
        end_later(world, container)
        follower = threading.Thread(
            target=lambda: results.append(follow(world.host, container, "ops_scx_new", lambda _: None)), daemon=True
        )
        follower.start()
        time.sleep(0.5)
        assert container.id in world.runtime.containers  # a way back exists
        world.runtime.containers.pop(container.id)  # the switch has succeeded
    follower.join(10)
    assert results == [None]


def test_switch_finds_its_way_back_beside_a_follower(world: World) -> None:
    container = start_attached(world)
    world.runtime.behaviours["localhost/scx_other:v1"] = die(2)
    results: list[Container | None] = []
    follower = threading.Thread(
        target=lambda: results.append(follow(world.host, container, "ops_scx_new", lambda _: None)), daemon=True
    )
    follower.start()
    with pytest.raises(RolledBackError):
        switch(world.host, request("scx_other"), verify)
    assert read_state(world.machine.root).state is State.ENABLED
    time.sleep(0.5)
    assert follower.is_alive()  # it runs again, and is followed again
    end_later(world, container)
    follower.join(10)
    assert [one and one.name for one in results] == ["scx_new"]


def test_ctrl_c_stops_it(world: World) -> None:
    container = start_attached(world)
    world.runtime.said[container.id] = [(0.0, b"x")]

    def interrupt(_: bytes) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow(world.host, container, "ops_scx_new", interrupt)
    assert world.runtime.containers == {}
    assert read_state(world.machine.root).state is State.DISABLED


def test_ctrl_c_stops_it_also_while_its_runtime_is_away(world: World) -> None:
    container = start_attached(world)
    world.runtime.said[container.id] = [(0.0, b"x")]

    def interrupt(_: bytes) -> None:
        world.runtime.broken = UnavailableError("podman is away")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow(world.host, container, "ops_scx_new", interrupt)
    assert world.runtime.processes[container.id].wait(5) == -15
    assert "its process is ended without its runtime" in world.progress.warnings[-1]


def test_ctrl_c_ends_the_process_that_a_way_back_started(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    container = start_attached(world)
    end_later(world, container)
    fetch, started = world.runtime.fetch_container, False

    def bring_back(id: str) -> Container:
        """As a switch does that failed, between the end that was seen and the lock."""
        nonlocal started
        now = fetch(id)
        if now.state is ContainerState.EXITED and not started:
            started = True
            world.runtime.start(id)
        return now

    def interrupt(seconds: float) -> None:
        world.runtime.broken = UnavailableError("podman is away")
        raise KeyboardInterrupt

    monkeypatch.setattr(world.runtime, "fetch_container", bring_back)
    with pytest.raises(KeyboardInterrupt):
        follow(world.host, container, "ops_scx_new", lambda _: None, sleep=interrupt)
    assert started
    assert world.runtime.processes[container.id].wait(5) == -15


@pytest.mark.parametrize("away", [True, False])
def test_ctrl_c_ends_what_a_way_back_started_while_the_stream_was_away(world: World, flaky: Flaky, away: bool) -> None:
    """The stream goes on by itself where the container runs again, which it does in another process."""
    container = flaky.add("scx_a")

    def bring_back() -> Iterator[bytes]:
        flaky.processes[container.id].kill()
        flaky.processes[container.id].wait()
        flaky.start(container.id)
        yield from breaks() if away else ()

    def interrupt(_: bytes) -> None:
        flaky.broken = UnavailableError("podman is away")
        raise KeyboardInterrupt

    flaky.streams = [bring_back(), iter([b"back\n"])]
    host = world.host._replace(runtimes=Runtimes([flaky]))
    with pytest.raises(KeyboardInterrupt):
        follow(host, container, "ops_scx_a", interrupt, sleep=lambda _: None)
    assert flaky.processes[container.id].wait(5) == -15


def test_ctrl_c_does_not_claim_that_it_ended_where_nobody_knows(world: World) -> None:
    container = start_attached(world)
    world.runtime.said[container.id] = [(0.0, b"x")]

    def interrupt(_: bytes) -> None:
        end_later(world, container)
        world.runtime.broken = UnavailableError("podman is away")
        raise KeyboardInterrupt

    with pytest.raises(UnavailableError):
        follow(world.host, container, "ops_scx_new", interrupt)


def test_same_image_with_the_same_arguments_is_taken_over(world: World) -> None:
    """After a SIGKILL of `run --attach` the container lives: starting it again takes it over."""
    container = run(world.host, request(args=("-v",)), verify).container
    same = find_same(world.host, lambda: IMAGE, ("-v",))
    assert same is not None
    assert same.container == container
    assert find_same(world.host, lambda: IMAGE, ("-v",), "scx_new") == same
    assert find_same(world.host, lambda: IMAGE, ("-v",), files=("/etc/layers.json",)) is None
    for reference, args, name in ((IMAGE, (), None), ("localhost/x:v1", ("-v",), None), (IMAGE, ("-v",), "other")):
        assert find_same(world.host, lambda reference=reference: reference, args, name) is None  # type: ignore[misc]


def test_image_of_a_name_is_asked_for_only_where_something_could_be_it(world: World) -> None:
    """As catalogs may have to be fetched, and what is in the slot comes before the network."""
    asked: list[str] = []

    def find_reference() -> str:
        asked.append("catalog")
        raise NotFoundError("the catalog has no scheduler 'scx_new'")

    assert find_same(world.host, find_reference, ()) is None
    foreign = world.docker.add("other")
    world.docker.containers.clear()
    world.kernel.attach("other", world.docker.hold(foreign))
    assert find_same(world.host, find_reference, ()) is None
    world.kernel.detach()
    run(world.host, request(args=("-v",)), verify)
    assert find_same(world.host, find_reference, ()) is None
    assert find_same(world.host, find_reference, ("-v",), "other") is None
    assert asked == []
    assert find_same(world.host, find_reference, ("-v",)) is None
    assert asked == ["catalog"]


def test_what_was_left_before_it_attached_gives_way(world: World) -> None:
    world.runtime.behaviours[IMAGE] = do_nothing
    run(world.host, request(wait=False), verify)
    same = find_same(world.host, lambda: IMAGE, ())
    assert same is not None
    remove_unattached(world.host, same)
    assert world.runtime.containers == {}
    check_run(world.host, "scx_new")


def test_what_attached_meanwhile_does_not_give_way(world: World) -> None:
    world.runtime.behaviours[IMAGE] = do_nothing
    container = run(world.host, request(wait=False), verify).container
    same = find_same(world.host, lambda: IMAGE, ())
    assert same is not None
    world.kernel.attach("new", world.runtime.hold(container))
    remove_unattached(world.host, same)
    assert list(world.runtime.containers) == [container.id]


def test_container_that_is_gone_is_replaced(world: World, tmp_path: Path) -> None:
    container = start_attached(world)
    world.kernel.detach()
    world.runtime.containers.pop(container.id)
    with pytest.raises(NotFoundError):
        world.runtime.fetch_container(container.id)
    assert follow(world.host, container, "ops_scx_new", lambda _: None) is None
    assert container.state is ContainerState.RUNNING
