import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from schedkit.errors import ExitCode, NoSpaceError, SchedkitError, run_at_edge
from schedkit.exit_codes import MEANINGS


def all_errors(base: type[SchedkitError] = SchedkitError) -> set[type[SchedkitError]]:
    return {base}.union(*(all_errors(error) for error in base.__subclasses__()))


def test_every_exit_code_has_its_meaning_in_order() -> None:
    assert list(MEANINGS) == sorted(ExitCode)
    assert all(meaning.endswith(".") for meaning in MEANINGS.values())


def test_every_error_has_a_reason_in_one_camel_case_word() -> None:
    assert all(re.fullmatch(r"([A-Z][a-z0-9]+)+", error.reason) for error in all_errors())


def test_error_prints_what_happened_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    def program() -> int:
        raise NoSpaceError("the disk is full", hint="delete something")

    assert run_at_edge(program) == ExitCode.NO_SPACE
    captured = capsys.readouterr()
    assert captured.err == "error: the disk is full\nhint: delete something\n"
    assert captured.out == ""


def test_message_from_elsewhere_can_do_nothing_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    def program() -> int:
        raise SchedkitError("the registry says \x1b]0;x\x07\x1b[2J\nhint: rm -rf /", hint="a\rb")

    run_at_edge(program)
    assert capsys.readouterr().err == "error: the registry says �]0;x��[2J\n  hint: rm -rf /\nhint: a�b\n"


def test_bug_is_told_in_one_line_unless_debugging(capsys: pytest.CaptureFixture[str]) -> None:
    def program() -> int:
        raise ZeroDivisionError("oh")

    assert run_at_edge(program) == ExitCode.INTERNAL
    quiet = capsys.readouterr().err
    assert quiet.startswith("error: internal error: ZeroDivisionError: oh\nhint: ")
    assert "Traceback" not in quiet
    run_at_edge(program, debug=True)
    assert "Traceback" in capsys.readouterr().err


def test_package_that_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    def program() -> int:
        raise ModuleNotFoundError("No module named 'grpc'", name="grpc")

    assert run_at_edge(program, name="schedctl") == ExitCode.UNAVAILABLE
    said = capsys.readouterr().err
    assert said.startswith("error: schedctl needs the Python package grpc\nhint: ")
    assert "[sked]" not in said  # which does not contain it
    run_at_edge(program, name="sked")
    assert "schedkit[sked]" in capsys.readouterr().err


def test_reader_that_leaves_is_told_by_the_exit_code_alone() -> None:
    code = "import sys; from schedkit.errors import run_at_edge; sys.exit(run_at_edge(lambda: print('x\\n' * 500_000)))"
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    line = f'set -o pipefail; {sys.executable} -c "{code}" | head -1'
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, env=environ)
    assert (done.returncode, done.stdout, done.stderr) == (ExitCode.FAILURE, "x\n", "")


@pytest.mark.parametrize(("error", "code"), [("NotFoundError('x', hint='y')", 66), ("KeyboardInterrupt", 130)])
def test_full_disk_under_stderr_changes_no_exit_code(error: str, code: int) -> None:
    program = f"""if True:
        import sys
        from schedkit.errors import NotFoundError, run_at_edge
        def program():
            raise {error}
        sys.exit(run_at_edge(program))"""
    with Path("/dev/full").open("w") as full:
        assert subprocess.run([sys.executable, "-c", program], stderr=full, check=False).returncode == code


def test_interruption_has_its_own_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    def program() -> int:
        raise KeyboardInterrupt

    assert run_at_edge(program) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "file"), ExitCode.NO_SPACE, "No space left on device: file"),
        (OSError(errno.EACCES, "Permission denied", "file"), ExitCode.NO_PERMISSION, "Permission denied: file"),
        (OSError(errno.EIO, "Input/output error"), ExitCode.FAILURE, "Input/output error"),
    ],
)
def test_what_the_system_refuses_is_no_bug(
    error: OSError, code: ExitCode, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def program() -> int:
        raise error

    assert run_at_edge(program) == code
    assert capsys.readouterr().err == f"error: {said}\n"
