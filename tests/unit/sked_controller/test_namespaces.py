"""Operators that each carry out some namespaces' resources: the node's label is what they agree by."""

import pytest

from tests.unit.sked_controller.cluster import Cluster
from tests.unit.sked_controller.world import Json, refusal

SLOT = "sked.schedkit.io/slot"
ORDERS = [("mine", "theirs"), ("theirs", "mine")]  # the older one first


def make_cluster(*order: str) -> Cluster:
    """One node, and the operator of `default`; `mine` is there, `theirs` is in another operator's namespace."""
    cluster = Cluster(namespaces=("default",))
    cluster.add_node("n1")
    for name in order:
        cluster.put("schedexts", make_resource(name, "default" if name == "mine" else "other"))
        cluster.now = cluster.now.replace(second=cluster.now.second + 1)  # the first is the older one, and goes first
    return cluster


def make_resource(name: str, namespace: str) -> Json:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"sched": "example.com/scx_rusty:1"}}


def write_slot(cluster: Cluster, value: str) -> None:
    """What another operator does to a node."""
    node = cluster.get("nodes", "n1")
    labels = node["metadata"]["labels"] | {SLOT: value}
    cluster.change("nodes", "n1", metadata=node["metadata"] | {"labels": labels, "annotations": {SLOT: value}})


@pytest.mark.parametrize("order", ORDERS)
def test_node_is_taken_by_its_label_before_a_daemonset_is_made(order: tuple[str, ...]) -> None:
    """Two operators that make theirs at the same time would have two schedulers there; of two labels one is refused."""
    cluster = make_cluster(*order)
    writes = [write for write in cluster.run() if "status" not in write]
    assert writes == ["label n1 default.mine", "apply daemonsets mine"]
    cluster.work()
    assert (cluster.slots(), cluster.on("n1")) == ({"n1": "default.mine"}, ["mine"])
    assert cluster.condition("mine", "Ready") == ("True", "Ready")


def test_label_of_a_stronger_one_is_left_where_its_daemonset_is_still_to_come() -> None:
    cluster = make_cluster("theirs", "mine")
    write_slot(cluster, "other.theirs")
    assert not [write for write in cluster.work() if write.startswith("label")]
    assert cluster.on("n1") == []
    assert cluster.message("mine", "Conflicted") == "yields 1 node to other/theirs"


def test_label_of_a_weaker_one_is_taken_over() -> None:
    cluster = make_cluster("mine", "theirs")
    write_slot(cluster, "other.theirs")
    cluster.work()
    assert (cluster.slots(), cluster.on("n1")) == ({"n1": "default.mine"}, ["mine"])


@pytest.mark.parametrize("order", ORDERS)
def test_one_that_nobody_carries_out_keeps_nobody_from_a_node_that_cannot_be_labelled(order: tuple[str, ...]) -> None:
    cluster = make_cluster(*order)
    cluster.refusals["label"] = refusal(403, "Forbidden")
    cluster.work()
    assert cluster.on("n1") == ["mine"]
    assert cluster.condition("mine", "Ready") == ("True", "Ready")
    assert cluster.condition("mine", "Conflicted") == ("False", "NoOverlap")


def test_label_goes_with_the_last_one_that_nobody_carries_out() -> None:
    cluster = make_cluster("theirs", "mine")
    cluster.work()
    before = cluster.uids("mine")
    key = next(key for key in cluster.objects["schedexts"] if key.name == "theirs")
    del cluster.objects["schedexts"][key]
    cluster.informers["schedexts"].remove(key)
    cluster.work()
    assert (cluster.slots(), cluster.uids("mine")) == ({}, before)
