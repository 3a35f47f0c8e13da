import subprocess
import sys

from schedkit import __version__


def schedctl(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from schedkit.schedctl.main import main; main()"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def test_version_and_help_are_data_on_stdout() -> None:
    version = schedctl("--version")
    assert (version.stdout, version.stderr, version.returncode) == (f"schedctl {__version__}\n", "", 0)
    assert schedctl("--help").stdout.startswith("Usage: schedctl ")


def test_unknown_command_is_a_usage_error_with_a_hint() -> None:
    done = schedctl("frobnicate")
    assert done.returncode == 64
    assert done.stdout == ""
    assert done.stderr == "error: No such command 'frobnicate'.\nhint: 'schedctl --help' shows what it takes\n"
