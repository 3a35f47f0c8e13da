"""SchedExts, nodes, reports, DaemonSets and pods for these tests, from the JSON that the API server would send."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from schedkit.sked.api.node_types import SchedExtNode
from schedkit.sked.api.types import SchedExt
from schedkit.sked.plugin.objects import ClusterNode, RevisionSet, ScheduledPod

IMAGE = "example.com/scx_rusty:1"
MOMENT = datetime(2026, 1, 1, 1, tzinfo=UTC)
Json = dict[str, Any]
STEPS = [{"nodes": 1}, {"pause": {}}, {"nodes": "50%"}]


def condition(type_: str, status: str, reason: str = "Because", message: str = "so it is") -> Json:
    time = "2026-01-01T00:00:00Z"
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": time,
        "observedGeneration": 1,
    }


def make_rollout(phase: str, **more: Any) -> Json:
    nodes = {"updated": 2, "attached": 1, "failed": 0, "quarantined": 0, "skipped": 0}
    revisions = {"currentRevision": "web-aaaaaaaaaa", "updateRevision": "web-bbbbbbbbbb"}
    return {"phase": phase, "since": "2026-01-01T00:58:00Z", "nodes": nodes} | revisions | more


def failed_with(reason: str, revision: str = "web-bbbbbbbbbb") -> Json:
    return {"revision": revision, "node": "node-3", "reason": reason, "message": "runnable task stall"}


def make_schedext(
    *rollouts: Json,
    name: str = "web",
    annotations: Json | None = None,
    generation: int = 1,
    pools: tuple[str, ...] = ("",),
    conditions: tuple[Json, ...] = (),
    status: Json | None = None,
    **spec: Any,
) -> SchedExt:
    """With a rollout for each pool; without any, one that asks for none."""
    if rollouts:
        spec.setdefault("rollout", {"steps": STEPS})
    if pools != ("",):
        spec["pools"] = [{"name": pool, "nodeSelector": {"pool": pool}} for pool in pools]
    told = [
        {"name": pool, "image": IMAGE, "nodes": {"desired": 4, "updated": 4, "attached": 4}}
        | ({"rollout": rollouts[place]} if place < len(rollouts) else {"daemonSet": name})
        for place, pool in enumerate(pools)
    ]
    metadata = {"name": name, "namespace": "default", "uid": f"uid-of-{name}", "generation": generation}
    body = {
        "metadata": metadata | {"annotations": annotations or {}},
        "spec": {"sched": IMAGE} | spec,
        "status": {
            "observedGeneration": 1,
            "summary": "Progressing",
            "pools": told,
            "conditions": [condition("Ready", "False", "Progressing", "2 of 4 pods are ready"), *conditions],
        }
        | (status or {}),
    }
    return msgspec.convert(body, SchedExt)


def make_node(name: str = "node-1", *, slot: str | None = None, wrote: str | None = None, **more: Any) -> ClusterNode:
    label = "sked.schedkit.io/slot"
    metadata: Json = {"name": name, "labels": {"pool": "large"}, "annotations": {}}
    if slot is not None:
        metadata["labels"][label] = slot
    if wrote is not None:
        metadata["annotations"][label] = wrote
    if (quarantine := more.pop("quarantine", None)) is not None:
        metadata["annotations"]["sked.schedkit.io/quarantine"] = quarantine
    ready = {"type": "Ready", "status": "True" if more.pop("ready", True) else "False", "message": "kubelet is dead"}
    status = {"conditions": [ready], "nodeInfo": {"kernelVersion": "6.12.9"}}
    return msgspec.convert({"metadata": metadata, "status": status} | more, ClusterNode)


def make_report(name: str = "node-1", **status: Any) -> SchedExtNode:
    slot = {"state": "enabled", "ops": "rusty", "since": "2026-01-01T00:50:00Z", "enableSeq": 3}
    kernel = {"release": "6.12.9", "supported": "True"}
    told = {"kernel": kernel, "slot": slot, "schedExt": "default/web", "conditions": [condition("Fit", "True")]}
    return msgspec.convert({"metadata": {"name": name}, "status": told | status}, SchedExtNode)


def make_daemonset(
    name: str, created: str, *, owner: str = "uid-of-web", claim: str = "web", **more: Any
) -> RevisionSet:
    reference = {"apiVersion": "v1", "kind": "SchedExt", "name": "web", "uid": owner, "controller": True}
    metadata: Json = {
        "name": name,
        "namespace": "default",
        "creationTimestamp": created,
        "ownerReferences": [reference],
        "labels": {"sked.schedkit.io/claim": claim} if claim else {},
    }
    image = more.pop("image", f"example.com/scx_rusty:{name[-1]}")
    spec = {"template": {"spec": {"containers": [{"image": image, "args": ["--fast"]}]}}}
    return msgspec.convert(
        {"metadata": metadata, "spec": spec, "status": {"currentNumberScheduled": more.pop("nodes", 0)}}, RevisionSet
    )


def make_pod(name: str = "web-x", *, node: str = "node-1", ready: bool = True, **status: Any) -> ScheduledPod:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "web-bbbbbbbbbb", "uid": "u", "controller": True}
    metadata = {"name": name, "namespace": "default", "creationTimestamp": "2026-01-01T00:40:00Z"}
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return msgspec.convert(
        {
            "metadata": metadata | {"ownerReferences": [owner]},
            "spec": {"nodeName": node, "containers": [{"image": IMAGE}]},
            "status": {"phase": "Running", "conditions": conditions} | status,
        },
        ScheduledPod,
    )
