"""Stages at the same time: all of them run, what they say is shown, and one that fails is a failure."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.changed import ROOT


def run(*stages: str) -> subprocess.CompletedProcess[str]:
    words = " -- ".join(stages).split(" ")
    command = [sys.executable, "-m", "tests.side_by_side", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_they_run_at_the_same_time_and_all_is_shown(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    subprocess.run(["mkfifo", pipe], check=True)
    done = run(f"reader cat {pipe}", f"writer cp -v {ROOT}/LICENSE {pipe}")  # one after the other, neither would end
    assert done.returncode == 0
    assert (ROOT / "LICENSE").read_text() in done.stdout
    assert "== stage reader: " in done.stderr
    assert "== stage writer: " in done.stdout


@pytest.mark.parametrize("stages", [("one false", "other true"), ("one true", "other false")])
def test_one_that_fails_fails_them_all(stages: tuple[str, str]) -> None:
    assert run(*stages).returncode == 1
