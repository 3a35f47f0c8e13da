"""A machine as a node of a cluster."""

import json

from lab.addresses import claim_address
from lab.cluster import Cluster
from lab.machine import Machine
from lab.waiting import NotYetError, wait_for

KUBELET_PORT = 10250
READY_SECONDS = 400.0  # generous: emulation on a busy host


def join(machine: Machine, cluster: Cluster, name: str) -> None:
    """Make the machine a node of the cluster (also when it was one of another) and wait until it is Ready."""
    address = claim_address(machine.folder)
    with machine.monitor() as monitor:
        monitor.forward(address, KUBELET_PORT, KUBELET_PORT)
    machine.guest.write("/etc/kubernetes/kubeconfig", cluster.node_kubeconfig(name).encode(), mode=0o600)
    machine.guest.write("/etc/kubernetes/ca.crt", cluster.ca_certificate.encode())
    machine.run(f"lab-join {name} {address} {cluster.api_port}")
    wait_for(f"node {name} to be Ready", lambda: _is_ready(cluster, name), READY_SECONDS, interval=0.3)


def is_ready_node(cluster: Cluster, name: str) -> bool:
    """Whether a node of that name is Ready and takes pods."""
    try:
        return _is_ready(cluster, name)
    except NotYetError:
        return False


def _is_ready(cluster: Cluster, name: str) -> bool:
    with cluster.connect() as connection:
        answer = connection.request("GET", f"/api/v1/nodes/{name}")
    if answer.status != 200:
        raise NotYetError(f"{answer.status}: the node has not registered")
    node = json.loads(answer.text)
    condition = next((found for found in node["status"].get("conditions", []) if found["type"] == "Ready"), None)
    if not condition or condition["status"] != "True":
        raise NotYetError(condition["message"] if condition else "the node has no conditions yet")
    # A new node keeps a taint for a moment longer, and DaemonSets count it in only after that.
    taints = [taint["key"] for taint in node["spec"].get("taints", [])]
    if taints:
        raise NotYetError(f"Ready, with taints {taints}")
    return True
