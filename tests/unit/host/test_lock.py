import subprocess
import sys
from pathlib import Path

import pytest

from schedkit.errors import BusyError
from schedkit.host.lock import hold_lock, is_held

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


def test_lock_that_nobody_ever_took_is_not_held(path: Path) -> None:
    assert not is_held(path)
