"""The operator as a process beside a real control plane, and the cluster seen through kubectl."""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.cluster import Cluster
from lab.process import Daemon
from lab.waiting import NotYetError, wait_for
from tests.integration.clusters import read_object, read_objects

SECONDS = 600.0  # generous: the cores may be busy with machines
ROOT = Path(__file__).parents[3]
PROGRAM = "from schedkit.sked.cli import main; main()"
LEASE = "b4c95cb3.schedkit.io"
Json = dict[str, Any]


class Operator:
    """`sked manager`, started and stopped at will."""

    def __init__(
        self, cluster: Cluster, name: str = "sked", kubeconfig: Path | None = None, namespace: str = ""
    ) -> None:
        self._cluster = cluster
        self._kubeconfig = kubeconfig or cluster.admin_kubeconfig
        self._environment = {"POD_NAMESPACE": namespace} if namespace else {}  # where its lease and its agents are
        self.daemon = Daemon(name, cluster.folder)
        self.arguments: tuple[str, ...] = ()  # with which it was started last

    def start(self, *arguments: str) -> None:
        self.arguments = arguments
        options = [f"--kubeconfig={self._kubeconfig}", "--health-probe-bind-address=127.0.0.1:0"]
        words = [sys.executable, "-c", PROGRAM, "manager", *options, *arguments]
        self.daemon.start(words, dict(os.environ) | {"PYTHONPATH": str(ROOT / "src")} | self._environment)

    def stop(self) -> None:
        self.daemon.stop()

    def kill(self) -> None:
        """End it at once, without a chance to finish or to release anything."""
        pid = self.daemon.pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_for("the operator's end", lambda: not self.daemon.alive(), SECONDS)

    def log(self) -> str:
        return self.daemon.log.read_text()


def empty(cluster: Cluster) -> None:
    """Delete all resources and DaemonSets, and wait until their pods are gone."""
    cluster.kubectl("delete", "schedexts", "--all", "-A", "--wait=true")
    cluster.kubectl("delete", "daemonsets", "--all", "-A", "--cascade=foreground", "--wait=true")


def make_schedext(name: str, namespace: str = "default", **spec: object) -> Json:
    return {
        "apiVersion": "sked.schedkit.io/v1",
        "kind": "SchedExt",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def steal_lease(cluster: Cluster) -> None:
    """Let somebody else lead for a while, long enough to be seen to be waited for."""
    stolen = {"holderIdentity": "thief", "leaseDurationSeconds": 5}
    cluster.kubectl("patch", "lease", LEASE, "--type=merge", "-p", json.dumps({"spec": stolen}))


def apply(cluster: Cluster, *objects: Json) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    cluster.kubectl("apply", "-f", "-", input=json.dumps(listed))


def fetch(cluster: Cluster, kind: str, name: str, namespace: str = "default") -> Json | None:
    return read_object(cluster, kind, name, namespace)


def wait_object(
    cluster: Cluster,
    kind: str,
    name: str,
    satisfies: Callable[[Json], bool],
    namespace: str = "default",
    *,
    seconds: float = SECONDS,
) -> Json:
    """The object, as soon as it is there and satisfies."""

    def probe() -> Json:
        found = fetch(cluster, kind, name, namespace)
        if found is None:
            raise NotYetError("absent")
        if not satisfies(found):
            raise NotYetError(json.dumps({"spec": found.get("spec"), "status": found.get("status")})[:3000])
        return found

    return wait_for(f"{kind} {namespace}/{name}", probe, seconds)


def fetch_pods(cluster: Cluster, name: str) -> dict[str, str]:
    """The uids of a DaemonSet's pods by their nodes."""
    found = read_objects(cluster, "pod", "default", f"name={name}")
    return {pod["spec"].get("nodeName", ""): pod["metadata"]["uid"] for pod in found}


def fetch_slots(cluster: Cluster) -> dict[str, str]:
    """What the nodes say of their slot."""
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in read_objects(cluster, "node")}
    return {name: found["sked.schedkit.io/slot"] for name, found in labels.items() if "sked.schedkit.io/slot" in found}


def wait_absent(cluster: Cluster, kind: str, name: str, namespace: str = "default") -> None:
    wait_for(f"{kind} {name} to go", lambda: fetch(cluster, kind, name, namespace) is None, SECONDS)


def condition(resource: Json, kind: str) -> tuple[str, str]:
    """A condition's status and reason."""
    for found in resource.get("status", {}).get("conditions", []):
        if found["type"] == kind:
            return found["status"], found["reason"]
    return "", ""


def has(kind: str, status: str, reason: str) -> Callable[[Json], bool]:
    """Whether the status speaks of the newest spec and has a condition."""

    def satisfies(resource: Json) -> bool:
        seen = resource.get("status", {}).get("observedGeneration") == resource["metadata"]["generation"]
        return seen and condition(resource, kind) == (status, reason)

    return satisfies


def fetch_warnings(cluster: Cluster, name: str) -> list[Json]:
    """The Events of type Warning about the resource that has a name now."""
    resource = fetch(cluster, "schedext", name)
    assert resource
    uid = resource["metadata"]["uid"]
    events = read_objects(cluster, "event", "default")
    return [event for event in events if event["regarding"].get("uid") == uid and event["type"] == "Warning"]
