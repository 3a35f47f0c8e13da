"""The agent's size, its wake-ups, and the time from a kernel's attach to the changed report.

Run as `python -m bench.agent` in the repository; README.md beside it says what is measured.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab import images, kube, layers
from lab.catalogue import open_store
from lab.cluster import Cluster
from lab.disk import DISK
from lab.kernels import OLDEST
from lab.machine import Machine
from lab.node import join
from lab.rooms import TOOLS
from lab.session import NODE, remove_run, run_folder
from lab.sked_deploy import deploy_sked
from lab.sked_image import WHEELS
from lab.store import Store
from tests.e2e.conftest import FIXTURES, SCX, wait_detached
from tests.integration.sked_agent.node import REPORTS
from tests.unit.kernel.roots import ATTACHED, FREE, write_files, write_sched_ext
from tests.unit.sked_agent.test_api import MISSING, Script, answer

ROOT = Path(__file__).resolve().parents[1]
IDLE_SECONDS = 60
BUSY_SECONDS = 120
ATTACHES = 10
PATTERN = "[s]chedkit.sked.agent"
PROC = "cat /proc/{pid}/status /proc/{pid}/smaps_rollup"


def show(what: str, value: str) -> None:
    print(f"{what:<70} {value:>12}", flush=True)


def parse_figures(text: str) -> dict[str, int]:
    """The numbers of /proc/PID/status and smaps_rollup by their names."""
    found = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and value.split() and value.split()[0].isdecimal():
            found[name] = int(value.split()[0])
    return found


def read_figures(pid: int) -> dict[str, int]:
    return parse_figures("".join(Path(f"/proc/{pid}/{name}").read_text() for name in ("status", "smaps_rollup")))


def show_memory(when: str, figures: dict[str, int]) -> None:
    show(f"resident {when}", f"{figures['VmRSS'] / 1024:.1f} MB")
    show(f"  its share of it (Pss) {when}", f"{figures['Pss'] / 1024:.1f} MB")


class Keeper(Script):
    """An API server as far as one report needs it."""

    kept: object = None

    def choose(self) -> bytes:
        first, _, body = self.asked.pop()
        if first.startswith("GET"):
            return answer(200, {"status": self.kept}) if self.kept else MISSING
        self.kept = json.loads(body).get("status", self.kept)
        return answer(200, {})


def measure_host(store: Store, folder: Path) -> None:  # noqa: ARG001
    """The agent as a process on this host, with a made-up kernel and a small server in place of the API server."""
    keeper = Keeper(folder)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        "KUBERNETES_SERVICE_HOST": keeper.server.host,
        "KUBERNETES_SERVICE_PORT": str(keeper.server.port),
    }
    root = folder / "root"
    write_files(root, {"proc/sys/kernel/random/boot_id": "boot-1", "proc/sys/kernel/osrelease": "6.12.41"})
    write_sched_ext(root, FREE)
    flags = [f"--root={root}", f"--service-account={folder}", "--node-name=measured"]
    command = [sys.executable, "-P", "-s", "-m", "schedkit.sked.agent", *flags]
    try:
        subprocess.run([sys.executable, "-c", "import schedkit.sked.agent.__main__"], env=environment, check=True)
        with running(command, environment) as pid:
            before = read_figures(pid)
            show_memory("after its start", before)
            time.sleep(IDLE_SECONDS)
            woken = read_figures(pid)["voluntary_ctxt_switches"] - before["voluntary_ctxt_switches"]
            show(f"wake-ups in {IDLE_SECONDS} s in which nothing happens", str(woken))
        with running([*command, "--look-seconds=0.05", "--fetch-seconds=0.15"], environment) as pid:
            seq, end = 10, time.monotonic() + BUSY_SECONDS
            while time.monotonic() < end:
                write_sched_ext(root, ATTACHED | {"enable_seq": str(seq)})
                time.sleep(0.05)
                (root / "sys/kernel/sched_ext/root/ops").unlink()
                write_sched_ext(root, FREE | {"enable_seq": str(seq)})
                time.sleep(0.05)
                seq += 1
            show(f"attachments and departures in {BUSY_SECONDS} s", str(2 * (seq - 10)))
            show_memory("after them, with an exchange about each 0.15 s", read_figures(pid))
    finally:
        keeper.close()


@contextmanager
def running(command: list[str], environment: dict[str, str]) -> Iterator[int]:
    """A process that has had some seconds to start, for as long as it is measured."""
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            time.sleep(10)
            if process.poll() is not None:
                raise RuntimeError(f"the agent ended with status {process.returncode}")
            yield process.pid
        finally:
            process.kill()


def measure_attach(machine: Machine, cluster: Cluster) -> float:
    """The seconds from the kernel's attach to the report that tells it."""
    began = time.time()
    offset = int(machine.run("date +%s%N").stdout) / 1e9 - (began + time.time()) / 2
    wait = f"until read -r state <{SCX}/state && [ $state = enabled ]; do sleep 0.01; done; date +%s%N"
    script = f"setsid {FIXTURES}/scx_fifo-v1 >/dev/null 2>&1 </dev/null & echo $!; {wait}"
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(machine.run(f"bash -c {shlex.quote(script)}").stdout))
    thread.start()
    with cluster.connect() as connection:
        while json.loads(connection.request("GET", f"{REPORTS}/{NODE}").body)["status"]["slot"]["state"] != "enabled":
            time.sleep(0.01)
        changed = time.time()
    thread.join()
    pid, attached = said[0].split()
    machine.run(f"kill {pid}")
    wait_detached(machine)
    with cluster.connect() as connection:
        while json.loads(connection.request("GET", f"{REPORTS}/{NODE}").body)["status"]["slot"]["state"] != "disabled":
            time.sleep(0.05)
    time.sleep(6)  # so that no attach waits for the limit of writes
    return changed - (int(attached) / 1e9 - offset)


def measure_lab(store: Store, folder: Path) -> None:
    """The agent from its image, as a pod on a real node."""
    wanted = (TOOLS, DISK, OLDEST.artefact, layers.NODE.artefact, WHEELS, images.PYTHON)
    store.ensure(*wanted, *kube.artefacts(kube.read_assets()))
    machine = Machine.start(store, folder / "machine", layers=(layers.NODE,))
    cluster = Cluster.start(folder / "cluster", kube.binaries(store, kube.read_assets()))
    join(machine, cluster, NODE)
    deploy_sked(store, machine, cluster)
    cluster.kubectl("-n", "sked-system", "rollout", "status", "daemonset/sked-agent", "--timeout=180s", timeout=190)
    look = PROC.format(pid=f"$(pgrep -of '{PATTERN}')")
    time.sleep(5)
    before = parse_figures(machine.run(look).stdout)
    show_memory("from its image, after its start", before)
    time.sleep(IDLE_SECONDS)
    after = parse_figures(machine.run(look).stdout)
    woken = after["voluntary_ctxt_switches"] - before["voluntary_ctxt_switches"]
    show(f"wake-ups in {IDLE_SECONDS} s, the kubelet's probes among them", str(woken))
    seconds = [measure_attach(machine, cluster) for _ in range(ATTACHES)]
    show(f"from attach to the changed report, median of {ATTACHES}", f"{statistics.median(seconds):.2f} s")
    show("  the longest of these", f"{max(seconds):.2f} s")
    show_memory(f"from its image, after {ATTACHES} attachments", parse_figures(machine.run(look).stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the agent.")
    parser.add_argument("--host", action="store_true", help="measure it on this host only")
    parser.add_argument("--lab", action="store_true", help="measure it in the lab's machine only")
    asked = parser.parse_args()
    store = open_store()
    show("Python of this host", sys.version.split()[0])
    for part, measure in ((asked.host, measure_host), (asked.lab, measure_lab)):
        if part or not (asked.host or asked.lab):
            folder = run_folder(store, "bench")
            show("load of this host, 1 minute", f"{os.getloadavg()[0]:.2f}")
            try:
                measure(store, folder)
            finally:
                remove_run(store, folder)


if __name__ == "__main__":
    main()
