"""schedctl on a node of a cluster, whose kubelet runs the scheduler."""

import json

from lab.cluster import Cluster
from lab.machine import Machine
from tests.e2e.conftest import wait_attached, wait_detached
from tests.e2e.schedctl import Schedctl
from tests.e2e.test_node import DAEMONSET


def test_scheduler_of_a_pod_is_told_as_such_and_comes_back(node: Machine, cluster: Cluster) -> None:
    schedctl = Schedctl.install(node)
    cluster.kubectl("apply", "-f", "-", input=json.dumps(DAEMONSET))
    wait_attached(node, "schedkit_fifo")
    cluster.kubectl("rollout", "status", "daemonset/scx", "--timeout=120s", timeout=130)
    pod = json.loads(cluster.kubectl("get", "pods", "-l", "app=scx", "-o", "json").stdout)["items"][0]

    status = schedctl.read("status", code=2)
    assert (status["status"], status["holder"]["pod"]) == ("orphaned-kernel-state", pod["metadata"]["uid"])
    assert "the cluster runs it" in status["explanation"]
    assert "the cluster runs it" in schedctl.run("run scx_fifo", code=10).stderr
    assert "the cluster will bring it back" in schedctl.run("detach --yes").stderr
    wait_attached(node, "schedkit_fifo")  # as it was said

    cluster.kubectl("delete", "daemonset", "scx", "--wait=false")
    wait_detached(node)
