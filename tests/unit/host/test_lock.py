import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from schedkit.errors import BusyError, NoPermissionError
from schedkit.host.lock import hold_lock
from tests.unit.host.fakes import is_held

HOLDER = """
import sys, time
from pathlib import Path
from schedkit.host.lock import hold_lock
with hold_lock(Path(sys.argv[1]), command="schedctl run scx_rusty"):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run/lock"


def test_second_is_told_who_holds_the_lock(path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, path], stdout=subprocess.PIPE) as other:
        assert other.stdout
        assert other.stdout.readline() == b"held\n"
        assert is_held(path)
        with (
            pytest.raises(BusyError, match=rf"process {other.pid} \(schedctl run scx_rusty\)"),
            hold_lock(path, patience=0),
        ):
            pass
        other.kill()


def test_killed_holder_frees_the_lock(path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, path], stdout=subprocess.PIPE) as other:
        assert other.stdout
        other.stdout.readline()
        other.kill()
        other.wait()
    assert not is_held(path)
    with hold_lock(path, patience=0):
        pass


def test_lock_is_freed_after_an_error(path: Path) -> None:
    with pytest.raises(ZeroDivisionError), hold_lock(path):
        raise ZeroDivisionError
    assert not is_held(path)
    assert path.read_text() == ""


def test_full_disk_keeps_nobody_from_the_lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", fail)
    monkeypatch.setattr(os, "ftruncate", fail)
    with hold_lock(path):
        assert is_held(path)
        with pytest.raises(BusyError, match="a process that has not said who it is"), hold_lock(path, patience=0):
            pass
    assert not is_held(path)


def test_nobody_else_can_open_the_lock(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o755)
    lock = folder / "lock"
    lock.touch(mode=0o644)
    with hold_lock(lock):
        assert (stat.S_IMODE(folder.stat().st_mode), stat.S_IMODE(lock.stat().st_mode)) == (0o711, 0o600)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_who_may_not_open_the_lock_is_told_so(tmp_path: Path) -> None:
    lock = tmp_path / "run/lock"
    with hold_lock(lock):
        os.seteuid(65534)
        try:
            with pytest.raises(NoPermissionError), hold_lock(lock):
                pass
        finally:
            os.seteuid(0)
