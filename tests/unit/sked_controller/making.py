"""Resources, pods, nodes and DaemonSets for these tests, from the JSON that the API server would send."""

from typing import Any

import msgspec

from schedkit.sked.api.types import SchedExt
from schedkit.sked.controller.claims import Claim, make_claims
from schedkit.sked.controller.objects import DaemonSet, Node, Pod

IMAGE = "example.com/scx_rusty:1"
CREATED = "2026-01-01T00:00:00Z"


def make_resource(
    name: str = "one", namespace: str = "default", created: str = CREATED, generation: int = 1, **spec: Any
) -> SchedExt:
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-of-{name}",
        "generation": generation,
        "creationTimestamp": created,
    }
    return msgspec.convert({"metadata": metadata, "spec": {"sched": IMAGE} | spec}, SchedExt)


def make_claim(name: str = "one", **more: Any) -> Claim:
    """The claim of a resource without pools."""
    (claim,) = make_claims(make_resource(name, **more))
    return claim


def make_pod(name: str = "pod", node: str = "node-1", going: bool = False, **status: Any) -> Pod:
    metadata = {"name": name, "namespace": "default"} | ({"deletionTimestamp": CREATED} if going else {})
    return msgspec.convert({"metadata": metadata, "spec": {"nodeName": node}, "status": status}, Pod)


def make_node(name: str, **labels: str) -> Node:
    return msgspec.convert({"metadata": {"name": name, "labels": labels}}, Node)


def require(*expressions: tuple[str, str, list[str]]) -> dict[str, Any]:
    """A required node affinity of one term."""
    listed = [{"key": key, "operator": operator, "values": values} for key, operator, values in expressions]
    required = {"nodeSelectorTerms": [{"matchExpressions": listed}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def fill_defaults(body: dict[str, Any]) -> None:
    """Fill in what the API server does where a DaemonSet says nothing."""
    spec = body["spec"]
    spec["revisionHistoryLimit"] = 10
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        pace = {"maxUnavailable": 1, "maxSurge": 0} | strategy.get("rollingUpdate", {})
        strategy["rollingUpdate"] = pace
    spec["template"]["metadata"]["creationTimestamp"] = None
    pod = spec["template"]["spec"]
    pod |= {"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler"}
    pod |= {"terminationGracePeriodSeconds": 30, "securityContext": {}}
    (container,) = pod["containers"]
    latest = container["image"].endswith(":latest") or ":" not in container["image"].rpartition("/")[2]
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    container.setdefault("resources", {})
    for volume in pod.get("volumes", ()):
        if "configMap" in volume:
            volume["configMap"].setdefault("defaultMode", 420)
    container |= {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}


def as_returned(daemonset: DaemonSet, **status: int) -> DaemonSet:
    """A DaemonSet as the API server gives it back: with its defaults filled in, and what nobody here looks at."""
    body = msgspec.to_builtins(daemonset)
    body["metadata"] |= {"uid": "uid-of-daemonset", "resourceVersion": "7", "generation": 1, "managedFields": []}
    body["metadata"]["annotations"] = {"deprecated.daemonset.template.generation": "1"}
    fill_defaults(body)
    body["status"] = status
    return msgspec.convert(body, DaemonSet)
