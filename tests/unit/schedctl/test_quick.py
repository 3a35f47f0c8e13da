"""The lines that are answered without click mean what click means by them."""

import os
import pty
import subprocess
import sys

import pytest

from schedkit.host import managed
from schedkit.kernel.state import KernelState, State
from schedkit.runtimes.container import ContainerState
from schedkit.schedctl.group import schedctl
from schedkit.schedctl.quick import OUTPUTS, find_answer
from tests.unit.schedctl.fakes import MANAGED, OBSERVED, FakeRuntime, make_container
from tests.unit.schedctl.runner import make_runner

ENDED = MANAGED._replace(container=make_container(name="ended", state=ContainerState.EXITED, pid=None, exit_code=1))
LINES = [(*command, *output) for command in (("status",), ("ps",), ("ps", "-a"), ("ps", "--all")) for output in OUTPUTS]


@pytest.mark.parametrize("words", LINES, ids=" ".join)
@pytest.mark.parametrize("state", [State.ENABLED, State.DISABLED])
def test_answer_is_the_one_that_click_gives(
    words: tuple[str, ...],
    state: State,
    runtime: FakeRuntime,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    observed = OBSERVED._replace(kernel=KernelState(state), managed=(MANAGED, ENDED))
    monkeypatch.setattr(managed, "_look", lambda *_: observed)
    monkeypatch.setattr(managed, "observe", lambda *_: observed)
    monkeypatch.setattr(runtime, "close", lambda: closed.append(words))
    closed: list[tuple[str, ...]] = []

    answer = find_answer(words, {})
    assert answer is not None
    code = answer()
    printed = capsys.readouterr()

    meant = make_runner().invoke(schedctl, words, standalone_mode=False)
    assert printed.out.strip()
    assert (printed.out, printed.err, code) == (meant.stdout, meant.stderr, meant.return_value or 0)
    assert closed == [words, words]


@pytest.mark.parametrize("columns", ["80", "133"])
@pytest.mark.parametrize("word", ["-h", "--help", ""])
def test_help_is_the_one_that_click_prints(word: str, columns: str) -> None:
    by_click = "from schedkit.cli import run_program; from schedkit.schedctl.group import schedctl as group; "
    by_click += "run_program(group, 'schedctl')"
    environ = {**os.environ, "COLUMNS": columns}
    answer, meant = (
        subprocess.run(
            [sys.executable, *program, *word.split()], env=environ, capture_output=True, text=True, check=True
        )
        for program in (["-m", "schedkit.schedctl"], ["-c", by_click])
    )
    assert (answer.stdout, answer.stderr) == (meant.stdout, meant.stderr)


@pytest.mark.parametrize(
    "words",
    [
        "--help --version",
        "--verbose status",
        "list",
        "ps --all --all",
        "ps -o json -a",
        "run scx_rusty",
        "status --all",
        "status --help",
        "status -o",
        "status -o yaml",
        "status extra",
        "watch -o json",
    ],
)
def test_any_other_line_is_left_to_click(words: str) -> None:
    assert find_answer(words.split(), {}) is None


def test_completion_is_left_to_click() -> None:
    assert find_answer(["status"], {"_SCHEDCTL_COMPLETE": "bash_complete"}) is None


@pytest.mark.parametrize(("said", "quick"), [("79", False), ("80", True), ("200", True), ("0", False), ("x", False)])
def test_help_for_narrow_terminals_is_left_to_click(said: str, quick: bool) -> None:
    assert (find_answer(["--help"], {"COLUMNS": said}) is not None) == quick


@pytest.mark.parametrize("columns", [60, 80, 132])
def test_help_fits_the_terminal(columns: int) -> None:
    ours, theirs = pty.openpty()
    subprocess.run(["stty", "cols", str(columns)], stdin=theirs, check=True)
    environ = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    command = [sys.executable, "-m", "schedkit.schedctl", "--help"]
    with subprocess.Popen(command, stdout=theirs, env=environ) as process:
        os.close(theirs)
        said = b""
        while b"--help'." not in said:
            said += os.read(ours, 65536)
    os.close(ours)
    assert process.returncode == 0
    longest = max(len(line) for line in said.decode().splitlines())
    assert min(columns, 80) - 12 < longest <= min(columns, 80)
