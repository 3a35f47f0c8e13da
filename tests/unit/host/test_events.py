"""What the kernel announces and what its log says, as events; tests/e2e/test_schedctl_reading.py has real ones."""

import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from schedkit.host.errors import KernelUnfitError
from schedkit.host.events import (
    EventKind,
    KernelEvent,
    Owner,
    SlotContent,
    SlotEvents,
    compare_state,
    follow_announcements,
    read_past_events,
)
from schedkit.host.managed import observe
from schedkit.host.model import Observed
from schedkit.kernel.changes import Announcement
from schedkit.kernel.holder import Holder
from schedkit.kernel.state import KernelState, State
from schedkit.unknown import Unknown
from tests.unit.host.fakes import NOW, World

ATTACHED, DETACHED, EJECTED = EventKind
STALL = (
    '3,286,228260616,-;sched_ext: BPF scheduler "ops_scx_a" disabled (runnable task stall)\n'
    "3,287,228263229,-;sched_ext: ops_scx_a: podman[105] failed to run for 3.508s\n"
)


def add(ops: str) -> Announcement:
    return Announcement("add", ops)


def remove(ops: str) -> Announcement:
    return Announcement("remove", ops)


@pytest.mark.parametrize(
    ("slot", "announced", "changes", "after"),
    [
        (SlotContent(None, 3), [add("a")], [(ATTACHED, "a")], SlotContent("a", 4)),
        (SlotContent("a", 4), [remove("a")], [(DETACHED, "a")], SlotContent(None, 4)),
        (SlotContent("a", 4), [remove("a"), add("b")], [(DETACHED, "a"), (ATTACHED, "b")], SlotContent("b", 5)),
        (SlotContent("a", 4), [remove("a"), add("a")], [(DETACHED, "a"), (ATTACHED, "a")], SlotContent("a", 5)),
        (SlotContent("a", 4), [add("a")], [], SlotContent("a", 4)),  # it was read from the state already
        (SlotContent(None, 4), [remove("a")], [], SlotContent(None, 4)),
        (SlotContent("a", 4), [add("b")], [(DETACHED, "a"), (ATTACHED, "b")], SlotContent("b", 5)),  # one was lost
        (SlotContent("a", 4), [add(""), remove("")], [], SlotContent("a", 4)),  # of a scheduler below it
    ],
)
def test_announcements_are_changes_unless_they_are_known(
    slot: SlotContent, announced: list[Announcement], changes: list[tuple[EventKind, str]], after: SlotContent
) -> None:
    assert follow_announcements(slot, announced) == (after, changes)


@pytest.mark.parametrize(
    ("slot", "kernel", "changes"),
    [
        (SlotContent("a", 4), KernelState(State.ENABLED, "a", 4), []),
        (SlotContent("a", 4), KernelState(State.ENABLED, "a", 3), []),  # its count comes a moment later
        (SlotContent("a", 4), KernelState(State.ENABLED, "a", 5), [(DETACHED, "a"), (ATTACHED, "a")]),
        (SlotContent("a", 4), KernelState(State.ENABLED, "b", 5), [(DETACHED, "a"), (ATTACHED, "b")]),
        (SlotContent("a", 4), KernelState(State.DISABLED, None, 4), [(DETACHED, "a")]),
        (SlotContent(None, 4), KernelState(State.ENABLED, "b", 5), [(ATTACHED, "b")]),
        (SlotContent("a", 4), KernelState(State.DISABLING, "a", 4), []),
        (SlotContent("a", 4), KernelState(Unknown("no permission")), []),
        (SlotContent("a", 4), KernelState(State.ENABLED, Unknown("it changed"), 5), []),
    ],
)
def test_state_shows_what_was_not_announced(
    slot: SlotContent, kernel: KernelState, changes: list[tuple[EventKind, str]]
) -> None:
    assert compare_state(slot, kernel)[1] == changes


def look(world: World) -> Observed:
    return observe(world.machine, world.host.runtimes)


@pytest.fixture
def events(world: World) -> Iterator[SlotEvents]:
    (world.kernel.root / "dev").mkdir()
    (world.kernel.root / "dev/kmsg").touch()
    with SlotEvents(world.machine, lambda: look(world), look_seconds=0.05) as events:
        yield events


def append(root: Path, text: str) -> None:
    with (root / "dev/kmsg").open("a") as file:
        file.write(text)


def test_a_life_is_told_with_whose_it_was_and_why_it_ended(world: World, events: SlotEvents) -> None:
    container = world.runtime.add("scx_a")
    world.kernel.attach("ops_scx_a", world.runtime.hold(container))
    (came,) = events.wait(5)
    assert (came.at, came.kind, came.ops, came.reason) == (NOW, ATTACHED, "ops_scx_a", None)
    assert isinstance(came.owner, Owner)
    assert came.owner.managed is not None
    assert came.owner.managed.container.id == container.id

    append(world.kernel.root, STALL)
    world.kernel.detach()
    (went,) = events.wait(5)
    assert (went.kind, went.reason) == (EJECTED, "runnable task stall")
    assert went.details == ("podman[105] failed to run for 3.508s",)
    assert went.owner == came.owner


def test_one_that_was_told_to_leave_is_detached(world: World, events: SlotEvents) -> None:
    world.kernel.attach("x", Holder(77, "x"))
    (came,) = events.wait(5)
    assert came.owner == Owner(None, Holder(77, "x"))
    append(world.kernel.root, '6,1,5,-;sched_ext: BPF scheduler "x" disabled (unregistered from user space)\n')
    world.kernel.detach()
    (went,) = events.wait(5)
    assert (went.kind, went.reason) == (DETACHED, "unregistered from user space")


def test_failed_attach_is_not_the_end_of_the_next_one(world: World, events: SlotEvents) -> None:
    append(world.kernel.root, '3,1,5,-;sched_ext: BPF scheduler "x" disabled (runtime error)\n')  # and no event
    append(world.kernel.root, '6,2,6,-;sched_ext: BPF scheduler "x" enabled\n')
    world.kernel.attach("x", Holder(77, "x"))
    events.wait(5)
    append(world.kernel.root, '6,3,7,-;sched_ext: BPF scheduler "x" disabled (unregistered from user space)\n')
    world.kernel.detach()
    (went,) = events.wait(5)
    assert (went.kind, went.reason) == (DETACHED, "unregistered from user space")


def test_reason_is_unknown_where_the_log_cannot_be_read(world: World) -> None:
    world.kernel.attach("x", Holder(77, "x"))
    with SlotEvents(world.machine, lambda: look(world), look_seconds=0.05) as events:
        world.kernel.detach()
        (went,) = events.wait(5)
    assert went.kind is DETACHED
    assert went.owner == Owner(None, Holder(77, "x"))
    assert isinstance(went.reason, Unknown)
    assert "dev/kmsg" in went.reason.why


def test_owner_is_unknown_of_one_that_left_before_it_was_looked_at(world: World) -> None:
    idle = look(world)
    with SlotEvents(world.machine, lambda: idle, look_seconds=0.05) as events:
        world.kernel.attach("x", Holder(77, "x"))
        (came,) = events.wait(5)
    assert came.owner == Unknown("it was detached before it could be examined")


def test_waiting_ends_when_its_time_is_over(events: SlotEvents) -> None:
    begun = time.monotonic()
    assert events.wait(0.2) == []
    assert 0.2 <= time.monotonic() - begun < 5


def test_waiting_ends_at_once_when_something_happens(world: World, events: SlotEvents) -> None:
    threading.Timer(0.1, lambda: world.kernel.attach("x", None)).start()
    assert [event.ops for event in events.wait(60)] == ["x"]


def test_kernel_without_sched_ext_is_refused(world: World) -> None:
    for path in sorted(world.kernel.folder.rglob("*")):
        path.unlink()
    world.kernel.folder.rmdir()
    with pytest.raises(KernelUnfitError), SlotEvents(world.machine, lambda: look(world)):
        pass


def test_past_is_what_the_kernels_log_has(world: World) -> None:
    (world.kernel.root / "dev").mkdir()
    seconds = time.monotonic()
    before, after = int((seconds - 500) * 1e6), int((seconds - 100) * 1e6)
    append(
        world.kernel.root,
        f'6,1,{before},-;sched_ext: BPF scheduler "a" enabled\n'
        f'6,2,{after},-;sched_ext: BPF scheduler "a" disabled (unregistered from user space)\n'
        f'6,3,{after},-;sched_ext: BPF scheduler "b" enabled\n'
        f'3,4,{after},-;sched_ext: BPF scheduler "b" disabled (runtime error)\n'
        f"3,5,{after},-;sched_ext: b: a cause\n",
    )

    def read(ago: float) -> list[KernelEvent]:
        found = read_past_events(world.machine, NOW.timestamp() - ago)
        assert isinstance(found, list)
        return found

    assert [(event.kind, event.ops) for event in read(1000)] == [
        (ATTACHED, "a"),
        (DETACHED, "a"),
        (ATTACHED, "b"),
        (EJECTED, "b"),
    ]
    recent = read(200)
    assert len(recent) == 3
    assert abs(recent[0].at - (NOW - timedelta(seconds=100))) < timedelta(seconds=5)
    assert (recent[-1].reason, recent[-1].details) == ("runtime error", ("a cause",))
    assert isinstance(recent[-1].owner, Unknown)


def test_past_is_unknown_where_the_log_cannot_be_read(world: World) -> None:
    assert isinstance(read_past_events(world.machine, 0), Unknown)
