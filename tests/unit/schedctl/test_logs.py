"""`logs` and `inspect` over stand-ins of what lies below them."""

import json
from datetime import timedelta

import pytest
from click import BadParameter

from schedkit.errors import SchedkitError
from schedkit.host import managed
from schedkit.host.machine import Machine
from schedkit.runtimes.container import ContainerState
from schedkit.schedctl import session as sessions
from tests.documents import missing, undocumented
from tests.unit.schedctl.fakes import (
    DIGEST,
    ID,
    NOW,
    OBSERVED,
    FakeRuntime,
    make_container,
)
from tests.unit.schedctl.runner import call, note


def test_logs_are_bytes_as_they_are(runtime: FakeRuntime) -> None:
    assert call("logs", ID[:5], "--tail", "3").stdout_bytes == b"attached\n\xff raw \n"


@pytest.mark.parametrize(
    ("said", "begin"),
    [
        ("90s", NOW.timestamp() - 90),
        ("10", NOW.timestamp() - 10),
        ("10m", NOW.timestamp() - 600),
        ("1h30m", NOW.timestamp() - 5400),
        ("2h", NOW.timestamp() - 7200),
        ("1d", NOW.timestamp() - 86400),
        ("2026-01-02T03:00:00Z", NOW.timestamp() - 245),
    ],
)
def test_logs_since_a_moment(said: str, begin: float, runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "Machine", lambda: Machine(now=lambda: NOW))
    asked = note(monkeypatch, runtime, "stream_logs", iter([]))
    call("logs", "--since", said)
    assert asked[0][-1]["since"] == begin


@pytest.mark.parametrize(("words", "asked"), [((), False), (("-t",), True), (("--timestamps", "-f"), True)])
def test_logs_with_times_are_asked_for(
    words: tuple[str, ...], asked: bool, runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.containers = [make_container(state=ContainerState.EXITED)]
    calls = note(monkeypatch, runtime, "stream_logs", iter([]))
    call("logs", *words)
    assert calls[0][-1]["timestamps"] is asked


@pytest.mark.parametrize("said", ["", "soon", "-5m", "1.5h", "٣m", "9999999999d", "2026-13-01"])
def test_logs_since_no_moment_is_a_usage_error(said: str, runtime: FakeRuntime) -> None:
    refused = call("logs", "--since", said, code=64)
    assert isinstance(refused.exception, SchedkitError)
    assert refused.exception.message == f"--since {said}: not a time"


def test_inspect_tells_everything_of_one_container(runtime: FakeRuntime) -> None:
    document = json.loads(call("inspect").stdout)
    assert document["container"]["id"] == ID
    assert document["container"]["labels"]["org.schedkit.digest"] == DIGEST
    assert document["kernel"]["ops"] == "rusty_1.1.4"
    assert (undocumented("inspect", document), missing("inspect", document)) == ([], [])
    assert call("inspect", "-o", "json").stdout == call("inspect").stdout
    with pytest.raises(BadParameter):
        call("inspect", "-o", "text")


def test_logs_without_a_name_are_those_of_the_one_that_ended_last(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = [
        OBSERVED.managed[0]._replace(
            container=make_container(
                id=id, state=ContainerState.EXITED, pid=None, finished=NOW + timedelta(hours=hour)
            ),
        )
        for id, hour in (("first", 1), ("last", 9), ("second", 5))
    ]
    monkeypatch.setattr(managed, "observe", lambda *_: OBSERVED._replace(managed=tuple(ended)))
    asked = note(monkeypatch, runtime, "stream_logs", iter([b"bye\n"]))
    assert call("logs").stdout == "bye\n"
    assert asked[0][0] == "last"
