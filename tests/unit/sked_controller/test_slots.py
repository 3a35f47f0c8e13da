"""One node, one decision: who has the slot of a node that several want, and how it changes hands."""

import pytest

from tests.described import make_described
from tests.unit.sked_controller.cluster import READY, Cluster
from tests.unit.sked_controller.making import fill_defaults
from tests.unit.sked_controller.world import foreign, refusal

NODES = [f"n{number}" for number in range(1, 6)]
ONLY_N1 = {"kubernetes.io/hostname": "n1"}


def make_cluster(*nodes: str) -> Cluster:
    cluster = Cluster()
    for name in nodes or NODES:
        cluster.add_node(name)
    return cluster


def test_one_resource_is_the_described_daemonset_and_nothing_is_written_to_nodes() -> None:
    cluster = make_cluster()
    cluster.apply_resource("everywhere")
    writes = cluster.work()
    assert not [write for write in writes if write.startswith("label")]
    assert cluster.get("daemonsets", "everywhere")["spec"]["updateStrategy"]["type"] == "RollingUpdate"
    assert "affinity" not in cluster.get("daemonsets", "everywhere")["spec"]["template"]["spec"]
    assert cluster.condition("everywhere", "Ready") == ("True", "Ready")
    assert cluster.condition("everywhere", "Conflicted") == ("False", "NoOverlap")


def test_stronger_one_takes_its_node_and_no_other_pod_is_touched() -> None:
    cluster = make_cluster()
    cluster.apply_resource("everywhere")
    cluster.work()
    before = cluster.uids("everywhere")
    cluster.free_namespace()
    cluster.apply_resource("special", nodeSelector=ONLY_N1, priority=10)
    cluster.work()
    assert cluster.slots() == {"n1": "default.special"}
    assert {node: cluster.on(node) for node in NODES} == {"n1": ["special"]} | {
        node: ["everywhere"] for node in NODES[1:]
    }
    after = cluster.uids("everywhere")
    assert after == {node: uid for node, uid in before.items() if node != "n1"}
    assert cluster.condition("everywhere", "Conflicted") == ("True", "Yields")
    assert cluster.message("everywhere", "Conflicted") == "yields 1 node to default/special"
    assert cluster.condition("special", "Conflicted") == ("False", "NoOverlap")
    assert cluster.condition("everywhere", "Ready") == ("True", "Ready")
    assert cluster.condition("special", "Ready") == ("True", "Ready")
    nodes = cluster.get("schedexts", "everywhere")["status"]["nodes"]
    assert (nodes["desired"], nodes["yielded"]) == (4, 1)

    cluster.remove("schedexts", "special")
    cluster.work()
    assert cluster.slots() == {}
    assert all(cluster.on(node) == ["everywhere"] for node in NODES)
    assert after.items() <= cluster.uids("everywhere").items(), "elsewhere nothing was restarted"
    assert cluster.condition("everywhere", "Conflicted") == ("False", "NoOverlap")


def test_chain_of_three_deletes_nothing() -> None:
    cluster = make_cluster()
    cluster.free_namespace()
    cluster.apply_resource("a", priority=1)
    cluster.apply_resource("b", priority=2, nodeSelector=ONLY_N1)
    cluster.apply_resource("c", priority=3, nodeSelector=ONLY_N1)
    cluster.work()
    before = cluster.uids("a")
    cluster.remove("schedexts", "c")
    writes = cluster.work()
    assert not [write for write in writes if write.startswith("delete")]
    assert (cluster.on("n1"), cluster.uids("a")) == (["b"], before)


def test_two_that_are_applied_at_once_never_share_a_node() -> None:
    cluster = make_cluster()
    cluster.apply_resource("everywhere")
    cluster.run()  # its DaemonSet is written, its pods are not in sight yet
    cluster.free_namespace()
    cluster.apply_resource("special", nodeSelector=ONLY_N1, priority=10)
    cluster.work()
    assert cluster.on("n1") == ["special"]
    assert all(cluster.on(node) == ["everywhere"] for node in NODES[1:])


def test_tainted_nodes_belong_to_who_tolerates_them() -> None:
    cluster = make_cluster("n1")
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    cluster.add_node("gpu-1", taints=[taint])
    cluster.apply_resource("everywhere")
    cluster.apply_resource("gpu", tolerations=[{"key": "gpu", "operator": "Exists"}], priority=-1)
    cluster.work()
    assert (cluster.on("n1"), cluster.on("gpu-1")) == (["everywhere"], ["gpu"])
    assert cluster.condition("gpu", "Ready") == ("True", "Ready")


def test_many_rivals_leave_the_fallback_its_other_nodes() -> None:
    cluster = make_cluster(*(f"n{number}" for number in range(20)))
    cluster.free_namespace()
    cluster.apply_resource("fallback")
    cluster.work()
    before = cluster.uids("fallback")
    for number in range(8):
        cluster.apply_resource(f"r{number}", nodeSelector={"kubernetes.io/hostname": f"n{number}"}, priority=1)
    writes = cluster.work()
    assert not [write for write in writes if write.startswith("delete")]
    assert cluster.uids("fallback") == {node: uid for node, uid in before.items() if int(node[1:]) >= 8}
    assert cluster.get("schedexts", "fallback")["status"]["pools"][0]["excludedBy"] == [
        f"default/r{number}" for number in range(8)
    ]


def test_dead_node_keeps_nobody_from_the_others() -> None:
    cluster = make_cluster()
    cluster.free_namespace()
    cluster.apply_resource("old")
    cluster.work()
    cluster.stuck.add("n3")
    cluster.apply_resource("new", priority=5)
    cluster.work()
    assert cluster.on("n3") == ["old"], "its pod never finishes"
    assert all(cluster.on(node) == ["new"] for node in NODES if node != "n3")
    assert cluster.condition("new", "Progressing") == ("True", "WaitingForNodes")


def test_suspended_and_resumed_with_a_dead_node_comes_back_everywhere_else() -> None:
    cluster = make_cluster()
    cluster.apply_resource("one")
    cluster.work()
    cluster.stuck.add("n3")
    cluster.apply_resource("one", suspend=True)
    cluster.work()
    cluster.apply_resource("one")
    cluster.work()
    for _ in range(3):
        cluster.work()  # minutes pass: the dead node's pod is overdue
    cluster.look("one")
    cluster.work()
    assert all("one" in cluster.on(node) for node in NODES)


@pytest.mark.parametrize("kind", ["", "Job", "DaemonSet"])
def test_pod_of_a_tenant_with_the_label_blocks_and_steers_nothing(kind: str) -> None:
    cluster = make_cluster()
    cluster.free_namespace()
    cluster.apply_resource("everywhere")
    cluster.work()
    theirs = cluster.put("daemonsets", foreign(name="theirs"))["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": kind, "name": "theirs", "uid": theirs, "controller": True}
    metadata = {"name": "mine", "labels": {"managed-by": "sked-controller"}}
    cluster.put(
        "pods",
        {"metadata": metadata | ({"ownerReferences": [owner]} if kind else {}), "spec": {"nodeName": "n1"}},
    )
    occupants = cluster.known.workloads.find_occupants("n1")
    assert [occupant.pod.metadata.name for occupant in occupants] == ["everywhere-n1"]
    cluster.remove("daemonsets", "theirs")
    cluster.apply_resource("special", nodeSelector={"kubernetes.io/hostname": "n2"}, priority=10)
    cluster.remove("pods", "mine")
    cluster.work()
    assert cluster.on("n2") == ["special"]


def test_one_of_some_namespaces_labels_no_nodes_for_others() -> None:
    cluster = Cluster(namespaces=("elsewhere",))
    for node in NODES:
        cluster.add_node(node)
    cluster.apply_resource("one")
    cluster.apply_resource("two")
    assert cluster.work() == []


# --- people ---------------------------------------------------------------------------------------------------------


def test_node_that_a_person_reserves_is_left_and_given_back() -> None:
    cluster = make_cluster()
    cluster.apply_resource("one")
    cluster.work()
    before = cluster.uids("one")
    cluster.label("n2", slot="none")
    writes = cluster.work()
    assert cluster.on("n2") == []
    assert cluster.uids("one") == {node: uid for node, uid in before.items() if node != "n2"}
    assert cluster.slots() == {"n2": "none"}
    assert not [write for write in writes if write.startswith("label")]
    assert cluster.condition("one", "Conflicted") == ("False", "Reserved")
    assert cluster.condition("one", "Ready") == ("True", "Ready")
    assert cluster.get("schedexts", "one")["status"]["nodes"]["reserved"] == 1
    cluster.label("n2", slot=None)
    cluster.work()
    assert cluster.on("n2") == ["one"]
    assert cluster.get("schedexts", "one")["status"]["nodes"]["reserved"] == 0


@pytest.mark.parametrize("value", ["weak", "default.weak"])
def test_node_is_reserved_for_a_resource_by_its_name(value: str) -> None:
    cluster = make_cluster()
    cluster.free_namespace()
    cluster.apply_resource("strong", priority=9)
    cluster.apply_resource("weak")
    cluster.work()
    assert all(cluster.on(node) == ["strong"] for node in NODES)
    cluster.label("n4", slot=value)
    cluster.work()
    assert {node: cluster.on(node) for node in NODES} == {node: ["strong"] for node in NODES} | {"n4": ["weak"]}
    assert cluster.slots()["n4"] == value
    cluster.label("n4", slot=None)
    cluster.work()
    assert cluster.on("n4") == ["strong"]


# --- updates --------------------------------------------------------------------------------------------------------


def test_update_of_one_that_follows_the_slot_reaches_every_node_one_by_one() -> None:
    cluster = make_cluster()
    cluster.free_namespace()
    cluster.apply_resource("everywhere")
    cluster.apply_resource("special", nodeSelector=ONLY_N1, priority=10)
    cluster.work()
    before = cluster.uids("everywhere")
    cluster.apply_resource("everywhere", sched="example.com/scx_rusty:2")
    writes = cluster.work()
    after = cluster.uids("everywhere")
    assert after.keys() == before.keys()
    assert not set(after.values()) & set(before.values())
    assert len([write for write in writes if write.startswith("delete pods everywhere")]) == len(before)
    assert cluster.condition("everywhere", "Ready") == ("True", "Ready")
    assert cluster.on("n1") == ["special"]


def test_update_without_a_conflict_makes_it_the_described_daemonset_again() -> None:
    cluster = make_cluster()
    cluster.free_namespace()
    cluster.apply_resource("everywhere")
    cluster.apply_resource("special", nodeSelector=ONLY_N1, priority=10)
    cluster.work()
    cluster.remove("schedexts", "special")
    cluster.work()
    assert cluster.get("daemonsets", "everywhere")["spec"]["updateStrategy"]["type"] == "OnDelete"
    cluster.apply_resource("everywhere", sched="example.com/scx_rusty:2")
    cluster.work()
    spec = cluster.get("daemonsets", "everywhere")["spec"]
    assert (spec["updateStrategy"]["type"], "affinity" in spec["template"]["spec"]) == ("RollingUpdate", False)
    assert cluster.condition("everywhere", "Ready") == ("True", "Ready")


# --- claims that cannot run -----------------------------------------------------------------------------------------


def refuse_pods(cluster: Cluster, daemonset: str) -> None:
    """What the DaemonSet controller says when its pods are refused."""
    found = cluster.get("daemonsets", daemonset)["metadata"]
    about = {"kind": "DaemonSet", "namespace": "default", "name": daemonset, "uid": found["uid"]}
    cluster.put(
        "events",
        {
            "metadata": {"name": f"{daemonset}.1"},
            "involvedObject": about,
            "reason": "FailedCreate",
            "message": f'(combined from similar events): Error creating: pods "{daemonset}-hzkfb" is forbidden: '
            'violates PodSecurity "baseline:latest": privileged',
            "lastTimestamp": f"{cluster.now:%Y-%m-%dT%H:%M:%SZ}",
        },
    )


def test_claim_whose_pods_are_refused_takes_no_slot_but_for_a_trial_on_one_node() -> None:
    cluster = make_cluster()
    cluster.free_namespace()
    cluster.apply_resource("everywhere")
    cluster.work()
    before = cluster.uids("everywhere")
    cluster.refused_daemonsets.add("mighty")
    cluster.apply_resource("mighty", priority=9)
    cluster.work()
    assert [node for node in NODES if cluster.on(node) == []] == ["n1"], "one node is tried, the others are not touched"
    refuse_pods(cluster, "mighty")
    cluster.work()
    assert all(cluster.on(node) == ["everywhere"] for node in NODES)
    assert {node: uid for node, uid in before.items() if node != "n1"}.items() <= cluster.uids("everywhere").items()
    assert cluster.condition("everywhere", "Conflicted") == ("False", "NoOverlap")
    assert cluster.condition("mighty", "Ready") == ("False", "FailedCreate")
    assert cluster.condition("mighty", "Stalled") == ("True", "FailedCreate")
    assert "violates PodSecurity" in cluster.message("mighty", "Ready")
    assert cluster.slots() == dict.fromkeys(NODES[1:], "default.everywhere"), "it may go on trying on one node alone"

    cluster.refused_daemonsets.clear()
    cluster.move()
    assert [node for node in NODES if "mighty" in cluster.on(node)] == ["n1"]
    cluster.work()
    assert all(cluster.on(node) == ["mighty"] for node in NODES)


def test_claim_whose_pods_never_start_takes_one_node_and_the_others_once_it_works() -> None:
    """As of an image that no node can pull."""
    cluster = make_cluster()
    cluster.free_namespace()
    cluster.apply_resource("everywhere")
    cluster.work()
    before = cluster.uids("everywhere")
    cluster.broken.add("mighty")
    cluster.apply_resource("mighty", priority=9)
    cluster.work()
    kept = {node: uid for node, uid in before.items() if node != "n1"}
    assert (cluster.on("n1"), cluster.uids("everywhere")) == (["mighty"], kept)
    again = Cluster(cluster)
    again.broken.add("mighty")
    again.work()
    assert (again.on("n1"), again.uids("everywhere")) == (["mighty"], kept), "one that has just started knows no more"

    again.broken.clear()
    again.change("pods", "mighty-n1", status={"phase": "Running", "conditions": READY})
    again.work()
    assert all(again.on(node) == ["mighty"] for node in NODES)


def test_stronger_one_that_does_not_work_keeps_the_nodes_that_it_has_from_a_newcomer() -> None:
    cluster = make_cluster()
    cluster.broken.add("older")
    cluster.apply_resource("older")
    cluster.work()
    before = cluster.uids("older")
    again = Cluster(cluster)
    again.broken.add("older")
    again.apply_resource("younger")
    again.work()
    assert again.uids("older") == before
    assert again.condition("younger", "Conflicted") == ("True", "Yields")


def test_refused_pods_of_one_alone_are_a_failure() -> None:
    cluster = make_cluster()
    cluster.refused_daemonsets.add("one")
    cluster.apply_resource("one")
    cluster.work()
    assert cluster.condition("one", "Ready") == ("False", "Progressing")
    refuse_pods(cluster, "one")
    cluster.work()
    assert cluster.condition("one", "Degraded") == ("True", "FailedCreate")
    status = cluster.get("schedexts", "one")["status"]
    assert status["failureCount"] == 5
    told = 'pods are forbidden: violates PodSecurity "baseline:latest": privileged'
    assert status["failures"][0]["message"] == told, "without the name of a pod that never was"
    cluster.refused_daemonsets.clear()
    cluster.work()
    assert cluster.condition("one", "Ready") == ("True", "Ready")


# --- kept apart by others -------------------------------------------------------------------------------------------


def test_two_that_others_keep_apart_are_no_conflict() -> None:
    """Their DaemonSets were patched, as the Go operator's users were told to do."""
    cluster = make_cluster()
    for name, pool in (("a", "x"), ("b", "y")):
        cluster.apply_resource(name)
        made = make_described(cluster.get("schedexts", name))
        cluster.theirs[name] = {"nodeSelector": {"pool": pool}}
        made["spec"]["template"]["spec"] |= cluster.theirs[name]
        fill_defaults(made)
        cluster.put("daemonsets", made)
    for number, node in enumerate(NODES):
        cluster.label(node, pool="xy"[number % 2])
    cluster.move()
    before = cluster.uids("a"), cluster.uids("b")
    again = Cluster(cluster)
    writes = again.work()
    assert (again.uids("a"), again.uids("b")) == before
    assert not [write for write in writes if "label" in write or "delete" in write]
    assert again.condition("a", "Conflicted") == ("False", "NoOverlap")
    assert again.condition("a", "Degraded") == ("False", "NoFailures")
    assert "someone else changed which nodes are selected" in again.message("a", "Ready")
    assert again.condition("a", "Ready") == again.condition("b", "Ready") == ("True", "Ready")


def test_two_whose_pods_an_admission_plugin_keeps_apart_are_no_conflict() -> None:
    """Each node has a pod of both, of which one waits for ever for a node that does not take it."""
    cluster = make_cluster("n1", "n2")
    pending = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "node selector"}
    for name, at_home in (("a", "n1"), ("b", "n2")):
        cluster.apply_resource(name)
        made = make_described(cluster.get("schedexts", name))
        fill_defaults(made)
        cluster.put("daemonsets", made)
        for node in ("n1", "n2"):
            works = node == at_home
            phase = {"phase": "Running" if works else "Pending", "conditions": READY if works else [pending]}
            cluster.add_pod(name, node, **phase)
    cluster.move()
    again = Cluster(cluster)
    before = again.uids("a"), again.uids("b")
    writes = again.work()
    assert (again.uids("a"), again.uids("b")) == before
    assert again.slots() == {}
    assert not [write for write in writes if not write.startswith("apply schedexts/status")]


# --- without the right to label nodes -------------------------------------------------------------------------------


def test_without_the_right_to_label_nodes_nothing_is_deleted_and_it_is_told() -> None:
    cluster = make_cluster()
    cluster.free_namespace()
    cluster.apply_resource("everywhere")
    cluster.work()
    before = cluster.uids("everywhere")
    cluster.refusals = {"label": refusal(403, "Forbidden", "may not patch nodes")}
    cluster.apply_resource("special", nodeSelector=ONLY_N1, priority=10)
    cluster.work()
    assert cluster.uids("everywhere") == before
    assert "special" not in cluster.names("daemonsets")
    assert cluster.condition("special", "Ready") == ("False", "NodesNotWritable")
    assert cluster.condition("special", "Conflicted") == ("True", "Undecided")
    assert "may not patch nodes" in cluster.message("special", "Ready")
    cluster.refusals = {}
    cluster.look_at_node("n1")
    cluster.work()
    assert cluster.on("n1") == ["special"]
    assert cluster.condition("special", "Conflicted") == ("False", "NoOverlap")


def test_winner_stays_ready_while_a_weaker_one_comes() -> None:
    cluster = make_cluster()
    cluster.apply_resource("older")
    cluster.work()
    cluster.events.clear()
    cluster.apply_resource("younger", priority=-1)
    cluster.run()
    assert cluster.get("daemonsets", "older")["spec"]["updateStrategy"]["type"] == "OnDelete"
    assert cluster.condition("older", "Ready") == ("True", "Ready")
    cluster.work()
    assert not [event for event in cluster.events if event[0] == "older"], "nothing happened to it"


def test_node_that_cannot_be_labelled_is_told_to_those_who_want_it() -> None:
    cluster = make_cluster()
    cluster.free_namespace()
    cluster.apply_resource("everywhere")
    cluster.work()
    cluster.refusals = {"label n1": refusal(403, "Forbidden", "n1 is not for you")}
    cluster.apply_resource("first", nodeSelector=ONLY_N1, priority=10)
    cluster.apply_resource("second", nodeSelector={"kubernetes.io/hostname": "n2"}, priority=10)
    cluster.work()
    assert cluster.on("n2") == ["second"]
    assert cluster.condition("second", "Ready") == ("True", "Ready")
    assert cluster.condition("first", "Ready") == ("False", "NodesNotWritable")
    assert "n1 is not for you" in cluster.message("first", "Ready")
    cluster.look_at_node("n1")
    cluster.look_at_node("n2")
    assert not [write for write in cluster.work() if "status" in write], "it is told once"


@pytest.mark.parametrize("stuck", NODES)
def test_node_that_does_not_get_free_keeps_a_newcomer_from_no_other(stuck: str) -> None:
    cluster = make_cluster()
    cluster.free_namespace()
    cluster.apply_resource("old")
    cluster.work()
    cluster.stuck.add(stuck)
    cluster.apply_resource("new", priority=5)
    cluster.work()
    cluster.look_at_node(stuck)  # a minute later: its pod should be gone
    cluster.work()
    assert all(cluster.on(node) == ["new"] for node in NODES if node != stuck)
