"""What it costs the operator that every node reports: memory, and the writes of a wave of attachments.

Run as `python -m bench.sked --reports`; README.md beside it says what is measured.
"""

import asyncio
import time
from datetime import UTC, datetime

import aiohttp

from bench.plain import APPLY, DAEMONSETS, IMAGE, Json, send, spread
from bench.sked import SCHEDEXTS, WORKERS, Process, show, until
from lab import kwok
from lab.cluster import Cluster

SIZES = (1_000, 5_000)
REPORTS = "/apis/sked.schedkit.io/v1/schedextnodes"
PODS = "/api/v1/namespaces/default/pods"
AGENT = {"app.kubernetes.io/name": "sked", "app.kubernetes.io/component": "agent"}
OPS = "rusty_1.1.4_x86_64_unknown_linux_gnu"
FIT = {
    "type": "Fit",
    "status": "True",
    "reason": "KernelFit",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
UNSEEN = {"check": "kernel.function_tracer", "severity": "unknown", "message": "/proc/config.gz is not there"}


def make_agents() -> Json:
    """The agents' DaemonSet, in the namespace of a manager that does not run in the cluster."""
    pod = {"containers": [{"name": "agent", "image": "example.com/sked:1"}], "tolerations": [{"operator": "Exists"}]}
    template = {"metadata": {"labels": AGENT}, "spec": pod}
    spec = {"selector": {"matchLabels": AGENT}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "sked-agent"}, "spec": spec}


async def report(session: aiohttp.ClientSession, number: int, slot: Json, detach: Json | None = None) -> None:
    """One agent's write."""
    name, query = f"kwok-{number:04}", "fieldManager=sked-agent&force=true"
    kernel = {"release": "6.12.9", "bootID": "", "supported": "True", "problems": [UNSEEN]}
    status = {"kernel": kernel, "slot": slot, "attachments": slot["enableSeq"], "conditions": [FIT]}
    status |= {"lastDetach": detach} if detach else {}
    body = {"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExtNode", "metadata": {"name": name}}
    await send(session, "PATCH", f"{REPORTS}/{name}/status?{query}", body | {"status": status}, APPLY)


async def create_report(session: aiohttp.ClientSession, number: int) -> None:
    name = f"kwok-{number:04}"
    body = {"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExtNode", "metadata": {"name": name}}
    await send(session, "PATCH", f"{REPORTS}/{name}?fieldManager=sked-agent", body, APPLY)


def count_writes(manager: Process) -> int:
    """All that the manager writes, Events too."""
    return sum(manager.count("rest_client_requests_total", f'method="{method}"') for method in ("PATCH", "POST"))


async def measure_reports(cluster: Cluster, session: aiohttp.ClientSession, manager: Process) -> None:
    everywhere = {"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExt", "metadata": {"name": "everywhere"}}
    await send(session, "POST", SCHEDEXTS, everywhere | {"spec": {"sched": IMAGE}}, "application/json")
    await send(session, "POST", DAEMONSETS.format("default"), make_agents(), "application/json")
    known = 0
    for size in SIZES:
        await asyncio.to_thread(kwok.add_nodes, cluster, size, timeout=1800)
        await spread((create_report(session, number) for number in range(known, size)), WORKERS)
        known = size
        empty = {"state": "disabled", "enableSeq": 0}
        await spread((report(session, number, empty) for number in range(size)), WORKERS)
        manager.start(cluster.admin_kubeconfig)
        await _wait_pods(session, 2 * size)
        await manager.settle()
        show(f"{size} nodes, pods, reports, agents: peak memory", f"{manager.peak_megabytes():.1f} MB")
        await _measure_wave(session, manager, size)
        manager.stop()
        manager.start(cluster.admin_kubeconfig)
        await asyncio.sleep(10)
        await manager.settle()
        show(f"{size} nodes, started among all attached: peak memory", f"{manager.peak_megabytes():.1f} MB")
        show(f"{size} nodes, started among all attached: writes", str(count_writes(manager)))
        manager.stop()


async def _measure_wave(session: aiohttp.ClientSession, manager: Process, size: int) -> None:
    """All kernels attach, one after the other as fast as the API server takes it."""
    before, cpu, began = count_writes(manager), manager.cpu_seconds(), time.monotonic()
    reconciled = manager.count("controller_runtime_reconcile_total")
    slot = {"state": "enabled", "ops": OPS, "enableSeq": 1, "since": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
    await spread((report(session, number, slot) for number in range(size)), WORKERS)
    show(f"{size} nodes attach: seconds that the agents write", f"{time.monotonic() - began:.0f}")

    async def is_attached() -> bool:
        async with session.get(f"{SCHEDEXTS}/everywhere") as answer:
            found: Json = await answer.json()
        status = found.get("status", {})
        return bool(status["nodes"]["attached"] == size and status.get("summary") == "Ready")

    await until(f"{size} nodes to be told attached", is_attached)
    show(f"{size} nodes attach: seconds until the status says so", f"{time.monotonic() - began:.0f}")
    await manager.settle()
    operators = count_writes(manager) - before
    caused = manager.count("controller_runtime_reconcile_total") - reconciled
    show(f"{size} nodes attach: writes of the operator", str(operators))
    show(f"{size} nodes attach: writes a node, agents' included", f"{(size + operators) / size:.3f}")
    show(f"{size} nodes attach: reconciliations", str(caused))
    show(f"{size} nodes attach: processor time of the operator", f"{manager.cpu_seconds() - cpu:.1f} s")
    show(f"{size} nodes attach: peak memory after it", f"{manager.peak_megabytes():.1f} MB")


async def _wait_pods(session: aiohttp.ClientSession, count: int) -> None:
    """Wait until there are so many pods, and all run."""

    async def all_run() -> bool:
        async with session.get(PODS, params={"resourceVersion": "0"}) as answer:
            found: Json = await answer.json()
        return bool(sum(pod["status"].get("phase") == "Running" for pod in found["items"]) >= count)

    await until(f"{count} pods to run", all_run, 1800)
