"""Nodes by the thousand that are objects only: KWOK plays their kubelets and leaves real nodes alone."""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab.cluster import Cluster
from lab.errors import LabError
from lab.process import Daemon
from lab.waiting import NotYetError, wait_for

ANNOTATION = ("kwok.x-k8s.io/node", "fake")
READY_SECONDS = 120.0
CONNECTIONS = 8
CREATED, CONFLICT = 201, 409
# A fourth of it lies between two renewals. Without leases a node is given up when its status has not changed for the
# controller manager's grace period; KWOK makes it ready again at once, but never the pods that were marked with it.
LEASE_SECONDS = 240


class Kwok:
    """KWOK's controller beside a cluster, in the cluster's folder."""

    def __init__(self, cluster: Cluster) -> None:
        self._daemon = Daemon("kwok", cluster.folder)

    @classmethod
    def start(
        cls, cluster: Cluster, artefact: Path, *, lease_seconds: int = LEASE_SECONDS, stages: Path | None = None
    ) -> "Kwok":
        """Start the controller of the artefact lab.kube.KWOK; `stages`: a folder of what nodes and pods go through."""
        kwok = cls(cluster)
        found = sorted((stages or artefact / "stages").glob("*.yaml"))
        kwok._daemon.start(
            [
                artefact / "bin" / "kwok",
                f"--kubeconfig={cluster.admin_kubeconfig}",
                f"--manage-nodes-with-annotation-selector={'='.join(ANNOTATION)}",
                f"--node-lease-duration-seconds={lease_seconds}",
                "--node-port=0",  # nobody asks these nodes for logs; another value listens on all addresses
                *(f"--config={stage}" for stage in found),
            ]
        )
        return kwok

    def alive(self) -> bool:
        """Whether it runs."""
        return self._daemon.alive()

    def stop(self) -> None:
        """End it; its nodes stay, and are not ready some time later."""
        self._daemon.stop()


def add_nodes(
    cluster: Cluster,
    count: int,
    *,
    labels: Mapping[str, str] | None = None,
    prefix: str = "kwok",
    timeout: float = READY_SECONDS,
) -> tuple[str, ...]:
    """Create nodes PREFIX-0000 and so on, and return their names when all of them are ready."""
    names = tuple(f"{prefix}-{number:04d}" for number in range(count))

    def create(some: Sequence[str]) -> None:
        with cluster.connect() as connection:
            for name in some:
                answer = connection.request("POST", "/api/v1/nodes", _node(name, labels or {}))
                if answer.status not in (CREATED, CONFLICT):  # one that is there already is fine
                    raise LabError(f"creating node {name}: {answer.text}")

    with ThreadPoolExecutor(CONNECTIONS) as pool:  # kubectl would create them one after the other
        list(pool.map(create, (names[first::CONNECTIONS] for first in range(CONNECTIONS))))
    daemon = Daemon("kwok", cluster.folder)

    def all_ready() -> bool:
        daemon.check()
        ready = set(names) & fetch_ready_nodes(cluster)
        if len(ready) < count:
            raise NotYetError(f"{len(ready)} of {count} ready")
        return True

    wait_for(f"{count} nodes to be ready", all_ready, timeout, interval=1)
    return names


def fetch_ready_nodes(cluster: Cluster) -> set[str]:
    """The names of the cluster's ready nodes."""
    with cluster.connect() as connection:
        answer = connection.request("GET", "/api/v1/nodes?resourceVersion=0")
    if answer.status != 200:
        raise NotYetError(f"listing nodes: {answer.text}")
    return {node["metadata"]["name"] for node in json.loads(answer.body)["items"] if _is_ready(node)}


def _is_ready(node: Mapping[str, Mapping[str, list[Mapping[str, str]]]]) -> bool:
    conditions = node["status"].get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _node(name: str, labels: Mapping[str, str]) -> dict[str, object]:
    resources = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": dict([ANNOTATION]),
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                **labels,
            },
        },
        "status": {"allocatable": resources, "capacity": resources},
    }
