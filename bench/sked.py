"""The operator's speed and size on a real control plane, as ratios to a plain loop of the same writes in the same run.

Run as `python -m bench.sked` in the repository; README.md beside it says what is measured.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path

import aiohttp

from bench.plain import DAEMONSETS, IMAGE, Json, name, open_session, place, send, spread
from lab import kube, kwok
from lab.addresses import choose_free_ports
from lab.catalogue import open_store
from lab.cluster import Cluster
from lab.components import CONTROLLER_MANAGER
from lab.process import Daemon
from lab.session import remove_run, run_folder
from lab.waiting import wait_for

ROOT = Path(__file__).resolve().parents[1]
RESOURCES, NODES, CHANGES = 1_000, 5_000, 10_000
ROLLOUT_NODES = 1_000
WORKERS = 16
TURNS = 2
IDLE_SECONDS = 30.0
ENDING = (signal.SIGINT, signal.SIGTERM)
MANAGER = "from schedkit.sked.cli import main; main()"
SCHEDEXTS = "/apis/sked.schedkit.io/v1/namespaces/default/schedexts"


def make_schedext(number: int) -> Json:
    metadata = {"name": name(number), "namespace": "default"}
    spec = {"sched": IMAGE, "nodeSelector": place(number)}
    return {"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExt", "metadata": metadata, "spec": spec}


async def wait_created(session: aiohttp.ClientSession, namespace: str) -> float:
    """When the last of the DaemonSets was seen to be created."""
    seen: set[str] = set()
    async with session.get(DAEMONSETS.format(namespace), params={"watch": "true"}) as answer:
        async for line in answer.content:
            event = json.loads(line)
            if event["type"] == "ADDED":
                seen.add(event["object"]["metadata"]["name"])
                if len(seen) == RESOURCES:
                    return time.monotonic()
    raise RuntimeError("the watch ended early")


async def wait_beside(watching: asyncio.Future[float], check: Callable[[], None]) -> float:
    """What is waited for; `check` raises when the process that should bring it about has failed."""
    while not watching.done():
        check()
        await asyncio.wait([watching], timeout=0.5)
    return watching.result()


async def until(what: str, probe: Callable[[], Awaitable[bool]], seconds: float = 600) -> None:
    deadline = time.monotonic() + seconds
    while not await probe():
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {seconds:.0f} s for {what}")
        await asyncio.sleep(0.5)


def make_environment(folder: Path) -> dict[str, str]:
    """The environment of a measured Python: its bytecode is compiled, as in an image."""
    environment = dict(os.environ) | {"PYTHONPATH": str(ROOT / "src"), "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


class Process:
    """The manager, measured."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        self._daemon = Daemon("manager", folder)
        self._port = port
        self._folder = folder

    def start(self, kubeconfig: Path, *more: str, namespace: str = "default") -> float:
        """Start the manager with more options, if there are any; when that was. Its agents are in `namespace`."""
        served = [f"--metrics-bind-address=127.0.0.1:{self._port}", "--metrics-secure=false"]
        options = [f"--kubeconfig={kubeconfig}", "--health-probe-bind-address=0", f"--workers={WORKERS}"]
        began = time.monotonic()
        environment = make_environment(self._folder) | {"POD_NAMESPACE": namespace}
        self._daemon.start([sys.executable, "-c", MANAGER, "manager", *options, *served, *more], environment)
        return began

    def check(self) -> None:
        """Raise an error with the end of its log when it has ended by itself."""
        self._daemon.check()

    def stop(self) -> None:
        self._daemon.stop()

    def _proc(self, file: str) -> str:
        return Path(f"/proc/{self._daemon.pid()}/{file}").read_text()

    def peak_megabytes(self) -> float:
        line = next(line for line in self._proc("status").splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024

    def megabytes(self) -> float:
        line = next(line for line in self._proc("status").splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    def cpu_seconds(self) -> float:
        words = self._proc("stat").rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def count(self, metric: str, label: str = "") -> int:
        """The sum of a metric over its labels, or over those that have one."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        found = (line for line in lines if line.startswith((f"{metric}{{", f"{metric} ")) and label in line)
        return sum(int(float(line.split()[-1])) for line in found)

    async def settle(self) -> None:
        """Wait until it has had nothing to do for some seconds."""
        quiet = 0
        while quiet < 4:
            before = self.cpu_seconds(), self.count("controller_runtime_reconcile_total")
            await asyncio.sleep(1)
            after = self.cpu_seconds(), self.count("controller_runtime_reconcile_total")
            quiet = quiet + 1 if after[1] == before[1] and after[0] - before[0] < 0.05 else 0


def check_status(process: subprocess.Popen[bytes]) -> None:
    """Raise an error when a process has ended in any way but well."""
    if code := process.poll():
        raise RuntimeError(f"{process.args!r}: exit status {code}")


async def measure_cold_start(cluster: Cluster, session: aiohttp.ClientSession, manager: Process) -> None:
    words = [str(ROOT / "bench/plain.py"), cluster.plane.server, str(cluster.plane.pki), str(RESOURCES), str(WORKERS)]
    ratios, plain, operator = [], [], []
    writes = 0
    for turn in range(TURNS + 1):
        # The first turn compiles the bytecode and warms up the API server.
        watching = asyncio.ensure_future(wait_created(session, "plain"))
        began = time.monotonic()
        with subprocess.Popen([sys.executable, *words], env=make_environment(cluster.folder)) as plain_loop:
            loop_seconds = await wait_beside(watching, partial(check_status, plain_loop)) - began
            plain_loop.wait(60)
        check_status(plain_loop)
        await empty(session, "plain")
        watching = asyncio.ensure_future(wait_created(session, "default"))
        began = manager.start(cluster.admin_kubeconfig)
        manager_seconds = await wait_beside(watching, manager.check) - began
        await manager.settle()
        writes, peak = manager.count("rest_client_requests_total"), manager.peak_megabytes()
        manager.stop()
        if turn < TURNS:
            await delete_all(session, SCHEDEXTS)  # or the next manager would find its status written
            await empty(session, "default")
            await add_resources(session)
        if turn:
            plain.append(loop_seconds)
            operator.append(manager_seconds)
            ratios.append(manager_seconds / loop_seconds)
    show("plain loop, process start to last DaemonSet", f"{statistics.median(plain):.2f} s", plain)
    show("operator, process start to last DaemonSet", f"{statistics.median(operator):.2f} s", operator)
    show("ratio operator / plain loop", f"{statistics.median(ratios):.2f}", ratios)
    show("operator, peak memory, everything settled", f"{peak:.1f} MB")
    show("operator, requests a resource until settled", f"{writes / RESOURCES:.2f}")


async def add_resources(session: aiohttp.ClientSession) -> None:
    """The SchedExts, without any status."""
    made = (send(session, "POST", SCHEDEXTS, make_schedext(n), "application/json") for n in range(RESOURCES))
    await spread(made, WORKERS)


async def empty(session: aiohttp.ClientSession, namespace: str) -> None:
    """Delete a namespace's DaemonSets and wait until they and their events are past."""
    await delete_all(session, DAEMONSETS.format(namespace))
    await asyncio.sleep(3)


async def delete_all(session: aiohttp.ClientSession, path: str) -> None:
    """Delete all objects of a kind in a namespace and wait until they are gone."""
    await send(session, "DELETE", path, {}, "application/json")

    async def is_empty() -> bool:
        async with session.get(path, params={"limit": "1"}) as answer:
            found: Json = await answer.json()
        return not found["items"]

    await until(f"an end of {path}", is_empty)


def make_pod(number: int, uid: str) -> Json:
    """A pod as the DaemonSet controller makes it; the node's number says whose it is."""
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name(number % RESOURCES), "uid": uid}
    labels = {"managed-by": "sked-controller", "name": name(number % RESOURCES), "controller-revision-hash": "bench"}
    metadata: Json = {"name": f"{name(number % RESOURCES)}-{number:05}", "namespace": "default", "labels": labels}
    metadata["ownerReferences"] = [owner | {"controller": True, "blockOwnerDeletion": True}]
    field = {"key": "metadata.name", "operator": "In", "values": [f"kwok-{number:04}"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    container = {"name": "scx", "image": IMAGE, "securityContext": {"privileged": True}}
    spec = {"nodeName": f"kwok-{number:04}", "affinity": affinity, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def add_pods(session: aiohttp.ClientSession) -> None:
    """One pod on each node, running; five of each DaemonSet."""
    async with session.get(DAEMONSETS.format("default")) as answer:
        uids = {item["metadata"]["name"]: item["metadata"]["uid"] for item in (await answer.json())["items"]}
    path = "/api/v1/namespaces/default/pods"
    made = (make_pod(number, uids[name(number % RESOURCES)]) for number in range(NODES))
    await spread((send(session, "POST", path, pod, "application/json") for pod in made), WORKERS)

    async def all_run() -> bool:
        async with session.get(path, params={"fieldSelector": "status.phase!=Running", "limit": "1"}) as answer:
            found: Json = await answer.json()
        return not found["items"]

    await until("the pods to run", all_run, 1200)


async def measure_nodes(cluster: Cluster, session: aiohttp.ClientSession, manager: Process) -> None:
    manager.start(cluster.admin_kubeconfig)
    await asyncio.sleep(5)
    await manager.settle()
    show(f"{NODES} nodes and pods, {RESOURCES} resources: peak memory", f"{manager.peak_megabytes():.1f} MB")
    before = manager.cpu_seconds()
    await asyncio.sleep(IDLE_SECONDS)
    idle = manager.cpu_seconds() - before
    show(f"processor time idle for {IDLE_SECONDS:.0f} s", f"{idle:.2f} s")

    before, reconciled = manager.cpu_seconds(), manager.count("controller_runtime_reconcile_total")
    nodes = [f"/api/v1/nodes/kwok-{number:04}" for number in range(NODES)]

    def change(number: int) -> Awaitable[None]:
        path = nodes[number % NODES]
        if number % 2:
            return send(session, "PATCH", path, {"metadata": {"labels": {"bench/turn": str(number)}}})
        images = [{"names": [f"example.com/image:{number}"], "sizeBytes": 1}]
        return send(session, "PATCH", f"{path}/status", {"status": {"images": images}})

    await spread((change(number) for number in range(CHANGES)), WORKERS)
    await manager.settle()
    show(f"processor time for {CHANGES} changes of nodes", f"{manager.cpu_seconds() - before:.2f} s")
    caused = manager.count("controller_runtime_reconcile_total") - reconciled
    show(f"reconciliations caused by {CHANGES} changes of nodes", str(caused))
    show("peak memory after all that", f"{manager.peak_megabytes():.1f} MB")
    manager.stop()


async def measure_rollout(session: aiohttp.ClientSession, manager: Process, start: Callable[[], float]) -> None:
    """One resource on all nodes: rolled out, then changed. One write is the DaemonSet, the others are its status."""
    start()
    await asyncio.sleep(5)
    await manager.settle()
    body = {"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExt", "metadata": {"name": "everywhere"}}
    pace = {"rollingUpdate": {"maxUnavailable": "20%"}}
    path = f"{SCHEDEXTS}/everywhere"
    for image in (IMAGE, f"{IMAGE}-next"):
        before, began, cpu = count_patches(manager), time.monotonic(), manager.cpu_seconds()
        spec = {"sched": image, "updateStrategy": pace}
        await send(
            session, "PATCH", f"{path}?fieldManager=bench", body | {"spec": spec}, "application/apply-patch+yaml"
        )

        async def is_ready(image: str = image) -> bool:
            async with session.get(path) as answer:
                found: Json = await answer.json()
            status = found.get("status", {})
            return bool(status.get("image") == image and status.get("summary") == "Ready")

        await until(f"{NODES} nodes to run {image}", is_ready, 1800)
        await manager.settle()
        what = f"{NODES} nodes, {'first' if image == IMAGE else 'changed'}"
        show(f"{what}: seconds until Ready", f"{time.monotonic() - began:.0f}")
        show(f"{what}: writes", str(count_patches(manager) - before))
        show(f"{what}: processor time", f"{manager.cpu_seconds() - cpu:.1f} s")
    show("peak memory after both", f"{manager.peak_megabytes():.1f} MB")
    manager.stop()


def count_patches(manager: Process) -> int:
    """The writes of the manager: all that it writes here is applied."""
    return manager.count("rest_client_requests_total", 'method="PATCH"')


async def write_first(cluster: Cluster, session: aiohttp.ClientSession, manager: Process) -> None:
    """Have all DaemonSets made and status written."""
    watching = asyncio.ensure_future(wait_created(session, "default"))
    manager.start(cluster.admin_kubeconfig)
    await wait_beside(watching, manager.check)
    await manager.settle()
    manager.stop()


def show(what: str, value: str, every: Iterable[float] = ()) -> None:
    told = " ".join(f"{one:.2f}" for one in every)
    print(f"{what:<62} {value:>10}  {f'({told})' if told else ''}".rstrip(), flush=True)


async def measure(cluster: Cluster, kwok_artefact: Path, parts: set[str], size: int) -> None:
    manager = Process(cluster.folder, choose_free_ports(1)[0])
    async with open_session(cluster.plane.server, cluster.plane.pki) as session:
        if "rollout" in parts:
            controller = kwok.Kwok.start(cluster, kwok_artefact)
            kwok.add_nodes(cluster, NODES, timeout=1200)  # not in a thread, which no signal would end
            await measure_rollout(session, manager, partial(manager.start, cluster.admin_kubeconfig))
            controller.stop()
            return
        if "reports" in parts:
            from bench.reports import measure_reports  # which imports this module

            controller = kwok.Kwok.start(cluster, kwok_artefact)
            show("load of this host before, 1 minute", f"{os.getloadavg()[0]:.2f}")
            try:
                await measure_reports(cluster, session, manager)
            finally:
                manager.stop()
                controller.stop()
            return
        if "rollouts" in parts:
            from bench.rollouts import make_stages, measure_rollouts

            controller = kwok.Kwok.start(cluster, kwok_artefact, stages=make_stages(cluster, kwok_artefact))
            try:
                more, less = "daemonset" in parts, "back" in parts
                await measure_rollouts(cluster, session, manager, size, daemonset=more, only_back=less)
            finally:
                manager.stop()
                controller.stop()
            return
        await add_resources(session)
        show("load of this host before, 1 minute", f"{os.getloadavg()[0]:.2f}")
        if "cold start" in parts:
            await measure_cold_start(cluster, session, manager)
        else:
            await write_first(cluster, session, manager)
        if "nodes" in parts:
            # It asks every DaemonSet about every change of a node, and would take all of a host.
            cluster.stop_component(CONTROLLER_MANAGER)
            controller = kwok.Kwok.start(cluster, kwok_artefact)
            kwok.add_nodes(cluster, NODES, timeout=1200)
            await add_pods(session)
            await measure_nodes(cluster, session, manager)
            controller.stop()
        show("load of this host after, 1 minute", f"{os.getloadavg()[0]:.2f}")


def end_on_signals() -> None:
    """End at once when told to, in the way of Ctrl-C; a shell has what it runs in the background ignore that."""

    def end(*_: object) -> None:
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)  # what is running now is ended, and that takes its seconds
        raise KeyboardInterrupt

    for number in ENDING:
        signal.signal(number, end)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the operator.")
    parser.add_argument("--nodes", action="store_true", help="measure with nodes only")
    parser.add_argument("--cold-start", action="store_true", help="measure the cold start only")
    parser.add_argument("--rollout", action="store_true", help="measure the rollout of one resource on all nodes only")
    parser.add_argument("--reports", action="store_true", help="measure with reports of 1,000 and 5,000 nodes only")
    parser.add_argument("--rollouts", action="store_true", help="measure a rollout with reports and a way back only")
    parser.add_argument("--size", type=int, default=ROLLOUT_NODES, help="nodes of --rollouts (default: %(default)s)")
    parser.add_argument("--daemonset", action="store_true", help="--rollouts: measure a DaemonSet's own update too")
    parser.add_argument("--back", action="store_true", help="--rollouts: only what the way back takes")
    asked = parser.parse_args()
    chosen = {
        "cold start": asked.cold_start,
        "nodes": asked.nodes,
        "rollout": asked.rollout,
        "reports": asked.reports,
        "rollouts": asked.rollouts,
        "daemonset": asked.daemonset,
        "back": asked.back,
    }
    parts = {part for part in chosen if chosen[part]} or {"cold start", "nodes"}
    store = open_store()
    store.ensure(kube.KWOK)
    folder = run_folder(store, "bench")
    end_on_signals()
    try:
        cluster = Cluster.start(folder / "cluster", kube.binaries(store, kube.read_assets()))
        cluster.kubectl("apply", "-k", str(ROOT / "config/crd"))
        wait_for("the resource", lambda: cluster.kubectl("get", "schedexts", check=False).code == 0, 60)
        cluster.kubectl("create", "namespace", "plain")
        asyncio.run(measure(cluster, store.path(kube.KWOK), parts, asked.size))
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        Process(folder / "cluster").stop()
        remove_run(store, folder)


if __name__ == "__main__":
    main()
