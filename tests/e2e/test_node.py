"""A machine as a node of a real cluster: what the cluster is told ends in the node's kernel."""

import json

from lab.cluster import Cluster
from lab.machine import Machine
from lab.node import join
from lab.session import NODE
from lab.waiting import wait_for
from tests.e2e.conftest import wait_attached, wait_detached
from tests.e2e.schedctl import Schedctl

DAEMONSET = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "scx", "namespace": "default"},
    "spec": {
        "selector": {"matchLabels": {"app": "scx"}},
        "template": {
            "metadata": {"labels": {"app": "scx"}},
            "spec": {
                "containers": [
                    {"name": "scx", "image": "localhost:5000/scx_fifo:v1", "securityContext": {"privileged": True}}
                ]
            },
        },
    },
}


def test_daemonset_attaches_swaps_and_detaches_on_a_ready_node(node: Machine, cluster: Cluster) -> None:
    cluster.kubectl("apply", "-f", "-", input=json.dumps(DAEMONSET))
    wait_attached(node, "schedkit_fifo")
    cluster.kubectl("rollout", "status", "daemonset/scx", "--timeout=600s", timeout=610)
    # Logs come through the API server, which dials the node's kubelet.
    assert "attached schedkit_fifo" in cluster.kubectl("logs", "daemonset/scx").stdout

    cluster.kubectl("set", "image", "daemonset/scx", "scx=localhost:5000/scx_fifo:v2")
    wait_attached(node, "schedkit_fifo2")

    cluster.kubectl("delete", "daemonset", "scx", "--wait=false")
    wait_detached(node)


def test_scheduler_of_a_pod_is_told_as_such_and_comes_back(node: Machine, cluster: Cluster) -> None:
    schedctl = Schedctl.install(node)
    cluster.kubectl("apply", "-f", "-", input=json.dumps(DAEMONSET))
    wait_attached(node, "schedkit_fifo")
    cluster.kubectl("rollout", "status", "daemonset/scx", "--timeout=600s", timeout=610)
    pod = json.loads(cluster.kubectl("get", "pods", "-l", "app=scx", "-o", "json").stdout)["items"][0]

    status = schedctl.read("status", code=2)
    assert (status["status"], status["holder"]["pod"]) == ("orphaned-kernel-state", pod["metadata"]["uid"])
    assert "the cluster runs it" in status["explanation"]
    assert "the cluster runs it" in schedctl.run("run scx_fifo", code=10).stderr
    assert "the cluster will bring it back" in schedctl.run("detach --yes").stderr
    wait_attached(node, "schedkit_fifo")  # as it was said

    cluster.kubectl("delete", "daemonset", "scx", "--wait=false")
    wait_detached(node)


def test_node_joins_again_after_etcd_is_wiped(node: Machine, cluster: Cluster) -> None:
    cluster.wipe_etcd()
    assert cluster.kubectl("get", "nodes", "-o", "name").stdout == ""
    join(node, cluster, NODE)
    wait_for("the node", lambda: cluster.kubectl("get", "node", NODE, check=False).code == 0, 10)
