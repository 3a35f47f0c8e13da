from collections.abc import Sequence
from pathlib import Path

import pytest

from schedkit.errors import UnavailableError
from schedkit.runtimes.drivers import PATIENT_SECONDS, Silent
from schedkit.runtimes.model import Runtime
from schedkit.schedctl import session as sessions
from schedkit.schedctl.session import Session, open_session
from schedkit.schedctl.settings import Flags
from tests.unit.schedctl.fakes import FakeRuntime

ABSENT = Silent("docker", "/run/docker.sock", "no socket", absent=True)
SLOW = Silent("podman", "/run/podman/podman.sock", "no answer", absent=False)


class Machine:
    """A machine whose podman takes a second to answer."""

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[str, ...], float]] = []

    def find_runtimes(self, drivers: Sequence[str], seconds: float) -> tuple[list[Runtime], list[Silent]]:
        self.asked.append((tuple(drivers), seconds))
        return ([FakeRuntime()], [ABSENT]) if seconds >= 1 else ([], [SLOW, ABSENT])


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    machine = Machine()
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("SCHEDCTL_PATIENCE", raising=False)
    monkeypatch.setattr(sessions, "find_runtimes", machine.find_runtimes)
    return machine


def open_here(**flags: str) -> Session:
    return open_session(Flags(**flags))  # type: ignore[arg-type]


def test_those_that_only_look_do_not_wait_for_a_slow_runtime(machine: Machine) -> None:
    assert open_here().find_runtimes() == ([], [SLOW, ABSENT])
    assert machine.asked == [(("podman", "docker", "containerd"), 0.1)]


def test_those_that_act_do_when_nobody_else_answers(machine: Machine) -> None:
    chosen, everywhere = open_here().open_runtime()
    assert (chosen.driver, len(everywhere)) == ("podman", 1)
    assert [seconds for _, seconds in machine.asked] == [0.1, PATIENT_SECONDS]


def test_the_one_that_the_user_named_is_waited_for(machine: Machine) -> None:
    runtimes, _ = open_here(driver="podman").find_runtimes()
    assert len(runtimes) == 1
    assert machine.asked == [(("podman",), PATIENT_SECONDS)]


def test_patience_is_a_setting(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDCTL_PATIENCE", "2.5")
    assert len(open_here().find_runtimes()[0]) == 1
    assert machine.asked[0][1] == 2.5


def test_where_nobody_answers_all_are_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "find_runtimes", lambda *_: ([], [SLOW, ABSENT]))
    with pytest.raises(UnavailableError, match=r"podman: no answer; docker: no socket"):
        open_here().open_runtime()


@pytest.mark.parametrize(
    ("name", "version", "reference", "scheduler"),
    [
        ("scx_rusty", None, "ghcr.io/schedkit/scx_rusty:latest", "scx_rusty"),
        ("scx_rusty", "1.1.3", "ghcr.io/schedkit/scx_rusty:1.1.3", "scx_rusty"),
        ("scx_rusty:1.1.3", None, "ghcr.io/schedkit/scx_rusty:1.1.3", "scx_rusty"),
        ("localhost:5000/a/mine", None, "localhost:5000/a/mine:latest", "mine"),
        ("localhost:5000/a/mine:old", "new", "localhost:5000/a/mine:new", "mine"),
        ("scx_rusty", f"sha256:{'a' * 64}", f"ghcr.io/schedkit/scx_rusty@sha256:{'a' * 64}", "scx_rusty"),
    ],
)
def test_a_name_is_an_image_and_a_scheduler(
    machine: Machine, name: str, version: str | None, reference: str, scheduler: str
) -> None:
    named = open_here().find(name, version)
    assert (str(named.reference), named.scheduler) == (reference, scheduler)
