"""What the manager's account may change on a node, decided by the API server: two labels and three annotations."""

from collections.abc import Iterator
from typing import Any

import pytest

from lab.cluster import Cluster
from lab.waiting import wait_for
from tests.integration.clusters import read_api
from tests.integration.sked_deploy.tools import NAMESPACE, ROOT, make_token, patch_node, wait_for_node_policy

NODE = "judged"
SLOT, NEXT = "sked.schedkit.io/slot", "sked.schedkit.io/next"
OTHER = "other-account"
ALLOWED = "sked may change only its labels and annotations of a node"
SAID = {
    "and no other label": "sked may change only the labels sked.schedkit.io/slot and next of a node",
    "and no other annotation": "sked may change only the annotations sked.schedkit.io/slot, next and quarantine"
    " of a node",
}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"metadata": {"labels": {"new": "x"}}}, "and no other label"),
    ({"metadata": {"labels": {"pool": "other"}}}, "and no other label"),
    ({"metadata": {"labels": {"pool": None}}}, "and no other label"),
    ({"metadata": {"labels": {SLOT: "default.a", "pool": None}}}, "and no other label"),
    ({"metadata": {"annotations": {"new": "x"}}}, "and no other annotation"),
    ({"metadata": {"annotations": {"mine": None}}}, "and no other annotation"),
    ({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, "and nothing in spec"),
    ({"spec": {"unschedulable": True}}, "and nothing in spec"),
    ({"metadata": {"finalizers": ["example.com/mine"]}}, "and no finalizer or owner"),
    (
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": "1"}]}},
        "and no finalizer or owner",
    ),
]


@pytest.fixture(scope="module")
def token(deployed: Cluster) -> Iterator[str]:
    """The manager's token, in a cluster with a node and in which the policy has come into force."""
    metadata = {"name": NODE, "labels": {"pool": "a"}, "annotations": {"mine": "x"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
    with deployed.connect() as connection:
        assert connection.request("POST", "/api/v1/nodes", node).status == 201
    token = make_token(deployed)
    wait_for_node_policy(deployed, token, NODE)
    yield token
    deployed.kubectl("delete", "node", NODE)


def test_slot_is_given_changed_and_taken_away(deployed: Cluster, token: str) -> None:
    for value in ("default.a", "pending", None):
        said = {SLOT: value, NEXT: value}
        patch = {"metadata": {"labels": said, "annotations": said}}
        assert patch_node(deployed, token, NODE, patch) == (200, "")
        metadata = read_api(deployed, f"/api/v1/nodes/{NODE}")["metadata"]
        found = [metadata[part].get(name) for part in ("labels", "annotations") for name in (SLOT, NEXT)]
        assert found == [value] * 4
    assert (metadata["labels"]["pool"], metadata["annotations"]["mine"]) == ("a", "x")


@pytest.mark.parametrize(("patch", "words"), REFUSED)
def test_anything_else_is_refused_in_words_that_say_what_is_allowed(
    deployed: Cluster, token: str, patch: dict[str, Any], words: str
) -> None:
    before = read_node(deployed)
    code, said = patch_node(deployed, token, NODE, patch)
    assert code == 403
    assert said.endswith(f"denied request: {SAID.get(words, ALLOWED)}, {words}")
    assert read_node(deployed) == before


def read_node(cluster: Cluster) -> tuple[Any, ...]:
    """All that a manager could have changed; the node's controller takes taints of its own off meanwhile."""
    node = read_api(cluster, f"/api/v1/nodes/{NODE}")
    taints = [one for one in node["spec"].pop("taints", []) if not one["key"].startswith("node.kubernetes.io/")]
    return node["metadata"]["labels"], node["spec"], taints


def test_refusal_is_the_documented_one(deployed: Cluster, token: str) -> None:
    said = patch_node(deployed, token, NODE, {"spec": {"unschedulable": True}})[1]
    assert f"\n{said.replace(NODE, 'node-0001')}\n" in (ROOT / "docs/sked/install.md").read_text()


def test_other_users_are_not_concerned(deployed: Cluster, token: str) -> None:
    deployed.kubectl("create", "serviceaccount", OTHER, "-n", NAMESPACE)
    deployed.kubectl("create", "clusterrole", OTHER, "--verb=patch", "--resource=nodes")
    account = f"--serviceaccount={NAMESPACE}:{OTHER}"
    deployed.kubectl("create", "clusterrolebinding", OTHER, f"--clusterrole={OTHER}", account)
    other = make_token(deployed, OTHER)
    try:
        wait_for("its rights", lambda: patch_node(deployed, other, NODE, {})[0] == 200, 30)
        for patch in ({"metadata": {"labels": {"new": "x"}}}, {"metadata": {"labels": {"new": None}}}):
            assert patch_node(deployed, other, NODE, patch) == (200, "")
        for unschedulable in (True, False):
            assert patch_node(deployed, other, NODE, {"spec": {"unschedulable": unschedulable}}) == (200, "")
        deployed.kubectl("label", "node", NODE, "new=x")
        deployed.kubectl("label", "node", NODE, "new-")
    finally:
        for kind in ("clusterrolebinding", "clusterrole"):
            deployed.kubectl("delete", kind, OTHER)
        deployed.kubectl("delete", "serviceaccount", OTHER, "-n", NAMESPACE)
