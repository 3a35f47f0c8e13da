"""The program as a process: what it prints where, how it ends, and what it does not import."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from schedkit import __version__
from schedkit.errors import ExitCode
from schedkit.runtimes.known import DRIVERS
from schedkit.schedctl.group import HIDDEN, schedctl
from schedkit.schedctl.options import DRIVER_NAMES
from tests.unit.runtimes.fake_engine import INSPECTED, run_fake_engine

# What takes long to import, or is for others: none of it may be there when a command does not need it.
HEAVY: tuple[str, ...] = (
    "aiohttp",
    "concurrent.futures",
    "cryptography",
    "difflib",
    "google.protobuf",
    "grpc",
    "http.client",
    "msgspec",
)
HEAVY += ("logging", "pydantic", "sigstore", "ssl", "subprocess", "tempfile", "tomllib", "tuf", "urllib.request")
HEAVY += ("urllib3", "yaml")
# What is asked often does without these as well; `dataclasses` would bring `inspect`, and compile each class anew.
SPARED: tuple[str, ...] = ("ast", "click", "copy", "dataclasses", "dis", "gettext", "inspect", "json", "locale")
SPARED += ("platform", "schedkit.runtimes.model", "shutil", "tokenize", "uuid")
# And, where no runtime has a socket, without these.
ASKING: tuple[str, ...] = ("selectors", "socket", "threading")
# --help needs but little more than the interpreter.
UNREAD: tuple[str, ...] = ("datetime", "ipaddress", "pathlib", "struct", "urllib.parse")
# --help needs none of our own rooms either.
ROOMS: tuple[str, ...] = ("schedkit.host", "schedkit.images", "schedkit.kernel", "schedkit.runtimes", "schedkit.trust")
ROOMS += ("schedkit.schedctl.commands",)

HELP = schedctl.help_lines
NO_RUNTIME = dict.fromkeys(("CONTAINER_HOST", "DOCKER_HOST", "CONTAINERD_ADDRESS"), "/nonexistent/sock")


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    code = "from schedkit.schedctl.main import main; main()"
    environ = {**os.environ, "XDG_CONFIG_HOME": "/nonexistent", **variables}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environ)


def imported_by(*arguments: str, **variables: str) -> set[str]:
    """All modules that one invocation imports."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('MODULES', *sys.modules, file=sys.stderr))\n"
        "from schedkit.schedctl.main import main; main()"
    )
    environ = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | variables
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    return set(done.stderr.rpartition("MODULES ")[2].split())


def test_version_and_help_are_data_on_stdout() -> None:
    version = run("--version")
    assert (version.stdout, version.stderr, version.returncode) == (f"schedctl {__version__}\n", "", 0)
    assert run("--help").stdout.startswith("Usage: schedctl ")


@pytest.mark.parametrize("words", [[], ["help"]])
@pytest.mark.parametrize("columns", ["60", "80"])
def test_its_name_alone_and_help_print_the_help(words: list[str], columns: str) -> None:
    done, meant = run(*words, COLUMNS=columns), run("--help", COLUMNS=columns)
    assert (done.stdout, done.stderr, done.returncode) == (meant.stdout, "", 0)


def test_a_group_alone_prints_its_help() -> None:
    done = run("catalog")
    assert (done.stdout, done.stderr, done.returncode) == (run("catalog", "--help").stdout, "", 0)


def test_help_of_a_command_is_what_its_option_prints() -> None:
    assert run("help", "run").stdout == run("run", "--help").stdout
    assert run("help", "catalog", "update").stdout == run("catalog", "update", "--help").stdout
    done = run("help", "run", "more")
    assert (done.returncode, done.stderr.splitlines()[0]) == (64, "error: schedctl run has no commands")
    assert run("help", "rnu").stderr.startswith("error: No such command 'rnu'. Did you mean 'run'?\n")


def test_help_has_the_tables_that_scripts_need() -> None:
    codes = run("help", "exit-codes", COLUMNS="80").stdout
    assert "\n 10  SLOT_TAKEN      Another scheduler is attached; the slot is taken.\n" in codes
    assert codes.count("\n") >= len(ExitCode)
    fields = run("help", "json").stdout
    assert fields.startswith("schedctl ")
    assert "schedctl status:\n" in fields
    assert run("help", "json", "catalog", "update").stdout.startswith("schedctl catalog update:\n")
    done = run("help", "json", "completion")
    assert (done.returncode, done.stderr.splitlines()[0]) == (64, "error: schedctl completion prints no JSON")


@pytest.mark.parametrize("word", ["version", "-V"])
def test_version_can_be_asked_for_in_other_ways(word: str) -> None:
    assert run(word).stdout == run("--version").stdout


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("statsu", "status"),
        ("stat", "status"),
        ("lits", "list"),
        ("enabel", "enable"),
        ("stpo", "stop"),
        ("rnu", "run"),
        ("verison", "version"),
    ],
)
def test_mistyped_command_gets_a_suggestion(typed: str, meant: str) -> None:
    done = run(typed)
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        64,
        f"error: No such command '{typed}'. Did you mean '{meant}'?",
    )


@pytest.mark.parametrize("typed", ["search", "set", "top", "attach", "remove"])
def test_another_word_gets_no_suggestion(typed: str) -> None:
    assert run(typed).stderr.splitlines()[0] == f"error: No such command '{typed}'."


def test_words_of_other_tools_are_understood() -> None:
    listed = run("list", "-o", "json", **NO_RUNTIME)
    assert (listed.returncode, "scx_rusty" in listed.stdout) == (0, True)
    assert run("ls", "-o", "json", **NO_RUNTIME).stdout == listed.stdout
    assert run("start", "--help").stdout == run("run", "--help").stdout.replace("schedctl run [", "schedctl start [")


def test_misspelt_option_is_never_taken_for_the_schedulers() -> None:
    near = run("run", "--vesion", "1", "scx_rusty")
    assert "--version" in near.stderr
    assert "run -- --vesion" not in near.stderr
    theirs = run("run", "scx_rusty", "--performance")
    assert "schedctl run scx_rusty -- --performance" in theirs.stderr


@pytest.mark.parametrize("output", [["-o", "json"], ["-ojson"], ["--output=json"], ["--output", "json"]])
def test_error_is_json_where_json_was_asked_for(output: list[str]) -> None:
    done = run("info", "no_such_scheduler", *output)
    assert (done.returncode, done.stdout) == (66, "")
    document = json.loads(done.stderr.splitlines()[-1])
    assert document["version"] == "1"
    assert document["error"]["reason"] == "NotFound"
    assert document["error"]["exitCode"] == 66
    assert set(document["error"]) == {"reason", "message", "hint", "exitCode"}


def test_output_of_the_scheduler_is_not_ours() -> None:
    done = run("run", "scx_rusty", "--no-such-option", "--", "-o", "json")
    assert done.stderr.startswith("error: ")


def test_unknown_command_is_a_usage_error_with_a_hint() -> None:
    done = run("frobnicate")
    assert done.returncode == 64
    assert done.stdout == ""
    assert done.stderr == "error: No such command 'frobnicate'.\nhint: 'schedctl --help' shows the options\n"


@pytest.mark.parametrize("name", HELP)
def test_help_says_of_each_command_what_the_command_says_itself(name: str) -> None:
    command = schedctl.get_command(click.Context(schedctl), name)
    assert command is not None
    assert command.short_help == HELP[name]


def test_help_lists_every_command() -> None:
    said = run("--help").stdout
    for name, text in HELP.items():
        assert any(line.split(maxsplit=1) == [name, text] for line in said.splitlines()), name


def test_every_command_is_in_help_or_hidden() -> None:
    assert not set(HELP) & set(HIDDEN)
    hidden = schedctl.get_command(click.Context(schedctl), "service")
    assert hidden is not None
    assert hidden.hidden


def test_global_options_are_taken_before_and_after_the_command() -> None:
    for words in (
        ["--driver", "lxc", "status"],
        ["status", "--driver", "lxc"],
        ["-d", "docker", "status", "-d", "lxc"],
    ):
        done = run(*words)
        assert (done.returncode, done.stderr.splitlines()[0]) == (64, "error: unknown driver 'lxc'")


def test_driver_is_checked_before_a_name_is_missed() -> None:
    done = run("run", "-d", "lavd")  # as with podman, where it means detached
    assert (done.returncode, done.stderr.splitlines()) == (
        64,
        [
            "error: unknown driver 'lavd'",
            "hint: -d is --driver (one of: auto, podman, docker, containerd); `schedctl run` returns by itself when the"
            " scheduler is attached",
        ],
    )


def test_driver_from_the_environment_is_checked_too() -> None:
    done = run("ps", SCHEDCTL_DRIVER="lxc")
    assert done.returncode == 64
    assert "SCHEDCTL_DRIVER" in done.stderr


def test_socket_needs_a_driver() -> None:
    done = run("--socket", "/run/some.sock", "ps")
    assert done.returncode == 64
    assert "--driver" in done.stderr


def test_help_knows_the_drivers_there_are() -> None:
    assert list(DRIVER_NAMES) == ["auto", *DRIVERS]


def test_help_imports_nothing_it_does_not_need() -> None:
    modules = imported_by("--help")
    assert "schedkit.schedctl.help_text" in modules
    assert [name for name in (*HEAVY, *SPARED, *ASKING, *UNREAD) if name in modules] == []
    assert [name for name in ROOMS if any(one == name or one.startswith(f"{name}.") for one in modules)] == []


def test_help_of_click_imports_nothing_heavy_either() -> None:
    modules = imported_by("--help", COLUMNS="79")
    assert "click" in modules
    assert [name for name in HEAVY if name in modules] == []
    assert [name for name in ROOMS if any(one == name or one.startswith(f"{name}.") for one in modules)] == []


@pytest.mark.parametrize("command", ["status", "ps"])
def test_what_is_asked_often_imports_nothing_heavy(command: str) -> None:
    modules = imported_by(command, **NO_RUNTIME)
    assert "schedkit.host.managed" in modules
    assert [name for name in (*HEAVY, *SPARED, *ASKING) if name in modules] == []


@pytest.mark.parametrize("command", ["status", "ps"])
def test_what_is_asked_often_imports_nothing_heavy_when_click_reads_it(command: str) -> None:
    modules = imported_by("--driver", "podman", command, **NO_RUNTIME)
    assert {"click", "schedkit.host.managed"} <= modules
    assert [name for name in (*HEAVY, "dataclasses", "selectors", "socket") if name in modules] == []


@pytest.mark.parametrize("command", ["status", "ps"])
def test_asking_an_engine_imports_nothing_heavy(command: str, tmp_path: Path) -> None:
    with run_fake_engine(tmp_path / "podman.sock", "podman") as fake:
        fake.on("GET /containers/json", 200, [{"Id": "c0ffee"}])
        fake.on("GET /containers/c0ffee/json", 200, INSPECTED)
        modules = imported_by(command, **NO_RUNTIME | {"CONTAINER_HOST": fake.socket})
    assert len(fake.requests) == 3
    assert "schedkit.runtimes.engine" in modules
    needed = {"json", "schedkit.runtimes.model"}
    assert [name for name in (*HEAVY, *SPARED, "base64", "email") if name in modules - needed] == []


def test_one_command_does_not_import_another() -> None:
    modules = imported_by("--driver", "auto", "status")
    found = [name for name in modules if name.startswith("schedkit.schedctl.commands.")]
    assert found == ["schedkit.schedctl.commands.status"]


def test_commands_need_no_newer_click_than_the_package_asks_for() -> None:
    """Before 8.4.2 click's CompletionItem is a plain class: no annotation may subscript it at import."""
    code = (
        "import importlib, sys, click.shell_completion as shells\n"
        "class Plain: pass\n"
        "shells.CompletionItem = Plain\n"
        "for name in sys.argv[1:]: importlib.import_module(f'schedkit.schedctl.commands.{name}')"
    )
    subprocess.run([sys.executable, "-c", code, *HELP, *HIDDEN], check=True)


def run_in_shell(line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A line of bash in which $schedctl is the program."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"} | NO_RUNTIME
    environ |= {"schedctl": f"{sys.executable} -m schedkit.schedctl", **variables}
    command = ["bash", "-c", f"set -o pipefail; {line}"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environ, timeout=60)


def test_a_reader_that_leaves_is_no_traceback(tmp_path: Path) -> None:
    # More than a pipe holds, so that it is still being written when the reader has gone.
    entries = {f"scx_{number}": {"imageURI": f"localhost:5000/scx_{number}"} for number in range(5000)}
    catalog = tmp_path / "catalog.json"
    catalog.write_text(json.dumps(entries))
    done = run_in_shell(f"$schedctl --catalog {catalog} list | head -1")
    assert done.stdout.startswith("NAME")
    assert (done.returncode, done.stderr) == (1, "")


def test_a_full_disk_is_told_once() -> None:
    done = run_in_shell("$schedctl list >/dev/full")
    assert (done.returncode, done.stderr) == (73, "error: No space left on device\n")


@pytest.mark.parametrize("command", ["list", "list -o json", "status", "--help", "run --help"])
def test_a_closed_stdout_is_no_bug(command: str) -> None:
    done = run_in_shell(f"$schedctl {command} >&-")
    assert done.returncode in (0, 1)
    assert "internal error" not in done.stderr


def test_a_closed_stderr_is_no_bug() -> None:
    assert run_in_shell("$schedctl frobnicate 2>&-").returncode == 64


@pytest.mark.parametrize("encoding", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}])
def test_an_ascii_terminal_is_no_bug(tmp_path: Path, encoding: dict[str, str]) -> None:
    catalog = tmp_path / "catalog.json"
    entry = {"imageURI": "localhost:5000/ours", "description": "für alle … 😀"}
    catalog.write_text(json.dumps({"ours": entry}, ensure_ascii=False), encoding="utf-8")
    variables = {**encoding, "PYTHONUTF8": "0"}
    done = run_in_shell(f"$schedctl --catalog {catalog} list", **variables)
    assert (done.returncode, done.stderr) == (0, "")
    assert "f?r alle ? ?" in done.stdout
    document = json.loads(run_in_shell(f"$schedctl --catalog {catalog} list -o json", **variables).stdout)
    [ours] = [one for one in document["schedulers"] if one["name"] == "ours"]
    assert ours["description"] == "für alle … 😀"
    assert run_in_shell("$schedctl run --help", **variables).returncode == 0
    assert run_in_shell(f"$schedctl --catalog {catalog} info ün", **variables).returncode < 70


@pytest.mark.parametrize(
    "line",
    [
        "--catalog /bin/true list",
        "--trust-policy /bin/true verify scx_rusty --offline",
        "info $'\\xff\\xfe'",
        "stop $'\\xff'",
        "logs $'\\xff'",
        "run scx_rusty --env $'\\xff=1' --restart $'\\xff'",
        "--driver $'\\xff' status",
        "$'\\xff'",
        "--socket $'\\xff' --driver podman ps",
    ],
)
def test_binary_input_is_no_bug(line: str, tmp_path: Path) -> None:
    done = run_in_shell(f"$schedctl {line} </bin/true", XDG_CACHE_HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path))
    assert "internal error" not in done.stderr
    assert done.returncode != 70


def test_binary_configuration_is_no_bug(tmp_path: Path) -> None:
    (tmp_path / "schedkit").mkdir()
    (tmp_path / "schedkit/config.toml").write_bytes(Path(sys.executable).read_bytes()[:5000])
    done = run_in_shell("$schedctl status", XDG_CONFIG_HOME=str(tmp_path))
    assert (done.returncode, "not UTF-8 text" in done.stderr) == (65, True)


def test_configuration_that_is_a_directory_is_bad_data(tmp_path: Path) -> None:
    (tmp_path / "schedkit/config.toml").mkdir(parents=True)
    done = run_in_shell("$schedctl status", XDG_CONFIG_HOME=str(tmp_path))
    assert (done.returncode, "config.toml is a directory" in done.stderr) == (65, True)


def test_configuration_folder_that_may_not_be_entered_is_not_an_absent_file(tmp_path: Path) -> None:
    (tmp_path / "schedkit").mkdir(mode=0o000)
    limits = "setpriv --bounding-set=-dac_override,-dac_read_search" if os.geteuid() == 0 else ""  # root may enter all
    done = run_in_shell(f"{limits} $schedctl list", XDG_CONFIG_HOME=str(tmp_path))
    assert (done.returncode, done.stdout) == (77, "")
    assert done.stderr.startswith(f"error: no permission to read {tmp_path}/schedkit/config.toml\nhint: ")


@pytest.mark.parametrize("shell", ["", "/bin/sh", "/usr/bin/nu"])
def test_completion_says_for_which_shells_it_is(shell: str) -> None:
    done = run("completion", SHELL=shell)
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        64,
        "error: no shell was named, and SHELL is none of: bash, zsh, fish",
    )


def test_completion_is_for_the_shell_of_the_user() -> None:
    assert run("completion", SHELL="/usr/bin/fish").stdout == run("completion", "fish").stdout
    assert run("completion", "bash", SHELL="/usr/bin/fish").stdout == run("completion", "bash").stdout


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("versions scx_rusty --limit x", "'x' is not a whole number."),
        ("watch --count 0", "'0' is out of range: at least 1."),
        ("bench --with none,none --runs 0 -- true", "'0' is out of range: from 1 to 5000."),
    ],
)
def test_wrong_number_is_told_in_plain_words(line: str, message: str) -> None:
    assert message in run_in_shell(f"$schedctl {line}").stderr


def test_verbose_shows_what_lies_below_an_error(tmp_path: Path) -> None:
    catalog = tmp_path / "catalog.json"
    catalog.write_text("{")
    said = run_in_shell(f"$schedctl -v --catalog {catalog} list").stderr
    assert "  caused by JSONDecodeError: " in said
    assert "caused by" not in run_in_shell(f"$schedctl --catalog {catalog} list").stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_end_it_as_ctrl_c_does(number: signal.Signals) -> None:
    # Whoever runs the tests in the background, or with nohup, has signals ignored that would be inherited.
    serve = [sys.executable, "-m", "schedkit.schedctl", "metrics", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(["env", "--default-signal", *serve], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("serving ")
        process.send_signal(number)
        _, said = process.communicate()
    assert (process.returncode, said.strip()) == (130, "interrupted")


def complete(*words: str, **variables: str) -> list[str]:
    """What bash would offer for the last word; nothing may be said on stderr, whatever is wrong."""
    asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = run(_SCHEDCTL_COMPLETE="bash_complete", **asked, **variables)
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_completion_offers_commands_options_and_names() -> None:
    assert complete("schedctl", "st") == ["stop", "status"]
    assert complete("schedctl", "run", "scx_rust") == ["scx_rustland", "scx_rusty"]
    assert complete("schedctl", "--driver", "po") == ["podman"]
    assert "--allow-unsigned" in complete("schedctl", "run", "--")


def test_completion_looks_into_the_catalog_that_the_line_names(tmp_path: Path) -> None:
    catalog = tmp_path / "catalog.json"
    catalog.write_text('{"our_sched": {"imageURI": "localhost:5000/our_sched"}}')
    assert complete("schedctl", "--catalog", str(catalog), "run", "our") == ["our_sched"]
    assert complete("schedctl", "run", "our", SCHEDCTL_CATALOG=str(catalog)) == ["our_sched"]


def test_completion_is_silent_about_a_runtime_that_hangs(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as hung:
        hung.bind(str(tmp_path / "podman.sock"))
        hung.listen()
        begun = time.monotonic()
        assert complete("schedctl", "stop", "x", **NO_RUNTIME | {"CONTAINER_HOST": str(tmp_path / "podman.sock")}) == []
        assert time.monotonic() - begun < 6


def test_completion_is_silent_about_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "schedkit").mkdir()
    (tmp_path / "schedkit/config.toml").write_text("torn =")
    assert complete("schedctl", "run", "scx", XDG_CONFIG_HOME=str(tmp_path)) == []
    assert complete("schedctl", "stop", "x") == []
