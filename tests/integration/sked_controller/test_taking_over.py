"""Several plain resources of the Go operator's: what the cluster keeps apart keeps running, by the same pods."""

import json
from collections.abc import Iterator

import pytest

from lab.cluster import Cluster
from lab.waiting import wait_for
from tests.described import make_described
from tests.integration.clusters import read_api, read_objects
from tests.integration.sked_controller.operator import (
    Json,
    Operator,
    apply,
    condition,
    fetch,
    has,
    make_schedext,
    wait_object,
)

IMAGE = "example.com/scx_a:1"
SLOT = "sked.schedkit.io/slot"
POOLS = {"older": "large", "younger": "small"}  # where the cluster lets the pods of each be
POLICY: Json = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingAdmissionPolicy",
    "metadata": {"name": "keep-apart"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
            ]
        },
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [
            {
                "patchType": "JSONPatch",
                "jsonPatch": {
                    "expression": "[JSONPatch{op: 'add', path: '/spec/nodeSelector',"
                    " value: {'pool': object.metadata.labels['name'] == 'older' ? 'large' : 'small'}}]"
                },
            }
        ],
    },
}
BINDING: Json = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingAdmissionPolicyBinding",
    "metadata": {"name": "keep-apart"},
    "spec": {"policyName": "keep-apart"},
}


@pytest.fixture
def policy(nodes: Cluster) -> Iterator[None]:
    """An admission policy that gives each pod the node selector of its resource's pool."""
    apply(nodes, POLICY, BINDING)
    probe = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", "labels": {"name": "older"}}}
    probe["spec"] = {"containers": [{"name": "probe", "image": IMAGE}]}
    words = ("create", "--dry-run=server", "-o", "jsonpath={.spec.nodeSelector.pool}", "-f", "-")
    wait_for("the policy", lambda: nodes.kubectl(*words, input=json.dumps(probe)).stdout == "large", 30)
    yield
    for thing in (BINDING, POLICY):
        nodes.kubectl("delete", thing["kind"], "keep-apart")


def make_pair(cluster: Cluster, name: str, **pod: object) -> Json:
    """A resource, which is stored, and its DaemonSet as the Go operator makes it."""
    apply(cluster, make_schedext(name, sched=IMAGE))
    made = fetch(cluster, "schedext", name)
    assert made
    return make_described(made, **pod)


def fetch_running(cluster: Cluster) -> dict[str, tuple[str, str]]:
    """The pods that are on a node and stay there, by uid: whose, and where."""
    pods = read_objects(cluster, "pod", "default", "managed-by=sked-controller")
    return {
        pod["metadata"]["uid"]: (pod["metadata"]["labels"]["name"], pod["spec"]["nodeName"])
        for pod in pods
        if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
    }


def fetch_slots(cluster: Cluster) -> set[str]:
    return {node["metadata"]["labels"].get(SLOT, "") for node in read_api(cluster, "/api/v1/nodes")["items"]}


def prepare(cluster: Cluster, count: int, *daemonsets: Json) -> dict[str, tuple[str, str]]:
    """Create DaemonSets, and wait until so many of their pods run."""
    for daemonset in daemonsets:
        cluster.kubectl("create", "-f", "-", input=json.dumps(daemonset))
    return wait_for("pods", lambda: len(running := fetch_running(cluster)) == count and running, 60) or {}


APART = {("older", "large-0000"), ("older", "large-0001"), ("younger", "small-0000")}


def test_resources_whose_daemonsets_somebody_keeps_apart_stay_as_they_are(clean: Cluster, operator: Operator) -> None:
    operator.stop()
    made = [make_pair(clean, name, nodeSelector={"pool": pool}) for name, pool in POOLS.items()]
    before = prepare(clean, 3, *made)
    assert set(before.values()) == APART
    operator.start("--leader-elect")
    for name in POOLS:
        ready = wait_object(clean, "schedext", name, has("Ready", "True", "Ready"))
        assert condition(ready, "Conflicted") == ("False", "NoOverlap")
        assert condition(ready, "Degraded") == ("False", "NoFailures")
    assert fetch_running(clean) == before
    assert fetch_slots(clean) == {""}


def test_resources_whose_pods_a_policy_keeps_apart_stay_as_they_are(
    clean: Cluster, operator: Operator, policy: None
) -> None:
    operator.stop()
    before = prepare(clean, 3, *(make_pair(clean, name) for name in POOLS))
    assert set(before.values()) == APART
    operator.start("--leader-elect")
    for name in POOLS:
        told = wait_object(clean, "schedext", name, has("Degraded", "True", "Unschedulable"))
        assert condition(told, "Conflicted") == ("False", "NoOverlap")
    assert fetch_running(clean) == before
    assert fetch_slots(clean) == {""}


def test_of_two_that_nothing_keeps_apart_the_older_keeps_its_pods(clean: Cluster, operator: Operator) -> None:
    operator.stop()
    older = prepare(clean, 3, make_pair(clean, "older"))
    wait_for("a second to pass", lambda: is_later(clean), 30)  # ages are told in seconds
    assert len(prepare(clean, 6, make_pair(clean, "younger"))) == 6
    operator.start("--leader-elect")
    wait_object(clean, "schedext", "younger", has("Conflicted", "True", "Yields"))
    wait_for("the younger's pods to go", lambda: fetch_running(clean) == older, 60)
    assert fetch_slots(clean) == {"default.older"}


def is_later(cluster: Cluster) -> bool:
    """Whether a resource made now would be younger than `older`."""
    probe = json.dumps(make_schedext("probe", sched=IMAGE))
    path = "jsonpath={.metadata.creationTimestamp}"
    made = cluster.kubectl("create", "--dry-run=server", "-o", path, "-f", "-", input=probe).stdout
    older = fetch(cluster, "schedext", "older")
    return older is not None and made > older["metadata"]["creationTimestamp"]
