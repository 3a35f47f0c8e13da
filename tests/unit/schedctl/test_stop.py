"""`stop` and `detach` over stand-ins of what lies below them."""

from importlib import import_module

import pytest

from schedkit.errors import NoAnswerError, NotFoundError, SchedkitError
from schedkit.host import stop
from schedkit.host.detaching import Detached
from schedkit.host.stop import Stopped
from schedkit.kernel.state import KernelState, State
from schedkit.runtimes import drivers
from schedkit.runtimes.view import Runtimes
from tests.unit.schedctl.fakes import (
    FOREIGN,
    HIDDEN,
    ID,
    FakeRuntime,
    make_container,
)
from tests.unit.schedctl.runner import call, note, read

STOPPED = Stopped(make_container(), "scx_rusty", was_attached=True, killed=False, exit_code=0, seconds=0.5)


def test_stop_tells_what_it_did(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    one = note(monkeypatch, import_module("schedkit.schedctl.commands.stop"), "stop", STOPPED)
    many = note(monkeypatch, import_module("schedkit.schedctl.commands.stop"), "stop_all", ([], []))
    assert read("stop", "scx_rusty", "--timeout", "3")["stopped"][0]["was_attached"] is True
    assert (one[0][1], one[0][-1]["timeout"]) == ("scx_rusty", 3.0)
    assert call("stop").stdout == f"scx_rusty (podman {ID[:12]}): detached and removed after 500 ms\n"
    assert call("stop", "--all").stdout == "schedctl has no container\n"
    assert len(many) == 1


def test_stop_all_tells_what_was_stopped_and_then_what_was_not(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = stop.NotStopped(make_container(name="scx_left"), NotFoundError("it went", hint="look"))
    module = import_module("schedkit.schedctl.commands.stop")
    note(monkeypatch, module, "stop_all", ([STOPPED], [failed]))
    result = call("stop", "--all", code=66)
    assert "scx_rusty" in result.stdout
    assert isinstance(result.exception, SchedkitError)
    assert result.exception.message == "scx_left (podman): it went"


def test_stop_all_does_not_claim_that_nothing_is_where_it_could_not_ask(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = HIDDEN._replace(error=NoAnswerError)
    monkeypatch.setattr(drivers, "find_runtimes", lambda *_, **__: Runtimes([runtime], [slow]))
    note(monkeypatch, import_module("schedkit.schedctl.commands.stop"), "stop_all", ([], []))
    result = call("stop", "--all", code=124)
    assert result.stdout == ""
    assert isinstance(result.exception, SchedkitError)
    assert "docker does not respond" in result.exception.message


def test_detach_says_what_it_will_do_and_does_it_with_a_yes(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module("schedkit.schedctl.commands.detach")
    note(monkeypatch, module, "find_foreign", FOREIGN)
    done = note(monkeypatch, module, "end_foreign", Detached(FOREIGN, KernelState(State.DISABLED)))
    result = call("detach", code=64)
    assert "detach BPF link 17" in result.stderr
    assert done == []
    assert read("detach", "--yes")["way"] == "detach BPF link 17"
    assert call("detach", "-y").stdout == "rusty is detached; the kernel says disabled\n"


def test_detach_refuses_what_may_be_managed_behind_a_runtime_that_does_not_respond(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module("schedkit.schedctl.commands.detach")
    doubtful = FOREIGN._replace(doubt="podman does not respond (no response within 10 s)")
    note(monkeypatch, module, "find_foreign", doubtful)
    done = note(monkeypatch, module, "end_foreign", Detached(doubtful, KernelState(State.DISABLED)))
    refused = call("detach", "--yes", code=69)
    assert isinstance(refused.exception, SchedkitError)
    assert refused.exception.message.startswith("rusty may be managed by schedctl: podman does not respond")
    assert "schedctl detach --force" in refused.exception.hint
    assert done == []
    assert "may be managed by schedctl" in call("detach", "--yes", "--force").stderr
    assert len(done) == 1
