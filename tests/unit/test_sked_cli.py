import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from schedkit import __version__

SAMPLE = Path(__file__).parents[2] / "config/samples/sked_v1_schedext.yaml"


def sked(*arguments: str, before: str = "", input: str = "") -> subprocess.CompletedProcess[str]:
    code = f"{before}\nfrom schedkit.sked.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], input=input, capture_output=True, text=True, check=False
    )


def test_version_and_help_need_nothing_of_the_operator() -> None:
    without = "import sys; sys.modules['aiohttp'] = sys.modules['msgspec'] = None"
    assert sked("--version", before=without).stdout == f"sked {__version__}\n"
    assert sked("manager", "--help", before=without).returncode == 0


def test_version_is_shown_however_it_is_asked_for() -> None:
    assert {sked(*words).stdout for words in (["version"], ["-V"], ["--version"])} == {f"sked {__version__}\n"}


def test_help_is_shown_however_it_is_asked_for() -> None:
    assert sked("help").stdout == sked("--help").stdout
    assert sked("help", "agent").stdout == sked("agent", "--help").stdout
    assert sked("help", "bogus").returncode == 64


def test_completion_is_for_the_shell_of_the_user() -> None:
    own = "import os; os.environ['SHELL'] = '/usr/bin/zsh'"
    assert sked("completion", before=own).stdout == sked("completion", "zsh").stdout


@pytest.mark.parametrize(("shell", "current"), [("bash", "1"), ("zsh", "1"), ("fish", "ren")])
def test_completion_script_asks_the_program(shell: str, current: str) -> None:
    assert "_SKED_COMPLETE" in sked("completion", shell).stdout
    asked = {"_SKED_COMPLETE": f"{shell}_complete", "COMP_WORDS": "sked ren", "COMP_CWORD": current}
    assert "render" in sked(before=f"import os; os.environ.update({asked})").stdout


def test_help_of_no_command_is_cut() -> None:
    assert "..." not in sked("--help").stdout.partition("Commands:")[2]


def test_what_is_rendered_can_be_applied_without_its_owner() -> None:
    assert "ownerReferences" not in sked("render", str(SAMPLE)).stdout


def test_missing_extra_is_named_with_how_to_install_it() -> None:
    done = sked("render", str(SAMPLE), before="import sys; sys.modules['msgspec'] = None")
    assert done.returncode == 69
    assert done.stderr == (
        "error: sked needs the Python package msgspec\nhint: install all of it: pip install 'schedkit[sked]'\n"
    )


def test_binary_input_is_bad_data() -> None:
    done = sked("render", "/bin/true")
    assert (done.returncode, done.stderr.startswith("error: /bin/true: not text: ")) == (65, True)


def test_closed_stdin_is_empty_input() -> None:
    done = sked("render", "-", before="import sys; sys.stdin = None")
    assert (done.returncode, done.stderr) == (65, "error: <stdin>: there is no SchedExt in it\n")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "\ta: [",
        "a: 1\na: 2",
        "[" * 20_000,
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n",
        "apiVersion: sked.schedkit.io/v1\nkind: SchedExt\nmetadata: {name: x}\n",
    ],
)
def test_input_that_is_no_schedext_is_bad_data(tmp_path: Path, text: str) -> None:
    file = tmp_path / "input.yaml"
    file.write_text(text)
    done = sked("render", str(file))
    assert (done.returncode, done.stderr.startswith(f"error: {file}")) == (65, True)


def test_cluster_that_nobody_names_is_unavailable(tmp_path: Path) -> None:
    done = sked("manager", before=f"import os; os.environ.update(HOME={str(tmp_path)!r}, KUBECONFIG='')")
    assert (done.returncode, done.stderr.startswith("error: there is no kubeconfig: ")) == (69, True)


def test_manager_is_started_as_the_go_operator_was(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    done = sked("manager", "-leader-elect", "-zap-devel=false", "-zap-time-encoding", "epoch", f"-kubeconfig={absent}")
    logged, told = done.stderr.splitlines()
    entry = json.loads(logged)
    assert entry["message"] == "--zap-time-encoding has no effect: times are written as RFC 3339"
    assert (done.returncode, told) == (69, f"error: kubeconfig {absent} does not exist")


def test_flag_that_does_not_exist_is_named_whole() -> None:
    done = sked("manager", "-no-such-flag=1")
    told, hint = done.stderr.splitlines()
    assert (done.returncode, hint) == (64, "hint: 'sked manager --help' shows the options")
    assert "--no-such-flag" in told  # in words that differ between versions of click


@pytest.mark.parametrize(
    ("words", "path"), [(["manager", "--kubeconfig"], "sked manager"), (["render", "-o"], "sked render")]
)
def test_option_without_its_value_names_its_command(words: list[str], path: str) -> None:
    done = sked(*words)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (64, f"hint: '{path} --help' shows the options")


def test_render_prints_the_described_daemonset() -> None:
    done = sked("render", str(SAMPLE))
    assert done.returncode == 0
    assert "kind: DaemonSet" in done.stdout
    assert "image: ghcr.io/schedkit/scx_rusty:latest" in done.stdout


def make(name: str, **spec: Any) -> str:
    resource = {"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExt", "metadata": {"name": name}}
    return json.dumps({**resource, "spec": {"sched": "example.com/scx_rusty:1", **spec}})


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """A resource for all nodes, and one that is suspended."""
    everywhere, idle = tmp_path / "everywhere.json", tmp_path / "idle.json"
    everywhere.write_text(make("everywhere"))
    idle.write_text(make("idle", suspend=True))
    return str(everywhere), str(idle)


def test_render_plans_files_and_stdin_together_and_warns_of_who_gets_no_nodes(files: tuple[str, str]) -> None:
    later = make("later", pools=[{"name": "large", "nodeSelector": {"pool": "large"}}])
    done = sked("render", files[0], "-", files[1], input=later)
    assert (done.returncode, done.stderr) == (
        0,
        "warning: default/idle gets no nodes: it is suspended\n"
        "warning: default/later, pool large, gets no nodes: default/everywhere comes first on all that it selects\n",
    )
    assert [document["metadata"]["name"] for document in yaml.safe_load_all(done.stdout)] == [
        "everywhere",
        "later-large",
    ]


def test_render_gives_one_list_as_json_with_what_it_gives_as_yaml(files: tuple[str, str]) -> None:
    large = make("large", nodeSelector={"pool": "large"}, priority=1)
    as_json = json.loads(sked("render", "-o", "json", files[0], "-", input=large).stdout)
    as_yaml = list(yaml.safe_load_all(sked("render", files[0], "-", input=large).stdout))
    assert as_json == {"apiVersion": "v1", "kind": "List", "items": as_yaml}
    assert len(as_yaml) == 2
    assert json.loads(sked("render", "--output=json", files[1]).stdout)["items"] == []


@pytest.mark.parametrize(
    ("arguments", "input", "code", "told"),
    [
        ([], "", 64, "error: Missing argument 'FILE...'."),
        (["-o", "xml", "-"], "", 64, "error: Invalid value for '--output' / '-o': 'xml' is not one of 'yaml', 'json'."),
        (["/"], "", 64, "error: / is a directory"),
        (["absent.yaml"], "", 66, "error: absent.yaml: no such file"),
        (["/dev/null/file"], "", 66, "error: /dev/null/file: no such file"),
        (["-"], "a: [", 65, "error: <stdin>, line 1: this is not YAML: "),
        (["-"], "", 65, "error: <stdin>: there is no SchedExt in it"),
        (
            ["-"],
            make("a", sched="A b"),
            65,
            "error: <stdin>: a: spec.sched: there is whitespace in the image reference",
        ),
        (["-"], make("a") + "\n---\n" + make("a"), 65, "error: <stdin>: a: there are two with this name"),
    ],
)
def test_render_ends_with_the_documented_code(arguments: list[str], input: str, code: int, told: str) -> None:
    done = sked("render", *arguments, input=input)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(told)


@pytest.mark.parametrize(
    "wrong",
    [
        ["--metrics-bind-address=bad"],
        ["--health-probe-bind-address=:65536"],
        ["--metrics-secure=false", "--metrics-cert-path=/nowhere"],
    ],
)
def test_wrong_flags_are_refused_before_a_cluster_is_looked_for(tmp_path: Path, wrong: list[str]) -> None:
    done = sked("manager", f"--kubeconfig={tmp_path / 'absent'}", *wrong)
    assert (done.returncode, done.stderr.startswith("error: ")) == (64, True), done.stderr


@pytest.mark.parametrize(
    ("policy", "options", "spec", "code", "reason"),
    [
        ("allowUnsigned: [ghcr.io/**]", [], {}, 22, "Untrusted"),
        (
            "allowUnsigned: [example.com/**]",
            [],
            {"env": [{"name": "LD_PRELOAD", "value": "x"}]},
            1,
            "UnsafeOverride",
        ),
        ("keys: [", [], {}, 65, ""),
        ("allowUnsigned: [ghcr.io/**]", ["--registry-mirror=ghcr.io"], {}, 64, ""),
        ("allowUnsigned: [ghcr.io/**]", ["--insecure-registry=http://a"], {}, 64, ""),
    ],
    ids=["no rule", "override", "policy", "mirror", "insecure"],
)
def test_verify_ends_with_the_documented_code_and_asks_nobody_it_need_not(
    tmp_path: Path, policy: str, options: list[str], spec: dict[str, Any], code: int, reason: str
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(policy)
    without_network = "import socket; socket.getaddrinfo = socket.create_connection = None"
    manifest = make("a", sched="example.com/scx:1", **spec)
    done = sked("verify", "-", f"--trust-policy={file}", *options, input=manifest, before=without_network)
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith("error: ")
    told = (
        ["schedext    a", "image       example.com/scx:1", "verified    no", f"reason      {reason}"] if reason else []
    )
    assert done.stdout.splitlines()[:4] == told
