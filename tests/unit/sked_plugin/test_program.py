"""`kubectl scx` as a program: how it starts, completes and ends, without a cluster."""

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from schedkit import __version__
from schedkit.sked.plugin.group import scx

HEAVY = ("aiohttp", "msgspec", "yaml", "cryptography", "asyncio")


def run(
    *arguments: str, before: str = "", main: str = "main", environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    code = f"{before}\nfrom schedkit.sked.plugin.main import {main} as main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"} | (environ or {}),
    )


@pytest.fixture
def nowhere(tmp_path: Path) -> Path:
    """A kubeconfig of a server that is not there."""
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c"}}, {"name": "other", "context": {"cluster": "c"}}],
        "current-context": "c",
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    return path


def test_every_command_has_the_help_that_the_table_gives_it_and_an_example() -> None:
    for name, text in scx.help_lines.items():
        command = scx.get_command(click.Context(scx), name)
        assert command is not None
        assert (command.name, command.short_help) == (name, text)
        assert name == "version" or f"kubectl scx {name}" in (command.epilog or "")


def test_help_and_version_need_nothing_of_the_extra() -> None:
    without = "import sys; sys.modules.update(dict.fromkeys(('aiohttp', 'msgspec', 'multidict')))"
    assert run("--version", before=without).stdout == f"kubectl scx {__version__}\n"
    for words in ([], ["--help"], ["status", "--help"], ["why", "-h"]):
        done = run(*words, before=without)
        assert (done.returncode, done.stdout[:18]) == (0, "Usage: kubectl scx"), done.stderr


def test_help_imports_nothing_heavy() -> None:
    told = f"import atexit, sys; atexit.register(lambda: print([name for name in {HEAVY} if name in sys.modules]))"
    assert run("status", "--help", before=told).stdout.splitlines()[-1] == "[]"


def test_missing_extra_is_named_with_how_to_install_it() -> None:
    done = run("status", before="import sys; sys.modules['msgspec'] = None")
    assert (done.returncode, done.stderr) == (
        69,
        "error: kubectl scx needs the Python package msgspec\nhint: install all of it: pip install 'schedkit[sked]'\n",
    )


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["statsu"], 64, "error: No such command 'statsu'. Did you mean 'status'?\n"),
        (["status", "-w"], 64, "error: -w follows one SchedExt, as text\n"),
        (["status", "--timeout", "3"], 64, "error: --timeout is for -w\n"),
        (["status", "web", "-A"], 64, "error: a NAME cannot be used with -A\n"),
        (["history", "web", "-A"], 64, "error: a NAME cannot be used with -A\n"),
        (["status", "-n", ""], 64, "error: Invalid value for '-n' / '--namespace': it is empty.\n"),
        (["undo"], 64, "error: Missing argument 'NAME'.\n"),
        (["status"], 69, "error: there is no kubeconfig: /nonexistent/.kube/config not found\n"),
        (["--kubeconfig", "/absent", "nodes"], 69, "error: kubeconfig /absent does not exist\n"),
    ],
)
def test_what_a_user_can_cause_is_one_sentence_and_a_documented_code(words: list[str], code: int, told: str) -> None:
    done = run(*words)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(told), done.stderr


def test_context_that_does_not_exist_is_told_with_those_that_do(nowhere: Path) -> None:
    done = run("status", "--context", "absent", f"--kubeconfig={nowhere}")
    assert (done.returncode, done.stderr) == (
        69,
        "error: the kubeconfig has no context 'absent'\nhint: there are: c, other\n",
    )


def test_server_that_is_down_is_told_without_a_traceback(nowhere: Path) -> None:
    done = run("nodes", environ={"KUBECONFIG": str(nowhere)})
    assert (done.returncode, done.stdout) == (69, "")
    assert done.stderr.startswith("error: list "), done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_sked_kubectl_is_the_same_program() -> None:
    code = "from schedkit.sked.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "kubectl", "status", "--help"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "Usage: sked kubectl status [OPTIONS] [NAME]")
    bare = subprocess.run([sys.executable, "-c", code, "kubectl"], capture_output=True, text=True, check=False)
    assert (bare.returncode, bare.stdout.splitlines()[0]) == (0, "Usage: sked kubectl [OPTIONS] COMMAND [ARGS]...")


def test_kubectl_is_offered_commands_and_contexts_and_no_files(nowhere: Path) -> None:
    assert run("st", main="complete").stdout == f"status\t{scx.help_lines['status']}\n:4\n"
    assert (
        run("status", "--context", "o", main="complete", environ={"KUBECONFIG": str(nowhere)}).stdout == "other\n:4\n"
    )


def test_completion_is_silent_where_no_cluster_answers(nowhere: Path) -> None:
    done = run("why", "", main="complete", environ={"KUBECONFIG": str(nowhere)})
    assert (done.returncode, done.stdout, done.stderr) == (0, ":4\n", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_are_offered_the_same(shell: str) -> None:
    script = run("completion", shell).stdout
    assert "_KUBECTL_SCX_COMPLETE" in script
    asked = {"_KUBECTL_SCX_COMPLETE": f"{shell}_complete", "COMP_WORDS": "kubectl-scx sta", "COMP_CWORD": "1"}
    assert "status" in run(environ=asked if shell != "fish" else asked | {"COMP_CWORD": "sta"}).stdout
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
