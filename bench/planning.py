"""What deciding costs: one fallback and a thousand one-node rivals on five thousand nodes, without a cluster.

The wiring, the world and the plans are the operator's own; only nothing is sent. Times are processor time, so that what
else runs on the machine does not count. Run as `python -m bench.planning`.
"""

import gc
import resource
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from schedkit.sked.api.types import NodeCounts, SchedExt
from schedkit.sked.controller.daemonsets import make_daemonset
from schedkit.sked.controller.health import examine
from schedkit.sked.controller.informers import Informers, make_informers, make_world
from schedkit.sked.controller.judgements import Judgements
from schedkit.sked.controller.objects import DaemonSet, Node, Pod
from schedkit.sked.controller.plan import plan_resource, plan_slot
from schedkit.sked.controller.wiring import Wiring
from schedkit.sked.controller.world import World
from schedkit.sked.kube.client import Client
from schedkit.sked.kube.objects import Key

OPS = "rusty_1.1.4_x86_64_unknown_linux_gnu"
NODES, RIVALS, CHANGES = 5_000, 1_000, 300
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SLOT = "sked.schedkit.io/slot"


def _ignore(_gone: object) -> None:
    """Nothing is kept here that could be forgotten."""


class Bench:
    """A world, and the keys that were woken since the last look."""

    def __init__(self) -> None:
        self.version = 0
        self.woken: dict[Key, None] = {}
        self.nodes: dict[str, None] = {}
        self.informers: Informers = make_informers(cast(Client, None), "sked-system")
        self.world: World = make_world(self.informers)

        def wake(key: Key) -> None:
            self.woken[key] = None

        def wake_node(name: str) -> None:
            self.nodes[name] = None

        self.wiring = Wiring(
            self.world,
            wake=wake,
            wake_soon=wake,
            wake_node=wake_node,
            wake_report=_ignore,
            forget_node=_ignore,
            forget_pod=_ignore,
            forget_daemonset=_ignore,
            forget_resource=_ignore,
            ceiling=2**31 - 1,
            now=lambda: NOW,
        )
        self.wiring.connect(self.informers)

    def show(self, informer: Any, type: type[Any], body: dict[str, Any]) -> Any:
        """Have the operator see an object."""
        self.version += 1
        body["metadata"] |= {"resourceVersion": str(self.version)}
        item = msgspec.convert(body, type)
        informer.put(item)
        return item

    def sync(self) -> None:
        for informer in (*self.informers.needed, *self.informers.optional):
            for stream in informer._streams:
                stream.synced.set()
            informer.sync_changed()

    def plan(self) -> int:
        """Plan for all that was woken; how many that were."""
        resources, nodes = list(self.woken), list(self.nodes)
        self.woken.clear()
        self.nodes.clear()
        for key in resources:
            found = self.world.resources.get(*key)
            if found is not None:
                plan_resource(self.world, found, {}, {}, NOW)
        for name in nodes:
            node, present = self.world.nodes.get("", name), self.world.workloads.find_present(name, NOW)
            if node is not None:
                plan_slot(self.world, node, present, NOW)
        return len(resources) + len(nodes)


def make_node(number: int, **labels: str) -> dict[str, Any]:
    name = f"node-{number:05}"
    common = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    common |= {"node.kubernetes.io/instance-type": "large", "topology.kubernetes.io/zone": f"zone-{number % 3}"}
    slot = {SLOT: f"default.rival-{number:04}"} if number < RIVALS else {}
    metadata = {"name": name, "uid": f"uid-{number}", "labels": common | slot | labels, "annotations": slot}
    return {"metadata": metadata, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}


def make_resource(name: str, priority: int = 0, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1}
    return {"metadata": metadata, "spec": {"sched": "example.com/scx_rusty:1", "priority": priority} | spec}


def fill(bench: Bench) -> None:
    """The cluster as it is when everything has settled."""
    for number in range(NODES):
        bench.show(bench.informers.nodes, Node, make_node(number))
    names = ["fallback", *(f"rival-{number:04}" for number in range(RIVALS))]
    for number, name in enumerate(names):
        selector = {"nodeSelector": {"kubernetes.io/hostname": f"node-{number - 1:05}"}} if number else {}
        bench.show(bench.informers.resources, SchedExt, make_resource(name, int(number > 0), **selector))
        (claim,) = bench.world.placement.claims(Key("default", name))
        body = msgspec.to_builtins(make_daemonset(claim, bench.world.accepts(claim)))
        body["metadata"] |= {"uid": f"uid-ds-{name}", "generation": 1}
        bench.show(bench.informers.daemonsets, DaemonSet, body)
    for number in range(NODES):
        name = f"rival-{number:04}" if number < RIVALS else "fallback"
        owner = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "name": name,
            "uid": f"uid-ds-{name}",
            "controller": True,
        }
        labels = {"managed-by": "sked-controller", "controller-revision-hash": "bench"}
        metadata = {"name": f"{name}-{number}", "namespace": "default", "uid": f"uid-pod-{number}"}
        body = {"metadata": metadata | {"ownerReferences": [owner], "labels": labels}}
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        bench.show(bench.informers.pods, Pod, body | {"spec": {"nodeName": f"node-{number:05}"}, "status": status})


def measure(bench: Bench, told: str, change: Callable[[int], None]) -> None:
    times, planned = [], 0
    for number in range(CHANGES):
        began = time.process_time()
        change(number)
        planned += bench.plan()
        times.append((time.process_time() - began) * 1e3)
    worst = sorted(times)[int(len(times) * 0.99)]
    print(
        f"{told:60} median {statistics.median(times):6.2f} ms, 99th {worst:6.2f} ms, {planned / CHANGES:.2f} plans each"
    )


def main() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    bench = Bench()
    fill(bench)
    gc.collect()
    began = time.process_time()
    bench.sync()
    planned = bench.plan()
    cold = time.process_time() - began
    print(f"{'cold: decide of all nodes, plan all resources and nodes':60} {cold:.2f} s, {planned} plans")
    nodes, resources = bench.informers.nodes, bench.informers.resources
    measure(bench, "a heartbeat", lambda n: bench.show(nodes, Node, make_node(n)))
    measure(bench, "a label that no selector reads", lambda n: bench.show(nodes, Node, make_node(n, unread=str(n))))

    def flip(number: int) -> None:
        body = make_resource("rival-0007", 1 + number % 2, nodeSelector={"kubernetes.io/hostname": "node-00007"})
        bench.show(resources, SchedExt, body)

    measure(bench, "a rival's priority", flip)

    def taint(number: int) -> None:
        body = make_node(number)
        body["spec"] = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
        bench.show(nodes, Node, body)

    measure(bench, "a node's taint", taint)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{'peak memory':60} {peak:.1f} MB, {before:.1f} MB before the first object")
    measure_reports(bench)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{'peak memory with a report and an agent of each node':60} {peak:.1f} MB")


def make_report(number: int, seq: int) -> dict[str, Any]:
    """What an agent says of a kernel with a scheduler attached."""
    slot = {"state": "enabled", "ops": OPS, "enableSeq": seq, "since": f"2026-01-01T00:{number % 60:02}:01Z"}
    problem = {"check": "kernel.function_tracer", "severity": "unknown", "message": "/proc/config.gz is not there"}
    kernel = {"release": "6.12.9", "bootID": f"boot-{number:031}", "supported": "True", "problems": [problem]}
    return {
        "metadata": {"name": f"node-{number:05}", "uid": f"uid-report-{number}"},
        "status": {"kernel": kernel, "slot": slot},
    }


def see(bench: Bench, informer: Any, body: dict[str, Any]) -> None:
    """Have the operator see an object as it comes from the API server."""
    bench.version += 1
    body["metadata"] |= {"resourceVersion": str(bench.version)}
    informer.put(informer.decode(msgspec.Raw(msgspec.json.encode(body))))


def measure_reports(bench: Bench) -> None:
    """All nodes report: what it takes to judge all of them, and one of which something changed."""
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    for number in range(NODES):
        agent = {"name": f"sked-agent-{number}", "namespace": "sked-system", "uid": f"uid-agent-{number}"}
        body = {"metadata": agent, "spec": {"nodeName": f"node-{number:05}"}, "status": ready}
        see(bench, bench.informers.agents, body)
        see(bench, bench.informers.reports, make_report(number, 1))
    bench.woken.clear()
    judgements = Judgements(bench.world.sight)
    fallback = bench.world.resources.get("default", "fallback")
    assert fallback is not None  # noqa: S101

    def examine_all() -> NodeCounts:
        (claim,) = plan_resource(bench.world, fallback, {}, {}, NOW).claims
        return examine(bench.world, judgements, claim, NOW).nodes

    began = time.process_time()
    counts = examine_all()
    cold = (time.process_time() - began) * 1e3
    print(f"{f'judge {counts.desired} nodes of one resource, from cold':60} {cold:.0f} ms")
    times, woken = [], 0
    for number in range(CHANGES):
        began = time.process_time()
        see(bench, bench.informers.reports, make_report(RIVALS + number, 2))
        woken += len(bench.woken)
        bench.woken.clear()
        examine_all()
        times.append((time.process_time() - began) * 1e3)
    print(f"{'one report changes, and its resource is counted again':60} median {statistics.median(times):6.2f} ms")
    print(f"{'resources woken by a report':60} {woken / CHANGES:.2f}")


if __name__ == "__main__":
    main()
