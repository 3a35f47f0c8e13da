from pathlib import Path

import pytest

from schedkit.errors import NoAnswerError, SchedkitError, UnavailableError
from schedkit.host import systemd as systemds
from schedkit.host.systemd import UnitState, call, check_systemd, fetch_state, stop_unit
from schedkit.unknown import Unknown
from tests.unit.host.fake_systemd import FakeSystemd


def test_without_systemd_it_says_what_to_use(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="schedctl enable needs systemd") as raised:
        check_systemd(tmp_path, "schedctl enable", "another supervisor")
    assert raised.value.hint == "another supervisor"
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    check_systemd(tmp_path, "schedctl enable", "another supervisor")


def test_complaint_is_the_error(systemd: FakeSystemd) -> None:
    systemd.fail("start")
    with pytest.raises(SchedkitError) as raised:
        call("systemctl", "start", "x.service")
    assert raised.value.message == "systemctl start x.service failed: Failed to start x.service: Access denied"
    assert raised.value.hint == "second line"


def test_one_that_does_not_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "systemctl"
    script.write_text("#!/bin/sh\nexec sleep 60\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(NoAnswerError, match="did not end within 0 s"):
        call("systemctl", "daemon-reload", seconds=0.2)
    monkeypatch.setattr(systemds, "LOOK_SECONDS", 0.2)
    assert isinstance(fetch_state("x.service"), Unknown)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(UnavailableError, match="systemctl is not installed"):
        call("systemctl", "daemon-reload")


def test_unit_that_is_not_there_has_stopped(systemd: FakeSystemd) -> None:
    systemd.fail("stop", "Unit x.service not loaded.")
    stop_unit("x.service")
    systemd.fail("stop")
    with pytest.raises(SchedkitError, match="Access denied"):
        stop_unit("x.service")


def test_state_is_read(systemd: FakeSystemd) -> None:
    systemd.show(ActiveState="failed", SubState="failed", NRestarts=5, ExecMainStatus=12)
    state = fetch_state("x.service")
    assert state == UnitState("failed", "failed", 5, 12)
    assert not state.is_waiting
    systemd.show(ActiveState="activating", SubState="auto-restart", NRestarts="[not set]", ExecMainStatus="")
    state = fetch_state("x.service")
    assert state == UnitState("activating", "auto-restart", 0, None)
    assert state.is_waiting
    systemd.show(Nonsense=1)
    assert isinstance(fetch_state("x.service"), Unknown)
