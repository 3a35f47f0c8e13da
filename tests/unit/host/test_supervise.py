import os
import sys
from pathlib import Path

import pytest

from schedkit.errors import UnavailableError, UsageError
from schedkit.host.lock import is_held
from schedkit.host.managed import supervisor_lock
from schedkit.host.model import Restart, parse_restart
from schedkit.host.supervise import spawn_supervisor, supervise, supervisor_log
from schedkit.kernel.holder import Holder
from schedkit.runtimes.container import Container
from schedkit.runtimes.labels import Label
from tests.unit.host.fakes import World, die


class Clock:
    """Time that passes only by sleeping, and as long as each run is said to last."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self.lifetime = 0.0

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def read(self) -> float:
        self.now += self.lifetime
        return self.now


def start(world: World, restart: str) -> Container:
    return world.runtime.add("scx_a", labels={Label.RESTART.value: restart})


def watch(world: World, container: Container, clock: Clock) -> list[str]:
    notes: list[str] = []
    supervise(world.machine, world.runtime, container.id, notes.append, sleep=clock.sleep, clock=clock.read)
    return notes


def end(world: World, container: Container, code: int) -> None:
    die(code)(world.runtime, container.id)


def test_pauses_grow_and_times_limits_the_restarts(world: World) -> None:
    container = start(world, "on-failure:8")
    end(world, container, 1)
    world.runtime.behaviours[container.image] = die(1)
    clock = Clock()
    notes = watch(world, container, clock)
    assert clock.pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    assert notes[-1] == "scx_a failed again after 8 restarts: giving up"
    assert world.runtime.calls.count("start") == 8


def test_one_that_ran_steadily_begins_anew(world: World) -> None:
    container = start(world, "on-failure:2")
    end(world, container, 1)
    world.runtime.behaviours[container.image] = die(1)
    clock = Clock()
    clock.lifetime = 61.0

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        if len(clock.pauses) == 5:
            clock.lifetime = 0.0

    supervise(world.machine, world.runtime, container.id, print, sleep=sleep, clock=clock.read)
    assert clock.pauses == [1, 1, 1, 1, 1, 2]


def test_scheduler_that_ends_in_peace_is_left_in_peace(world: World) -> None:
    container = start(world, "on-failure")
    end(world, container, 0)
    clock = Clock()
    assert watch(world, container, clock)[-1] == "scx_a ended with exit code 0: it stays so"
    assert clock.pauses == []


def test_restarted_scheduler_is_seen_to_attach(world: World) -> None:
    container = start(world, "on-failure")
    end(world, container, 1)
    notes: list[str] = []

    def note(text: str) -> None:
        notes.append(text)
        if "is attached again" in text:
            world.kernel.detach()
            end(world, container, 0)

    supervise(world.machine, world.runtime, container.id, note, sleep=Clock().sleep)
    assert [text for text in notes if "is attached again" in text]
    assert notes[-1].endswith("it stays so")


def test_removed_container_ends_the_supervisor_and_its_files(world: World) -> None:
    container = start(world, "on-failure")
    end(world, container, 1)
    supervisor_log(world.machine, container.id).parent.mkdir(parents=True, exist_ok=True)
    supervisor_log(world.machine, container.id).write_text("old\n")
    clock = Clock()

    def sleep(seconds: float) -> None:
        assert is_held(supervisor_lock(world.machine, container.id))
        world.runtime.remove(container.id)

    supervise(world.machine, world.runtime, container.id, print, sleep=sleep, clock=clock.read)
    assert world.runtime.calls == ["remove"]
    assert not supervisor_log(world.machine, container.id).exists()
    assert not is_held(supervisor_lock(world.machine, container.id))


def test_slot_taken_by_another_ends_it_with_a_line(world: World) -> None:
    container = start(world, "on-failure")
    end(world, container, 1)
    world.kernel.attach("foreign", Holder(7, "x"))
    assert watch(world, container, Clock())[-1].startswith("giving up on scx_a: foreign is attached already")
    assert "start" not in world.runtime.calls


def test_runtime_that_goes_away_is_waited_for(world: World) -> None:
    container = start(world, "on-failure")
    end(world, container, 0)
    world.runtime.broken = UnavailableError("gone")
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            world.runtime.broken = None

    supervise(world.machine, world.runtime, container.id, print, sleep=sleep)
    assert pauses == [1, 2, 4]


def test_container_that_somebody_started_again_is_watched_on(world: World) -> None:
    container = start(world, "on-failure")
    end(world, container, 1)
    world.runtime.behaviours[container.image] = die(0)

    def sleep(seconds: float) -> None:
        world.runtime.start(container.id)

    notes: list[str] = []
    supervise(world.machine, world.runtime, container.id, notes.append, sleep=sleep)
    assert world.runtime.calls == ["start"]
    assert "exit code 0" in notes[-1]


def test_spawned_supervisor_outlives_its_parents_session(tmp_path: Path) -> None:
    log = tmp_path / "run/log"
    pid = spawn_supervisor([sys.executable, "-c", "import os; print(os.getsid(0) == os.getpid())"], log)
    os.waitpid(pid, 0)
    assert log.read_text() == "True\n"


@pytest.mark.parametrize(
    ("text", "restart"),
    [("no", Restart()), ("on-failure", Restart(True)), ("on-failure:3", Restart(True, 3))],
)
def test_restart_policies_read_as_they_are_written(text: str, restart: Restart) -> None:
    assert parse_restart(text) == restart
    assert str(restart) == text


@pytest.mark.parametrize("text", ["always", "on-failure:", "on-failure:0", "on-failure:-1", "on-failure:x", "no:3"])
def test_other_policies_are_usage_errors(text: str) -> None:
    with pytest.raises(UsageError, match="is no restart policy"):
        parse_restart(text)
