"""`sked agent` as a process, with a made-up kernel and an API server of the test's own."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from lab.waiting import NotYetError, wait_for
from schedkit.sked.cli import agent
from tests.unit.kernel.roots import FREE, write_files, write_sched_ext
from tests.unit.sked_agent.test_api import MISSING, Script, answer

PROGRAM = "from schedkit.sked.cli import main; main()"
SECONDS = 60
DOCUMENTATION = Path(__file__).parents[3] / "docs/sked/node-reports.md"


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, "agent", *words]
    return subprocess.run(
        command, env={"PATH": os.environ["PATH"], **environment}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("words", "environment", "code", "told"),
    [
        ((), {}, 64, "error: Missing option '--node-name'"),
        (("--node-name=Not_A_Node",), {}, 64, "error: 'Not_A_Node' is not the name of a node"),
        (("--node-name=a", "--metrics-bind-address=x"), {}, 64, "error: 'x' is not an address to listen on"),
        (("--node-name=a", "--look-seconds=0"), {}, 64, "--look-seconds"),
        (("--node-name=a",), {}, 69, "error: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT name no API server"),
        (
            ("--health-probe-bind-address=192.0.2.1:1",),
            {"NODE_NAME": "a", "KUBERNETES_SERVICE_HOST": "127.0.0.1"},
            69,
            "error: cannot serve health probes on 192.0.2.1:1",
        ),
    ],
)
def test_wrong_start_is_told(words: tuple[str, ...], environment: dict[str, str], code: int, told: str) -> None:
    done = run(*words, **environment)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)
    assert told in done.stderr


class Running:
    """An agent and the folder that is its kernel."""

    def __init__(self, root: Path, script: Script) -> None:
        self.root = write_sched_ext(root, FREE)
        write_files(root, {"proc/sys/kernel/random/boot_id": "boot-1", "proc/sys/kernel/osrelease": "6.12.41"})
        self.ports = []
        for _ in range(2):
            with socket.create_server(("127.0.0.1", 0)) as free:
                self.ports.append(free.getsockname()[1])
        words = [f"--root={root}", f"--service-account={script.folder}", "--node-name=a"]
        words += [f"--health-probe-bind-address=127.0.0.1:{self.ports[0]}"]
        words += [f"--metrics-bind-address=127.0.0.1:{self.ports[1]}"]
        host, port, _ = script.server
        environment = os.environ | {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": str(port)}
        self.process = subprocess.Popen([sys.executable, "-c", PROGRAM, "agent", *words], env=environment)

    def read(self, path: str, port: int = 0) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[port]}{path}", timeout=10) as found:
                return found.status, found.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError as error:
            raise NotYetError(str(error)) from error

    def read_status(self, name: str) -> int:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        (found,) = (line.split(":")[1] for line in text.splitlines() if line.startswith(f"{name}:"))
        return int(found.split()[0])


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    script = Script(tmp_path)
    yield script
    script.close()


@pytest.fixture
def running(script: Script, tmp_path: Path) -> Iterator[Running]:
    script.answers += [MISSING, answer(201, {}), answer(200, {})]
    running = Running(tmp_path / "root", script)
    wait_for("the agent to be ready", lambda: running.read("/readyz") == (200, "ok"), SECONDS)
    yield running
    running.process.kill()
    running.process.wait()


def test_first_report_is_written_by_a_process_that_loaded_nothing_heavy(running: Running, script: Script) -> None:
    assert [first.split("?")[0] for first, _, _ in script.asked] == [
        "GET /apis/sked.schedkit.io/v1/schedextnodes/a",
        "PATCH /apis/sked.schedkit.io/v1/schedextnodes/a",
        "PATCH /apis/sked.schedkit.io/v1/schedextnodes/a/status",
    ]
    status = json.loads(script.asked[-1][2])["status"]
    assert (status["slot"], status["kernel"]["bootID"]) == ({"state": "disabled", "enableSeq": 3}, "boot-1")
    loaded = Path(f"/proc/{running.process.pid}/maps").read_text()
    assert "_ssl" in loaded
    assert not [name for name in ("msgspec", "aiohttp", "yaml", "cryptography") if f"/{name}/" in loaded]
    assert b"schedkit.sked.agent" in Path(f"/proc/{running.process.pid}/cmdline").read_bytes()


def test_metrics_are_those_of_the_kernel_and_of_the_agent(running: Running) -> None:
    code, text = running.read("/metrics", 1)
    assert code == 200
    assert 'sched_ext_state{state="disabled"} 1\n' in text
    assert "sked_agent_writes_total 1\n" in text
    assert text.endswith("# EOF\n")
    assert (running.read("/metrics")[0], running.read("/healthz", 1)[0]) == (404, 404)
    assert running.read("/healthz") == (200, "ok")


def test_nothing_wakes_it_while_nothing_happens(running: Running) -> None:
    time.sleep(2.7)  # it looks a few times more at its start
    before = running.read_status("voluntary_ctxt_switches")
    time.sleep(2)
    assert running.read_status("voluntary_ctxt_switches") == before


def test_sigterm_ends_it_well(running: Running) -> None:
    running.process.terminate()
    assert running.process.wait(timeout=30) == 0


def test_agent_imports_nothing_heavy() -> None:
    code = "import sys, schedkit.sked.agent.__main__; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"aiohttp", "asyncio", "click", "cryptography", "dataclasses", "msgspec", "subprocess", "yaml"}
    heavy |= {"schedkit.kernel.btf", "schedkit.kernel.preflight"}
    assert not heavy & set(loaded)


def test_documentation_lists_every_option_and_every_metric(running: Running) -> None:
    documented = DOCUMENTATION.read_text()
    options = [option for option in agent.params if isinstance(option, click.Option) and not option.hidden]
    assert [option.opts[0] for option in options if f"| `{option.opts[0]} " not in documented] == []
    families = [line.split()[2] for line in running.read("/metrics", 1)[1].splitlines() if line.startswith("# TYPE")]
    listed = (DOCUMENTATION.parent / "monitoring.md").read_text()
    assert [name for name in families if f"| `{name}" not in listed] == []
