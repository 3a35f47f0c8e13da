"""Control planes that tests share, and what is read from them without a program for each look."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lab.cluster import Cluster
from lab.kube import Binaries
from lab.session import remove_run, run_folder
from lab.store import Store
from lab.waiting import NotYetError, wait_for

PATHS = {
    "clusterrole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "configmap": "/api/v1/namespaces/{}/configmaps",
    "crd": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "daemonset": "/apis/apps/v1/namespaces/{}/daemonsets",
    "event": "/apis/events.k8s.io/v1/namespaces/{}/events",
    "lease": "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
    "namespace": "/api/v1/namespaces",
    "node": "/api/v1/nodes",
    "pod": "/api/v1/namespaces/{}/pods",
    "schedext": "/apis/sked.schedkit.io/v1/namespaces/{}/schedexts",
    "schedextnode": "/apis/sked.schedkit.io/v1/schedextnodes",
}


@contextmanager
def start_cluster(store: Store, binaries: Binaries) -> Iterator[Cluster]:
    """A control plane for a package of tests, each of which leaves it as it found it."""
    folder = run_folder(store, "test")
    try:
        yield Cluster.start(folder / "cluster", binaries)
    finally:
        remove_run(store, folder)


def read_api(cluster: Cluster, path: str) -> Any:
    """What the API server has at a path, or nothing; kubectl would take fifty times as long."""
    with cluster.connect() as connection:
        answer = connection.request("GET", path)
    if answer.status == 404:
        return None
    if answer.status != 200:
        raise NotYetError(f"{path}: {answer.status} {answer.text}")
    return json.loads(answer.body)


def read_object(cluster: Cluster, kind: str, name: str, namespace: str = "default") -> dict[str, Any] | None:
    found: dict[str, Any] | None = read_api(cluster, f"{PATHS[kind].format(namespace)}/{name}")
    return found


def read_objects(cluster: Cluster, kind: str, namespace: str = "", labels: str = "") -> list[dict[str, Any]]:
    """The objects of a namespace, or of all of them."""
    path = PATHS[kind].format(namespace) if namespace else PATHS[kind].replace("/namespaces/{}", "")
    found = read_api(cluster, f"{path}?labelSelector={labels.replace('=', '%3D')}")
    if found is None:
        raise NotYetError(f"{path} is not served")
    items: list[dict[str, Any]] = found["items"]
    return items


def wait_until_gone(cluster: Cluster, *definitions: str) -> None:
    """Until definitions that were deleted are gone, as soon as the server can delete them.

    If it cannot list the resources yet, it tries again with its old copy of the definition, and takes the conflict with
    what it wrote itself for somebody else's change. Then it looks again only after a change, or every 5 minutes.
    """

    def probe() -> bool:
        left = cluster.kubectl("get", "crd", *definitions, "--ignore-not-found", "-o", "name").stdout.split()
        for name in left:
            words = (name, f"example.com/reminded={time.monotonic()}", "--overwrite")
            cluster.kubectl("annotate", *words, check=False)
        return not left

    wait_for("the definitions to go", probe, 240, interval=2.0)
