"""Slots under hard circumstances: tenants who forge objects, dead nodes, chains of rivals, people's odd labels."""

import asyncio
from typing import Any, cast

import pytest

from schedkit.sked.controller import revisions
from schedkit.sked.controller.daemonsets import make_daemonset
from schedkit.sked.kube.client import Client
from schedkit.sked.kube.objects import Key
from tests.unit.sked_controller.cluster import Cluster
from tests.unit.sked_controller.making import as_returned, make_claim
from tests.unit.sked_controller.test_slots import NODES, make_cluster, refuse_pods
from tests.unit.sked_controller.world import foreign, refusal

HOST = "kubernetes.io/hostname"


def with_special(**spec: Any) -> Cluster:
    """A cluster where n1 is taken from the one that runs everywhere."""
    cluster = make_cluster()
    cluster.free_namespace()
    cluster.apply_resource("everywhere", **spec)
    cluster.apply_resource("special", nodeSelector={HOST: "n1"}, priority=10)
    cluster.work()
    assert cluster.on("n1") == ["special"]
    return cluster


# --- who may take a slot --------------------------------------------------------------------------------------------


def test_claim_whose_first_node_belongs_to_a_stronger_one_takes_the_others() -> None:
    cluster = with_special()
    cluster.apply_resource("middle", priority=5)
    cluster.work()
    assert cluster.on("n1") == ["special"]
    assert all(cluster.on(node) == ["middle"] for node in NODES[1:])


@pytest.mark.parametrize("change", ["reserved", "dead", "deleted", "relabelled"])
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_claim_whose_first_node_is_none_for_it_takes_the_others(change: str, when: str) -> None:
    cluster = make_cluster()
    for node in NODES:
        cluster.label(node, pool="x")
    cluster.free_namespace()
    cluster.apply_resource("everywhere")
    cluster.work()

    def lose_first_node() -> None:
        if change == "reserved":
            cluster.label("n1", slot="none")
        elif change == "relabelled":
            cluster.label("n1", pool="y")
        elif change == "dead":
            cluster.stuck.add("n1")
            cluster.change("nodes", "n1", status={"conditions": [{"type": "Ready", "status": "Unknown"}]})
        else:
            cluster.remove("pods", "everywhere-n1")
            cluster.remove("nodes", "n1")

    if when == "before":
        lose_first_node()
        cluster.work()
        cluster.apply_resource("mighty", priority=9, nodeSelector={"pool": "x"})
    else:
        cluster.apply_resource("mighty", priority=9, nodeSelector={"pool": "x"})
        cluster.run()
        lose_first_node()
    cluster.work()
    assert all(cluster.on(node) == ["mighty"] for node in NODES[1:])


# --- Events that anybody may write ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("namespace", "time"),
    [
        ("tenant", "2026-01-01T00:01:00Z"),
        ("default", "9999-12-31T23:59:59Z"),
        ("default", "2027-01-01T00:00:00Z"),
        ("default", "soon"),
    ],
)
def test_forged_event_is_no_refusal(namespace: str, time: str) -> None:
    cluster = make_cluster()
    cluster.refused_daemonsets.add("one")  # as while its pods are not made yet
    cluster.apply_resource("one")
    cluster.run()
    uid = cluster.get("daemonsets", "one")["metadata"]["uid"]
    about = {"kind": "DaemonSet", "namespace": namespace, "name": "one", "uid": uid}
    metadata = {"name": "forged", "namespace": namespace}
    cluster.put("events", {"metadata": metadata, "involvedObject": about, "message": "no", "lastTimestamp": time})
    cluster.look("one")
    cluster.work()
    assert cluster.condition("one", "Degraded") == ("False", "NoFailures")
    refuse_pods(cluster, "one")
    cluster.work()
    assert cluster.condition("one", "Degraded") == ("True", "FailedCreate"), "a true one is still heard"


# --- pods that anybody may write ------------------------------------------------------------------------------------


@pytest.mark.parametrize("api_version", ["apps/v1", "tenant.example/v1"])
def test_pod_with_a_made_up_owner_blocks_nothing(api_version: str) -> None:
    """The garbage collector leaves it alone where it does not know the owner's kind, or grants it years to end."""
    cluster = make_cluster()
    owner = {"apiVersion": api_version, "kind": "DaemonSet", "name": "gone", "uid": "none", "controller": True}
    metadata = {"name": "mine", "labels": {"managed-by": "sked-controller"}, "ownerReferences": [owner]}
    containers = [{"name": "a", "image": "example.com/a:1"}]
    cluster.put("pods", {"metadata": metadata, "spec": {"nodeName": "n1", "containers": containers}})
    cluster.apply_resource("one")
    cluster.run()
    assert cluster.names("daemonsets") == ["one"]
    assert cluster.slots() == {}


# --- dead nodes -----------------------------------------------------------------------------------------------------


def kill_node(cluster: Cluster, node: str) -> None:
    """A kubelet that is not heard of any more, and what the node controller says of its pods."""
    cluster.stuck.add(node)
    cluster.change("nodes", node, status={"conditions": [{"type": "Ready", "status": "Unknown"}]})
    (pod,) = (name for name in cluster.names("pods") if name.endswith(f"-{node}"))
    cluster.change("pods", pod, status={"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]})


def test_rollout_goes_on_past_dead_nodes() -> None:
    cluster = with_special()
    kill_node(cluster, "n2")
    kill_node(cluster, "n3")
    cluster.work()
    before = cluster.uids("everywhere")
    cluster.apply_resource("everywhere", sched="example.com/scx_rusty:2")
    cluster.work()
    after = cluster.uids("everywhere")
    assert all(after[node] != before[node] for node in ("n4", "n5"))


def test_rollout_stops_where_new_pods_do_not_become_ready() -> None:
    cluster = with_special()
    before = cluster.uids("everywhere")
    cluster.broken = {"everywhere"}
    cluster.apply_resource("everywhere", sched="example.com/scx_rusty:2")
    cluster.work()
    after = cluster.uids("everywhere")
    assert len([node for node in before if after[node] != before[node]]) == 1


# --- people ---------------------------------------------------------------------------------------------------------


def test_empty_label_reserves_a_node_as_none_does() -> None:
    cluster = with_special()
    cluster.label("n2", slot="")
    cluster.work()
    assert cluster.on("n2") == []
    assert cluster.condition("everywhere", "Ready") == ("True", "Ready")
    assert cluster.get("schedexts", "everywhere")["status"]["nodes"]["reserved"] == 1
    cluster.label("n2", slot=None)
    cluster.work()
    assert cluster.on("n2") == ["everywhere"]


def test_node_reserved_by_a_name_follows_the_name_to_who_has_it_next() -> None:
    cluster = make_cluster()
    cluster.apply_resource("web", nodeSelector={HOST: "n1"})
    spec = {"sched": "example.com/scx_rusty:1", "nodeSelector": {HOST: "n2"}}
    cluster.put("schedexts", {"metadata": {"name": "web", "namespace": "other"}, "spec": spec})
    cluster.label("n2", slot="web")
    assert cluster.known.decision("n2").winner is None, "the older one is meant, and does not want it"
    cluster.remove("schedexts", "web")
    winner = cluster.known.decision("n2").winner
    assert winner
    assert str(winner.owner) == "other/web"


# --- an API server that does not answer -----------------------------------------------------------------------------


def test_revision_that_could_not_be_read_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revisions, "RETRY_SECONDS", 0.05)
    woken: list[Key] = []
    answers: list[Any] = [refusal(503, "ServiceUnavailable")]

    class Reader:
        async def fetch(self, *_: Any, **__: Any) -> Any:
            raise answers[0]

    async def ask() -> None:
        cache = revisions.RevisionCache(cast(Client, Reader()), woken.append)
        working = asyncio.ensure_future(cache.run())
        cache.ask(as_returned(make_daemonset(make_claim())), "abc")
        async with asyncio.timeout(5):
            while not woken:
                await asyncio.sleep(0.01)
        working.cancel()

    asyncio.run(ask())
    assert woken == [Key("default", "one")]


@pytest.mark.parametrize(("code", "reason"), [(403, "Forbidden"), (422, "Invalid"), (400, "BadRequest")])
def test_refusal_of_any_kind_to_label_nodes_is_told(code: int, reason: str) -> None:
    cluster = make_cluster()
    cluster.free_namespace()
    cluster.apply_resource("everywhere")
    cluster.work()
    cluster.refusals["label"] = refusal(code, reason, "a policy keeps this node's labels")
    cluster.apply_resource("special", nodeSelector={HOST: "n1"}, priority=10)
    cluster.work()
    assert cluster.condition("special", "Stalled") == ("True", "NodesNotWritable")
    assert "a policy keeps this node's labels" in cluster.message("special", "Stalled")


# --- DaemonSets of others -------------------------------------------------------------------------------------------


def test_odd_daemonset_of_somebody_else_is_seen() -> None:
    cluster = make_cluster()
    theirs = foreign()
    theirs["spec"]["template"]["spec"]["imagePullSecrets"] = [{}]
    theirs["spec"]["template"]["metadata"] = {"creationTimestamp": None}
    cluster.put("daemonsets", theirs)
    cluster.apply_resource("one")
    assert [write for write in cluster.run() if "daemonsets" in write] == []
    assert cluster.condition("one", "Degraded") == ("True", "ForeignDaemonSet")


# --- DaemonSets that nobody asks for and that stay ------------------------------------------------------------------


def test_resource_that_is_held_by_a_finalizer_starts_no_fight_for_its_nodes() -> None:
    cluster = with_special()
    metadata = cluster.get("schedexts", "special")["metadata"]
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["tenant.example/hold"]}
    cluster.change("schedexts", "special", metadata=metadata | going)
    cluster.work()
    assert cluster.names("daemonsets") == ["everywhere", "special"]
    assert (cluster.on("n1"), cluster.slots()) == (["everywhere"], {"n1": "default.everywhere"})
    assert Cluster(cluster).work() == []
    cluster.remove("schedexts", "special")
    cluster.work()
    assert (cluster.on("n1"), cluster.slots()) == (["everywhere"], {})


def test_daemonset_that_lost_its_owner_gets_no_second_scheduler_beside_it() -> None:
    cluster = with_special()
    metadata = cluster.get("daemonsets", "special")["metadata"]
    cluster.change("daemonsets", "special", metadata=metadata | {"ownerReferences": []})
    for _ in range(3):
        cluster.run()
        cluster.move()
        assert len(cluster.on("n1")) <= 1
        cluster.end_pods()
    cluster.work()
    assert cluster.on("n1") == ["everywhere"]
    assert cluster.condition("special", "Degraded") == ("True", "ForeignDaemonSet")
    metadata = cluster.get("daemonsets", "special")["metadata"]
    cluster.change("daemonsets", "special", metadata=metadata | {"annotations": {"sked.schedkit.io/adopt": "true"}})
    cluster.work()
    assert cluster.on("n1") == ["special"]


# --- what is told ---------------------------------------------------------------------------------------------------


def test_pods_that_wait_for_their_deletion_are_not_told_as_updated() -> None:
    strategy = {"type": "OnDelete"}
    cluster = with_special(updateStrategy=strategy)
    before = cluster.uids("everywhere")
    cluster.apply_resource("everywhere", sched="example.com/scx_rusty:2", updateStrategy=strategy)
    cluster.work()
    assert cluster.uids("everywhere") == before
    assert cluster.get("schedexts", "everywhere")["status"]["nodes"]["updated"] == 0
    assert cluster.condition("everywhere", "Ready") == ("False", "Progressing")


def test_taint_that_comes_later_and_evicts_nobody_keeps_nothing_from_being_ready() -> None:
    cluster = make_cluster()
    cluster.apply_resource("one")
    cluster.work()
    cluster.change("nodes", "n2", spec={"taints": [{"key": "maintenance", "effect": "NoSchedule"}]})
    cluster.work()
    assert cluster.on("n2") == ["one"]
    assert cluster.condition("one", "Ready") == ("True", "Ready")
    assert cluster.get("schedexts", "one")["status"]["nodes"]["misscheduled"] == 1


def test_revisions_that_no_pod_is_of_are_forgotten() -> None:
    cluster = with_special()
    for number in range(2, 9):
        cluster.apply_resource("everywhere", sched=f"example.com/scx_rusty:{number}")
        cluster.work()
    uid = cluster.get("daemonsets", "everywhere")["metadata"]["uid"]
    assert len([key for key in cluster._revisions.known if key[0] == uid]) <= 2
