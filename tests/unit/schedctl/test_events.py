"""`events` and `wait` over stand-ins of what lies below them."""

import json
import os
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from schedkit.errors import NoAnswerError, SchedkitError
from schedkit.host import events as host_events
from schedkit.host import managed, waiting
from schedkit.host.events import EventKind, KernelEvent, Owner
from schedkit.host.machine import Machine
from schedkit.host.waiting import Waited
from schedkit.kernel.state import KernelState, State
from schedkit.runtimes import drivers
from schedkit.schedctl import session as sessions
from schedkit.schedctl.settings import Flags
from schedkit.unknown import Unknown
from tests.documents import missing, undocumented
from tests.unit.schedctl.fakes import HIDDEN, HOLDER, ID, KERNEL, MANAGED, NOW, OBSERVED, FakeRuntime
from tests.unit.schedctl.runner import call, note, read

CAME = KernelEvent(NOW, EventKind.ATTACHED, "rusty_1.1.4", Owner(MANAGED, HOLDER))
WENT = KernelEvent(NOW, EventKind.EJECTED, "x", Owner(None, HOLDER), "runnable task stall", ("a[1] failed", "twice"))
PAST = KernelEvent(NOW, EventKind.DETACHED, "old\x1b", Unknown("only the log"), Unknown("no log"))


def play(monkeypatch: pytest.MonkeyPatch, *told: list[KernelEvent]) -> None:
    """Let these happen; then Ctrl-C is pressed."""
    left = list(told)

    class Fake:
        def __init__(self, *_: object) -> None:
            pass

        def __enter__(self) -> "Fake":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def wait(self) -> list[KernelEvent]:
            if not left:
                raise KeyboardInterrupt
            return left.pop(0)

    monkeypatch.setattr(host_events, "SlotEvents", Fake)


def test_events_are_lines_until_ctrl_c(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, [CAME, WENT], [PAST])
    assert call("events").stdout.splitlines() == [
        f"2026-01-02T03:04:05Z  attached  rusty_1.1.4  container scx_rusty (podman {ID[:12]})",
        f"2026-01-02T03:04:05Z  ejected   x  by process 4242 (scx_rusty), in the container {ID[:12]},"
        " not managed by schedctl  runnable task stall: a[1] failed; twice",
        "2026-01-02T03:04:05Z  detached  old\ufffd  -  unknown (no log)",
    ]


def test_events_are_documents_one_a_line(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, [CAME, WENT, PAST])
    came, went, past = (json.loads(line) for line in call("events", "-o", "json").stdout.splitlines())
    for document in (came, went, past):
        assert (undocumented("events", document), missing("events", document)) == ([], [])
    assert (came["event"], came["managed"], came["container"]["name"], came["reason"]) == (
        *("attached", True, "scx_rusty"),
        None,
    )
    assert (went["managed"], went["container"], went["details"]) == (False, None, ["a[1] failed", "twice"])
    assert (past["managed"], past["reason"]) == ({"unknown": "only the log"}, {"unknown": "no log"})


def test_earlier_events_come_first_and_can_be_all(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "Machine", lambda: Machine(now=lambda: NOW))
    asked = note(monkeypatch, host_events, "read_past_events", [WENT])
    play(monkeypatch, [CAME])
    assert [line.split()[1] for line in call("events", "--since", "1h").stdout.splitlines()] == ["ejected", "attached"]
    assert asked[0][1] == NOW.timestamp() - 3600
    assert len(call("events", "--since", "1h", "--no-follow").stdout.splitlines()) == 1


def test_earlier_events_that_cannot_be_read_are_an_error(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    note(monkeypatch, host_events, "read_past_events", Unknown("/dev/kmsg: permission denied"))
    play(monkeypatch)
    result = call("events", "--since", "1h", code=69)
    assert str(result.exception) == "earlier events could not be read: /dev/kmsg: permission denied"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert str(call("events", "--since", "1h", code=77).exception) == "schedctl events --since needs root"


@pytest.mark.parametrize("since", ["yesterday", "0001-01-01"])
def test_what_is_no_time_is_refused(since: str, runtime: FakeRuntime) -> None:
    assert str(call("events", "--since", since, "--no-follow", code=64).exception) == f"--since {since}: not a time"


def test_not_following_needs_a_past(runtime: FakeRuntime) -> None:
    call("events", "--no-follow", code=64)


def test_conditions_on_the_command_line_are_the_hosts() -> None:
    assert tuple(EventKind) == import_module("schedkit.schedctl.commands.wait").CONDITIONS


def test_wait_tells_what_came(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = note(monkeypatch, waiting, "wait_for", Waited(EventKind.ATTACHED, KERNEL, None, 1.25))
    assert call("wait").stdout == "rusty_1.1.4 is attached, after 1.2 s\n"
    document = read("wait", "scx_rusty", "--timeout", "10s")
    assert (document["condition"], document["seconds"], document["event"]) == ("attached", 1.25, None)
    assert [one[2:5] for one in asked] == [
        (EventKind.ATTACHED, None, None),
        (EventKind.ATTACHED, "scx_rusty", 10.0),
    ]


@pytest.mark.parametrize(
    ("words", "waited", "text"),
    [
        ([], Waited(EventKind.DETACHED, KernelState(State.DISABLED), None, 0.5), "no scheduler is attached"),
        (["rusty"], Waited(EventKind.DETACHED, KernelState(State.DISABLED), None, 0.5), "rusty is not attached"),
        ([], Waited(EventKind.EJECTED, None, WENT, 0.5), "2026-01-02T03:04:05Z  ejected"),
    ],
)
def test_wait_for_an_end_tells_that(
    words: list[str], waited: Waited, text: str, runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(monkeypatch, waiting, "wait_for", waited)
    assert call("wait", *words, "--for", waited.condition.value).stdout.startswith(text)
    read("wait", *words, "--for", waited.condition.value)


def test_wait_that_ends_without_it_has_the_code_of_a_timeout(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(monkeypatch, waiting, "wait_for", NoAnswerError("a scheduler was not attached within 1 s"))
    call("wait", "--timeout", "1s", code=124)


@pytest.mark.parametrize("which", ["scx_rusti", "no/such/thing"])
def test_wait_for_a_name_that_nobody_knows_is_an_error(which: str, runtime: FakeRuntime) -> None:
    call("wait", which, code=66)
    call("wait", "", code=64)


@pytest.mark.parametrize("which", ["scx_rusty", ID[:7], "rusty_1.1.4", "scx_lavd"])
def test_wait_for_a_container_or_a_scheduler_of_the_catalog(
    which: str, runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(monkeypatch, waiting, "wait_for", Waited(EventKind.ATTACHED, KERNEL, None, 0.1))
    call("wait", which)


def test_wait_says_which_runtimes_it_could_not_ask(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(managed, "observe", lambda *_: OBSERVED._replace(managed=(), unreachable=(HIDDEN,)))
    result = call("wait", "mine", code=66)
    assert isinstance(result.exception, SchedkitError)
    assert "docker does not respond" in result.stderr


def test_runtimes_are_asked_again_at_each_look(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []
    closed: list[int] = []

    def find(*_: object, **__: object) -> Any:
        found.append(SimpleNamespace(hidden=[], close=lambda: closed.append(1)))
        return found[-1]

    monkeypatch.setattr(drivers, "find_runtimes", find)
    session = sessions.open_session(Flags())
    assert [session.observe(), session.observe()] == [OBSERVED, OBSERVED]
    session.close()
    assert (len(found), len(closed)) == (2, 2)
