"""What a rollout of sked costs beside a DaemonSet's own rolling update of the same nodes, and whether its pace is kept.

Run as `python -m bench.sked --rollouts`; README.md beside it says what is measured.
"""

import asyncio
import os
import shutil
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import yaml

from bench.kernels import FREE, IdleCounter, PlayedKernels
from bench.plain import APPLY, DAEMONSETS, Json, send, spread
from bench.plain_rollout import PlainRollout, fetch_revision
from bench.reports import create_report, make_agents, report
from bench.sked import SCHEDEXTS, WORKERS, Process, show, until
from lab import kwok
from lab.cluster import Cluster
from schedkit.sked.controller.objects import WAIT

PACE = "10%"
LIMIT = 3600
V1, V2, V3 = (f"example.com/scx_rusty:{number}" for number in (1, 2, 3))
PLAIN = DAEMONSETS.format("plain")
LABELS = {"managed-by": "sked-controller"}
DISABLED = {"state": "disabled", "enableSeq": 0}


def make_stages(cluster: Cluster, artefact: Path) -> Path:
    """KWOK's stages, in which a pod with an init container waits until its kernel, which is played, lets it go on.

    Nodes that were made together would write their status together every 10 minutes, 60 a second for some minutes, and
    who is measured then looks slow. Their leases, which KWOK renews too, keep them ready.
    """
    folder = cluster.folder / "stages"
    shutil.copytree(artefact / "stages", folder)
    (folder / "node-heartbeat-with-lease-node-heartbeat-with-lease.yaml").unlink()
    ready = folder / "pod-fast-pod-ready.yaml"
    stage = yaml.safe_load(ready.read_text())
    goes_on = (
        f'if (.spec.initContainers // []) == [] or .metadata.annotations["{FREE}"] == "true" then "yes" else "no" end'
    )
    expressions = stage["spec"]["selector"]["matchExpressions"]
    waiting = [*expressions, {"key": goes_on, "operator": "In", "values": ["no"]}]
    waiting.append({"key": ".status.initContainerStatuses", "operator": "DoesNotExist"})
    expressions.append({"key": goes_on, "operator": "In", "values": ["yes"]})
    ready.write_text(yaml.safe_dump(stage))
    status = {"initContainerStatuses": [{"name": WAIT, "started": False, "state": {"running": {}}}]}
    spec = stage["spec"] | {
        "selector": {"matchExpressions": waiting},
        "next": {"statusTemplate": yaml.safe_dump(status)},
    }
    waits = stage | {"metadata": {"name": "pod-waits"}, "spec": spec}
    (folder / "pod-waits.yaml").write_text(yaml.safe_dump(waits))
    return folder


@dataclass(frozen=True)
class Scene:
    """What is measured, and by whom."""

    session: aiohttp.ClientSession
    manager: Process
    size: int
    by_pods: IdleCounter
    by_reports: IdleCounter


async def measure_rollouts(
    cluster: Cluster,
    session: aiohttp.ClientSession,
    manager: Process,
    size: int,
    *,
    daemonset: bool,
    only_back: bool,
) -> None:
    """Roll out and back with the operator, then by a plain loop; and before, if asked for, with a DaemonSet alone.

    `only_back` leaves out what the way back can do without: the second revision, and the loop that moves all nodes.
    """
    await asyncio.to_thread(kwok.add_nodes, cluster, size, timeout=1800)
    await spread((create_report(session, number) for number in range(size)), WORKERS)
    await spread((report(session, number, DISABLED) for number in range(size)), WORKERS)
    await send(session, "POST", DAEMONSETS.format("default"), make_agents(), "application/json")
    await _wait_daemonset(session, f"{DAEMONSETS.format('default')}/sked-agent", size)
    show("load of this host before, 1 minute", f"{os.getloadavg()[0]:.2f}")
    scene = Scene(session, manager, size, IdleCounter(session, size), IdleCounter(session, size))
    if daemonset:
        await _roll_plain(scene, V1)
        alone = await _roll_plain(scene, V2)
        show(f"{size} nodes, a DaemonSet alone: seconds", f"{alone:.0f}")
    kernels = PlayedKernels(session)
    async with asyncio.TaskGroup() as group:
        played = (kernels.run(), scene.by_pods.watch_pods(), scene.by_reports.watch_reports())
        tasks = [group.create_task(one) for one in played]
        if daemonset:
            await _wait_idle(scene, 0)
            _tell(scene, "a DaemonSet, nodes report", await _roll_plain(scene, V3))
            await send(session, "DELETE", f"{PLAIN}/plain", {}, "application/json")
        await _wait_idle(scene, size)
        await _measure_operator(cluster, scene, kernels, only_back=only_back)
        for task in tasks:
            task.cancel()
    show("load of this host after, 1 minute", f"{os.getloadavg()[0]:.2f}")


async def _measure_operator(cluster: Cluster, scene: Scene, kernels: PlayedKernels, *, only_back: bool) -> None:
    manager = scene.manager
    manager.start(cluster.admin_kubeconfig)

    async def serves() -> bool:
        manager.check()
        try:
            return count_all_writes(manager) >= 0
        except OSError:
            return False

    await until("the manager to serve its metrics", serves)
    await manager.settle()
    await _measure(scene, "first revision", V1, "Complete")
    second = 0.0 if only_back else await _measure(scene, "second revision", V2, "Complete")
    kernels.refuse(V3, scene.size // 2)
    await _measure(scene, "third revision, until it fails", V3, "RollingBack")
    async with scene.session.get(f"{SCHEDEXTS}/everywhere") as answer:
        found: Json = await answer.json()
    count: int = found["status"]["pools"][0]["rollout"]["nodes"]["updated"]
    show(f"{scene.size} nodes, third revision: nodes that have it", str(count))
    back = await _measure(scene, "back from it", V3, "RolledBack")
    manager.stop()
    # The same by a loop: all nodes to the first revision; and as many as went back, from where the operator began.
    nodes = [f"kwok-{number:04}" for number in range(scene.size)]
    if not only_back:
        rollout = PlainRollout(scene.session, await fetch_revision(scene.session, V1), scene.size // 10)
        plain = await _time(scene, "all nodes by a plain loop", rollout, rollout.move(nodes, pulls=True))
        show("ratio second revision / a plain loop that makes the same pods", f"{second / plain:.2f}")
    plain_back = await _move_back(scene, kernels, nodes, count)
    show("ratio back / a plain loop back", f"{back / plain_back:.2f}")


async def _move_back(scene: Scene, kernels: PlayedKernels, nodes: list[str], count: int) -> float:
    """Move nodes back by a loop, from a third revision that the last ones of them did not attach.

    As in the operator's case, a pod of it waits on further nodes, and one that pulls is on others.
    """
    most = scene.size // 10
    third = PlainRollout(scene.session, await fetch_revision(scene.session, V3), most)
    first = PlainRollout(scene.session, await fetch_revision(scene.session, V1), most)
    attached, idle = nodes[: count - most], nodes[count - most : count]
    waiting, pulled = nodes[count:][: 2 * most], nodes[count:][2 * most : 4 * most]
    kernels.refuse(V3, len(attached))
    async with third.watching():
        await third.move(attached)
        await third.fail(idle, waiting, pulled)
        await _wait_idle(scene, most, without_pods=0)  # there are pods, which do not attach

    async def go_back() -> None:
        await asyncio.gather(third.clear_away(waiting, pulled), first.move(reversed(attached), idle=idle))

    return await _time(scene, f"{count} nodes back by a plain loop", first, go_back())


async def _time(scene: Scene, what: str, rollout: PlainRollout, moving: Awaitable[None]) -> float:
    """How long a loop takes that knows where it goes."""
    _restart(scene)
    async with rollout.watching():
        began = time.monotonic()
        await moving
        seconds = time.monotonic() - began
    _tell(scene, what, seconds)
    return seconds


async def _measure(scene: Scene, what: str, image: str, phase: str) -> float:
    """Ask for an image, if it is another one, and wait until its rollout is so far."""
    manager, path = scene.manager, f"{SCHEDEXTS}/everywhere"
    _restart(scene)
    before, cpu, began = count_all_writes(manager), manager.cpu_seconds(), time.monotonic()
    body = {"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExt", "metadata": {"name": "everywhere"}}
    # Long enough for a busy host that gives a share of the nodes, or at first all of them, their pods.
    timeout = max(60, scene.size // 20) if image == V3 else LIMIT
    rollout: Json = {"maxUnavailable": PACE, "minAttachedSeconds": 0, "attachTimeoutSeconds": timeout}
    spec = {"sched": image, "rollout": rollout | {"failure": {"maxNodes": 0}}}
    await send(scene.session, "PATCH", f"{path}?fieldManager=bench", body | {"spec": spec}, APPLY)
    told = ""

    async def probe() -> bool:
        nonlocal told
        manager.check()
        async with scene.session.get(path) as answer:
            found: Json = await answer.json()
        pools = found.get("status", {}).get("pools", [])
        known: Json = pools[0].get("rollout", {}) if pools else {}
        if known and told != known["phase"]:
            told = known["phase"]
            print(f"    {time.monotonic() - began:.1f} s  {told}: {known.get('message', '')[:120]}", flush=True)
        is_current = found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"]
        return bool(is_current and known.get("phase") == phase)

    await until(f"{scene.size} nodes: {what}", probe, LIMIT)
    seconds = time.monotonic() - began
    if phase != "RollingBack":  # else it has just begun to do something
        await manager.settle()
    _tell(scene, what, seconds)
    writes = count_all_writes(manager) - before
    show(f"{scene.size} nodes, {what}: writes a node", f"{writes / scene.size:.2f}")
    show(f"{scene.size} nodes, {what}: processor time", f"{manager.cpu_seconds() - cpu:.1f} s")
    show(f"{scene.size} nodes, {what}: peak memory", f"{manager.peak_megabytes():.1f} MB")
    return seconds


def count_all_writes(manager: Process) -> int:
    """All that the manager writes or deletes, Events too."""
    methods = ("PATCH", "POST", "DELETE")
    return sum(manager.count("rest_client_requests_total", f'method="{method}"') for method in methods)


def _restart(scene: Scene) -> None:
    scene.by_pods.restart()
    scene.by_reports.restart()


def _tell(scene: Scene, what: str, seconds: float) -> None:
    show(f"{scene.size} nodes, {what}: seconds", f"{seconds:.0f}")
    show(f"{scene.size} nodes, {what}: most without a running pod", str(scene.by_pods.most))
    show(f"{scene.size} nodes, {what}: most without a scheduler, by reports", str(scene.by_reports.most))


async def _wait_idle(scene: Scene, count: int, *, without_pods: int | None = None) -> None:
    expected = count if without_pods is None else without_pods, count

    async def is_so() -> bool:
        return (scene.by_pods.idle, scene.by_reports.idle) == expected

    await until(f"{count} nodes without a scheduler", is_so, LIMIT)
    _restart(scene)


async def _roll_plain(scene: Scene, image: str) -> float:
    """Have the DaemonSet controller give all nodes an image; how long that takes."""
    labels = LABELS | {"name": "plain"}
    pod = {"containers": [{"name": "scx", "image": image}], "tolerations": [{"operator": "Exists"}]}
    spec: Json = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    spec["updateStrategy"] = {"rollingUpdate": {"maxUnavailable": PACE}}
    body = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "plain"}, "spec": spec}
    began = time.monotonic()
    await send(scene.session, "PATCH", f"{PLAIN}/plain?fieldManager=bench", body, APPLY)
    await _wait_daemonset(scene.session, f"{PLAIN}/plain", scene.size)
    return time.monotonic() - began


async def _wait_daemonset(session: aiohttp.ClientSession, path: str, size: int) -> None:
    async def is_done() -> bool:
        async with session.get(path) as answer:
            found: Json = await answer.json()
        status = found["status"]
        if status.get("observedGeneration") != found["metadata"]["generation"]:
            return False
        return bool(status.get("updatedNumberScheduled", 0) == status.get("numberAvailable", 0) == size)

    await until(f"{path} on {size} nodes", is_done, LIMIT)
