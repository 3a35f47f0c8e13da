"""The host that commands are tried on."""

from pathlib import Path

import pytest

from schedkit.host import managed, preparing, run, switch
from schedkit.runtimes import drivers
from schedkit.runtimes.view import Runtimes
from schedkit.schedctl.session import Session
from tests.unit.schedctl.fakes import OBSERVED, FakeRegistry, FakeRuntime


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeRuntime:
    """A host where everything works, and scx_rusty is attached."""
    runtime = FakeRuntime()
    for name in ("SCHEDCTL_DRIVER", "SCHEDCTL_CATALOG", "SCHEDCTL_ALLOW_UNSIGNED", "SCHEDCTL_TRUST_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(drivers, "find_runtimes", lambda *_, **__: Runtimes([runtime]))
    monkeypatch.setattr(Session, "registry", FakeRegistry())
    monkeypatch.setattr(Session, "require_root", lambda *_: None)
    monkeypatch.setattr(preparing, "check_kernel", lambda *_: None)
    monkeypatch.setattr(run, "check_run", lambda *_: None)
    monkeypatch.setattr(switch, "check_switch", lambda *_: None)
    monkeypatch.setattr(managed, "observe", lambda *_: OBSERVED)
    return runtime
