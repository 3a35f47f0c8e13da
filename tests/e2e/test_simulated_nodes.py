"""Simulated nodes by the thousand, beside a real control plane."""

import json

from lab import kube, kwok
from lab.cluster import Cluster
from lab.store import Store
from lab.waiting import NotYetError, wait_for


def test_thousand_nodes_run_a_daemon_set(cluster: Cluster, store: Store) -> None:
    store.ensure(kube.KWOK)
    cluster.kubectl("create", "-f", "-", input=json.dumps(make_bystander()))
    controller = kwok.Kwok.start(cluster, store.path(kube.KWOK))
    try:
        names = kwok.add_nodes(cluster, 1000, labels={"pool": "large"})
        cluster.kubectl("create", "-f", "-", input=json.dumps(make_daemon_set(pool="large")))

        def fetch_ready_pods() -> int:
            with cluster.connect() as connection:
                answer = connection.request("GET", "/apis/apps/v1/namespaces/default/daemonsets/everywhere")
            status = json.loads(answer.body)["status"]
            desired, ready = status["desiredNumberScheduled"], status["numberReady"]
            if desired != len(names) or ready != desired:
                raise NotYetError(f"{ready} of {desired} ready")
            return int(ready)

        assert wait_for("the daemon set on all nodes", fetch_ready_pods, timeout=120, interval=0.5) == 1000
        assert "bystander" not in kwok.fetch_ready_nodes(cluster)
        # Without these the controller manager gives up nodes that are older than its grace period, and their pods.
        wait_for("a lease of each node", lambda: fetch_leases(cluster) >= set(names), timeout=60, interval=1)
    finally:
        controller.stop()
    assert not controller.alive()


def fetch_leases(cluster: Cluster) -> set[str]:
    with cluster.connect() as connection:
        answer = connection.request("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases")
    return {lease["metadata"]["name"] for lease in json.loads(answer.body)["items"]}


def make_bystander() -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bystander"}}


def make_daemon_set(pool: str) -> dict[str, object]:
    labels = {"app": "everywhere"}
    pod = {"nodeSelector": {"pool": pool}, "containers": [{"name": "main", "image": "none"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "everywhere"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }
