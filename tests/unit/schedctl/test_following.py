"""What becomes of a scheduler's output; tests/unit/host/test_following.py has the following itself."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLLOW = """
import sys
from schedkit.errors import run_at_edge
from schedkit.schedctl.following import _write_or_drop
from schedkit.schedctl.progress import Terminal

def follow():
    for _ in range(3):
        _write_or_drop(Terminal(sys.stderr), b"x" * 9000)

sys.exit(run_at_edge(follow))
"""


def test_output_that_cannot_be_kept_is_dropped_with_one_warning() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", FOLLOW], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 0
    assert done.stderr == (
        "warning: the scheduler's output cannot be written (No space left on device) and is dropped from now on;"
        " it runs on\n"
    )


def test_reader_who_leaves_ends_it() -> None:
    with subprocess.Popen([sys.executable, "-c", FOLLOW], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout
        program.stdout.close()
        assert program.wait(10) == 1


@pytest.mark.parametrize("command", ["run --no-such-option", "no-such-command"])
def test_full_disk_under_stderr_changes_no_exit_code(command: str) -> None:
    with Path("/dev/full").open("w") as full:
        words = [sys.executable, "-m", "schedkit.schedctl", *command.split()]
        assert subprocess.run(words, stderr=full, check=False).returncode == 64
