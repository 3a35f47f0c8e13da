"""Waiting on made-up roots, whose changes no event tells of; tests/e2e/test_kernel.py hears real events."""

import contextlib
import errno
import os
import select
import socket
import threading
from pathlib import Path

import pytest

from schedkit.kernel import changes as module
from schedkit.kernel.changes import Announcement, Changes, parse_announcement
from schedkit.kernel.state import KernelState, State
from tests.unit.kernel.roots import ATTACHED, FREE, write_sched_ext


@pytest.fixture(params=["events", "no events"])
def changes(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Changes:
    if request.param == "no events":
        monkeypatch.setattr(module, "open_uevents", lambda: None)
    return Changes(write_sched_ext(tmp_path, FREE))


def test_state_that_is_so_already_is_returned(changes: Changes) -> None:
    with changes:
        assert changes.wait_until(lambda state: state.state is State.DISABLED, 60).enable_seq == 3


def test_last_state_is_returned_when_the_time_is_over(changes: Changes) -> None:
    seen: list[KernelState] = []

    def note(state: KernelState) -> bool:
        seen.append(state)
        return False

    with changes:
        last = changes.wait_until(note, 0.1)

    assert last == seen[-1]
    assert len(seen) >= 2


def test_change_is_seen_even_if_no_event_comes(changes: Changes, tmp_path: Path) -> None:
    looked = threading.Event()

    def attach() -> None:
        looked.wait()
        write_sched_ext(tmp_path, ATTACHED)

    def is_attached(state: KernelState) -> bool:
        looked.set()
        return state.attached is True

    thread = threading.Thread(target=attach)
    thread.start()
    with changes:
        state = changes.wait_until(is_attached, 60)
    thread.join()

    assert state.ops == "schedkit_fifo"


def test_without_events_there_is_nothing_to_poll(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "open_uevents", lambda: None)
    with Changes(tmp_path) as changes:
        assert changes.fileno() == -1
        changes.wait(0)


def test_socket_is_closed_at_the_end(tmp_path: Path) -> None:
    with Changes(tmp_path) as changes:
        number = changes.fileno()
        if number == -1:
            pytest.skip("this machine lets nobody hear uevents")
        os.fstat(number)

    assert changes.fileno() == -1
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_wait_takes_every_announcement_and_ends_at_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, ears = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    monkeypatch.setattr(module, "open_uevents", lambda: ears)
    with kernel, Changes(tmp_path) as changes:
        kernel.send(b"add@/devices/virtual/net/veth0\0ACTION=add\0")
        changes.wait(0)
        assert select.select([changes], [], [], 0)[0] == []
        kernel.send(b"add@/devices/virtual/net/veth1\0ACTION=add\0")
        kernel.send(b"remove@/kernel/sched_ext/root\0ACTION=remove\0SCXOPS=schedkit_fifo\0")
        changes.wait(600)
        assert select.select([changes], [], [], 0)[0] == []


def test_announcements_are_taken_with_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, ears = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    monkeypatch.setattr(module, "open_uevents", lambda: ears)
    with kernel, Changes(tmp_path) as changes:
        assert changes.take() == []
        kernel.send(b"add@/devices/virtual/net/veth0\0ACTION=add\0")
        kernel.send(b"add@/kernel/sched_ext/root\0ACTION=add\0SCXOPS=schedkit_fifo\0")
        kernel.send(b"remove@/kernel/sched_ext/root\0ACTION=remove\0SCXOPS=schedkit_fifo\0")
        assert changes.take() == [Announcement("add", "schedkit_fifo"), Announcement("remove", "schedkit_fifo")]
        assert changes.take() == []


@pytest.mark.parametrize(
    ("message", "announcement"),
    [
        (b"add@/kernel/sched_ext/root\0SEQNUM=1", Announcement("add", "")),
        (b"add@/kernel/sched_ext/root/sub/sub-7\0SCXOPS=below\0", Announcement("add", "")),
        (b"add@/kernel/sched_ext/root\0SCXOPS=a\xff\0", Announcement("add", "a\ufffd")),
        (b"add@/kernel/slab\0SCXOPS=a\0", None),
        (b"\0\0", None),
        (b"", None),
    ],
)
def test_announcement_is_parsed(message: bytes, announcement: Announcement | None) -> None:
    assert parse_announcement(message) == announcement


def test_filter_keeps_back_what_is_about_other_things() -> None:
    """Given to the kernel, for a socket of another kind that it filters in the same way."""
    kernel, ears = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    with kernel, ears:
        module._filter(ears)
        ours = [b"add@/kernel/sched_ext/root\0SCXOPS=a\0", b"remove@/kernel/sched_ext/root\0SCXOPS=a\0"]
        others = [b"add@/devices/virtual/block/loop0\0", b"remove@/kernel/slab/a\0", b"change@/a\0", b"x"]
        for message in (*others, *ours, *others):
            with contextlib.suppress(PermissionError):  # how this kind of socket says that it was not taken
                kernel.send(message)
        assert [ears.recv(4096), ears.recv(4096)] == ours
        with pytest.raises(BlockingIOError):
            ears.recv(4096)


def test_lost_announcements_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Lossy:
        def __init__(self) -> None:
            self.said: list[bytes | OSError] = [b"add@/kernel/sched_ext/root\0", OSError(errno.ENOBUFS, ""), b"x"]

        def recv(self, _size: int) -> bytes:
            said = self.said.pop(0) if self.said else BlockingIOError()
            if isinstance(said, OSError):
                raise said
            return said

        def close(self) -> None:
            pass

    monkeypatch.setattr(module, "open_uevents", Lossy)
    with Changes(tmp_path) as changes:
        assert changes.take() is None
        assert changes.take() == []
