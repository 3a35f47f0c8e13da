"""Agents of nodes that have none, on a real API server: their pods, and reports as they write them."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from lab.cluster import Cluster
from lab.waiting import NotYetError, wait_for
from tests.integration.clusters import read_objects
from tests.integration.sked_controller.operator import SECONDS, Json, apply

AGENTS = "default"  # the namespace of a manager that does not run in the cluster
LABELS = {"app.kubernetes.io/name": "sked", "app.kubernetes.io/component": "agent"}
MANAGER = "sked-agent"
NO_BTF = {"check": "kernel.btf", "severity": "error", "message": "/sys/kernel/btf/vmlinux is not there"}


def tell_time() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def add_agents(cluster: Cluster, nodes: Iterable[str], *, private: bool = False) -> None:
    """One pod for each node, ready as soon as KWOK has seen it; `private`: their image takes credentials."""
    pods = [_make_agent(node, private) for node in nodes]
    apply(cluster, *pods)

    def all_ready() -> bool:
        found = read_objects(cluster, "pod", AGENTS, "app.kubernetes.io/component=agent")
        ready = {pod["spec"]["nodeName"] for pod in found if is_ready(pod)}
        if not ready >= {pod["spec"]["nodeName"] for pod in pods}:
            raise NotYetError(f"ready: {sorted(ready)}")
        return True

    wait_for("the agents to be ready", all_ready, SECONDS)


def is_ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def remove_agents(cluster: Cluster, *nodes: str) -> None:
    cluster.kubectl("delete", "pod", "-n", AGENTS, "--now", *(f"agent-{node}" for node in nodes))


def make_report_status(
    state: str = "disabled", ops: str = "", since: str = "", *, seq: int = 0, unfit: bool = False
) -> Json:
    """What an agent says of its kernel."""
    slot: Json = (
        {"state": state, "enableSeq": seq} | ({"ops": ops} if ops else {}) | ({"since": since} if since else {})
    )
    kernel: Json = {"release": "6.12.9", "supported": "False" if unfit else "True"}
    kernel |= {"problems": [NO_BTF]} if unfit else {}
    return {"kernel": kernel, "slot": slot, "conditions": [_make_fit(unfit)]}


def report(cluster: Cluster, nodes: Sequence[str], **seen: Any) -> None:
    """Write reports as agents do: server-side apply under the agents' name, the status apart."""
    status = make_report_status(**seen)
    bare = [_make_object(node) for node in nodes]
    _apply(cluster, bare)
    _apply(cluster, [document | {"status": status} for document in bare], "--subresource=status")


def _apply(cluster: Cluster, documents: Sequence[Json], *options: str) -> None:
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(documents)})
    words = ("--server-side", "--force-conflicts", f"--field-manager={MANAGER}", *options)
    cluster.kubectl("apply", *words, "-f", "-", input=listed)


def _make_object(node: str) -> Json:
    return {"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExtNode", "metadata": {"name": node}}


def _make_fit(unfit: bool) -> Json:
    word, reason = ("False", "KernelUnfit") if unfit else ("True", "KernelFit")
    return {"type": "Fit", "status": word, "reason": reason, "message": "", "lastTransitionTime": tell_time()}


def _make_agent(node: str, private: bool) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"agent-{node}", "namespace": AGENTS, "labels": LABELS},
        "spec": {
            "nodeName": node,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "agent", "image": "example.com/sked:1"}],
            "imagePullSecrets": [{"name": "registry"}] if private else [],
        },
    }
