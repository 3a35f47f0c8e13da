"""One node, one decision, on a real control plane: who gets a contested node, and that nobody else is touched."""

import json
import random
from collections.abc import Iterator

import pytest

from lab import kwok
from lab.cluster import Cluster
from lab.components import API_SERVER
from lab.waiting import NotYetError, wait_for
from tests.integration.clusters import read_objects
from tests.integration.sked_controller.operator import (
    SECONDS,
    Json,
    Operator,
    apply,
    condition,
    empty,
    fetch,
    fetch_pods,
    fetch_slots,
    has,
    make_schedext,
    wait_object,
)
from tests.integration.sked_controller.recording import recorded

A, B, C = "example.com/a:1", "example.com/b:1", "example.com/c:1"
READY = has("Ready", "True", "Ready")
NODES = [f"spare-{number:04d}" for number in range(6)]
HOSTNAME = "kubernetes.io/hostname"
SPARE = {"pool": "spare"}


@pytest.fixture
def spare(clean: Cluster) -> Iterator[Cluster]:
    """The cluster with six more nodes, pool=spare."""
    kwok.add_nodes(clean, len(NODES), labels=SPARE, prefix="spare")
    yield clean
    empty(clean)  # a pod that is going and loses its node stays for minutes, also beside the next node of that name
    clean.kubectl("delete", "nodes", *NODES)


def where(cluster: Cluster, *names: str) -> dict[str, list[str]]:
    """The DaemonSets with pods on each node, those that are going included."""
    found: dict[str, list[str]] = {}
    for name in names:
        for node in fetch_pods(cluster, name):
            found.setdefault(node, []).append(name)
    return found


def wait_where(cluster: Cluster, expected: dict[str, str]) -> None:
    def probe() -> bool:
        seen = where(cluster, *sorted(set(expected.values())))
        if seen != {node: [name] for node, name in expected.items()}:
            raise NotYetError(str(seen))
        return True

    wait_for(f"{expected}", probe, SECONDS)


def only(node: str) -> Json:
    return {HOSTNAME: node}


def test_change_of_a_neighbour_restarts_nothing_elsewhere(spare: Cluster) -> None:
    """Newcomers, a deleted, a suspended, a re-prioritised one: pods on the other nodes keep their uids."""
    apply(spare, make_schedext("fallback", sched=A, nodeSelector=SPARE))
    wait_where(spare, dict.fromkeys(NODES, "fallback"))
    before = fetch_pods(spare, "fallback")
    rivals = {f"rival-{number}": NODES[number] for number in range(3)}
    with recorded(spare) as shared:
        apply(
            spare, *(make_schedext(name, sched=B, nodeSelector=only(node), priority=5) for name, node in rivals.items())
        )
        wait_where(spare, dict.fromkeys(NODES, "fallback") | {node: name for name, node in rivals.items()})
        assert fetch_slots(spare) == {node: f"default.{name}" for name, node in rivals.items()}
        spare.kubectl("delete", "schedext", "rival-0")
        apply(spare, make_schedext("rival-1", sched=B, nodeSelector=only(NODES[1]), priority=5, suspend=True))
        apply(spare, make_schedext("rival-2", sched=B, nodeSelector=only(NODES[2]), priority=-5))
        wait_where(spare, dict.fromkeys(NODES, "fallback"))
    assert shared == []
    after = fetch_pods(spare, "fallback")
    assert {node: after[node] for node in NODES[3:]} == {node: before[node] for node in NODES[3:]}
    wait_for("labels that are not needed to go", lambda: set(fetch_slots(spare)) == {NODES[2]}, SECONDS)


def test_chain_of_waiting_resources_deletes_nothing(spare: Cluster) -> None:
    apply(spare, make_schedext("a", sched=A, nodeSelector=SPARE))
    wait_where(spare, dict.fromkeys(NODES, "a"))
    before = fetch_pods(spare, "a")
    uid = (fetch(spare, "daemonset", "a") or {})["metadata"]["uid"]
    apply(
        spare,
        make_schedext("b", sched=B, nodeSelector=only(NODES[0]), priority=1),
        make_schedext("c", sched=C, nodeSelector=only(NODES[0]), priority=2),
    )
    wait_where(spare, dict.fromkeys(NODES[1:], "a") | {NODES[0]: "c"})
    apply(spare, make_schedext("c", sched=C, nodeSelector=only(NODES[1]), priority=2))
    wait_where(spare, dict.fromkeys(NODES[2:], "a") | {NODES[0]: "b", NODES[1]: "c"})
    assert (fetch(spare, "daemonset", "a") or {})["metadata"]["uid"] == uid
    assert fetch_pods(spare, "a") == {node: before[node] for node in NODES[2:]}


def test_seventh_rival_with_two_labels_leaves_the_fallback_its_nodes(spare: Cluster) -> None:
    apply(spare, make_schedext("fallback", sched=A, nodeSelector=SPARE))
    wait_where(spare, dict.fromkeys(NODES, "fallback"))
    before = fetch_pods(spare, "fallback")
    labels = [{"pool": f"p{number}", "zone": f"z{number}"} for number in range(7)]
    apply(
        spare,
        *(make_schedext(f"r{number}", sched=B, nodeSelector=pair, priority=1) for number, pair in enumerate(labels)),
    )
    for number in range(7):
        wait_object(spare, "schedext", f"r{number}", has("Ready", "True", "NoNodes"))
    assert fetch_pods(spare, "fallback") == before


def test_pod_that_never_ends_keeps_nobody_from_the_other_nodes(spare: Cluster) -> None:
    apply(spare, make_schedext("old", sched=A, nodeSelector=SPARE))
    wait_where(spare, dict.fromkeys(NODES, "old"))
    (stuck,) = (pod for pod in read_objects(spare, "pod", "default") if pod["spec"]["nodeName"] == NODES[0])
    finalizers = {"metadata": {"finalizers": ["example.com/never"]}}
    spare.kubectl("patch", "pod", stuck["metadata"]["name"], "--type=merge", "-p", json.dumps(finalizers))
    try:
        apply(spare, make_schedext("new", sched=B, nodeSelector=SPARE, priority=1))
        wait_where(spare, dict.fromkeys(NODES[1:], "new") | {NODES[0]: "old"})
        waits = has("Progressing", "True", "WaitingForNodes")
        wait_object(
            spare,
            "schedext",
            "new",
            lambda found: waits(found) and NODES[0] in json.dumps(found["status"]["conditions"]),
        )
    finally:
        gone = {"metadata": {"finalizers": None}}
        spare.kubectl("patch", "pod", stuck["metadata"]["name"], "--type=merge", "-p", json.dumps(gone))
    wait_where(spare, dict.fromkeys(NODES, "new"))


def test_two_applied_at_once_and_a_relabelled_node_end_with_one_each(spare: Cluster) -> None:
    apply(
        spare,
        make_schedext("everywhere", sched=A, nodeSelector=SPARE),
        make_schedext("special", sched=B, nodeSelector={"kind": "fast"}, priority=3),
    )
    wait_where(spare, dict.fromkeys(NODES, "everywhere"))
    before = fetch_pods(spare, "everywhere")
    spare.kubectl("label", "node", NODES[4], "kind=fast")
    wait_where(spare, dict.fromkeys(NODES, "everywhere") | {NODES[4]: "special"})
    spare.kubectl("label", "node", NODES[4], "kind-")
    wait_where(spare, dict.fromkeys(NODES, "everywhere"))
    after = fetch_pods(spare, "everywhere")
    assert {node for node in NODES if after[node] != before[node]} == {NODES[4]}


def test_taints_decide_who_can_run_and_refused_pods_take_no_node(spare: Cluster) -> None:
    spare.kubectl("taint", "node", NODES[5], "gpu=yes:NoSchedule")
    spare.kubectl("create", "namespace", "strict")
    spare.kubectl("label", "namespace", "strict", "pod-security.kubernetes.io/enforce=baseline")
    spare.kubectl("label", "namespace", "strict", "sked.schedkit.io/any-priority=true")
    toleration = {"key": "gpu", "operator": "Exists"}
    apply(spare, make_schedext("everywhere", sched=A, nodeSelector=SPARE))
    apply(spare, make_schedext("gpu", sched=B, nodeSelector=SPARE, tolerations=[toleration], priority=-1))
    wait_where(spare, dict.fromkeys(NODES[:5], "everywhere") | {NODES[5]: "gpu"})
    before = fetch_pods(spare, "everywhere")

    apply(spare, make_schedext("mighty", "strict", sched=C, nodeSelector=SPARE, priority=2**31 - 1))
    told = wait_object(spare, "schedext", "mighty", has("Ready", "False", "FailedCreate"), "strict")
    assert "PodSecurity" in json.dumps(told["status"])
    wait_where(spare, dict.fromkeys(NODES[:5], "everywhere") | {NODES[5]: "gpu"})
    after = fetch_pods(spare, "everywhere")
    assert len([node for node in NODES[:5] if after[node] != before[node]]) <= 1, "one node was tried at most"
    spare.kubectl("delete", "schedext", "mighty", "-n", "strict")
    spare.kubectl("delete", "namespace", "strict", "--wait=false")


def test_priority_above_the_ceiling_counts_only_in_namespaces_that_may_have_it(spare: Cluster) -> None:
    spare.kubectl("create", "namespace", "tenant")
    apply(spare, make_schedext("first", sched=A, nodeSelector=SPARE))
    wait_where(spare, dict.fromkeys(NODES, "first"))
    apply(spare, make_schedext("greedy", "tenant", sched=B, nodeSelector=SPARE, priority=1000))
    told = wait_object(spare, "schedext", "greedy", has("Ready", "False", "Conflicted"), "tenant")
    assert told["status"].get("priority", 0) == 0
    wait_where(spare, dict.fromkeys(NODES, "first"))
    spare.kubectl("label", "namespace", "tenant", "sked.schedkit.io/any-priority=true")
    wait_object(spare, "schedext", "greedy", READY, "tenant")
    assert fetch_pods(spare, "first") == {}
    spare.kubectl("delete", "schedext", "greedy", "-n", "tenant")
    spare.kubectl("delete", "namespace", "tenant", "--wait=false")


def test_person_reserves_nodes_with_kubectl(spare: Cluster) -> None:
    apply(spare, make_schedext("main", sched=A, nodeSelector=SPARE, priority=1))
    apply(spare, make_schedext("trial", sched=B, nodeSelector=SPARE))
    wait_where(spare, dict.fromkeys(NODES, "main"))
    before = fetch_pods(spare, "main")
    spare.kubectl("label", "node", NODES[0], "sked.schedkit.io/slot=none", "--overwrite")
    spare.kubectl("label", "node", NODES[1], "sked.schedkit.io/slot=trial", "--overwrite")
    wait_where(spare, dict.fromkeys(NODES[2:], "main") | {NODES[1]: "trial"})
    told = wait_object(spare, "schedext", "main", lambda found: found["status"]["nodes"]["reserved"] == 2)
    assert told["status"]["nodes"]["desired"] == 4
    assert fetch_pods(spare, "main") == {node: before[node] for node in NODES[2:]}
    spare.kubectl("label", "node", NODES[0], NODES[1], "sked.schedkit.io/slot-")
    wait_where(spare, dict.fromkeys(NODES, "main"))


def test_killed_in_the_middle_of_hand_overs_it_ends_with_one_scheduler_a_node(
    spare: Cluster, operator: Operator
) -> None:
    operator.stop()
    operator.start()
    chance = random.Random(5)  # noqa: S311
    names = ["a", "b", "c"]
    apply(spare, *(make_schedext(name, sched=f"example.com/{name}:1", nodeSelector=SPARE) for name in names))
    for turn in range(6):
        winner = chance.choice(names)
        apply(spare, make_schedext(winner, sched=f"example.com/{winner}:1", nodeSelector=SPARE, priority=turn + 1))
        enough = chance.randrange(len(NODES))

        def has_begun(winner: str = winner, enough: int = enough) -> bool:
            return list(fetch_slots(spare).values()).count(f"default.{winner}") >= enough

        wait_for(f"{enough} nodes for {winner}", has_begun, SECONDS)
        if turn == 3:
            spare.stop_component(API_SERVER)
            spare.start_component(API_SERVER)
        operator.kill()
        operator.start()
    wait_where(spare, dict.fromkeys(NODES, winner))
    operator.stop()


def test_everything_that_can_be_asked_for_is_as_asked_for_in_the_words_of_the_api_server(spare: Cluster) -> None:
    """What the API server fills in or writes in its own way is no change by others, with a slot and without."""
    required = {
        "nodeSelectorTerms": [
            {
                "matchExpressions": [
                    {"key": "pool", "operator": "In", "values": ["spare"]},
                    {"key": "absent", "operator": "DoesNotExist"},
                ],
                "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["nobody"]}],
            },
            {"matchExpressions": [{"key": "generation", "operator": "Gt", "values": ["3"]}]},
        ]
    }
    wish = {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}
    full = make_schedext(
        "full",
        sched="example.com/full",
        args=["", "--a"],
        env=[
            {"name": "EMPTY", "value": ""},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "MAP", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k", "optional": True}}},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": False}}},
        ],
        configFrom={"configMap": "layers", "mountPath": "/etc/scx"},
        hostStats=True,
        resources={
            "requests": {"cpu": "0.10", "memory": "67108864"},
            "limits": {"cpu": 2, "memory": "1024Mi"},
        },
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": required,
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": wish}],
            }
        },
        tolerations=[
            {"key": "a", "operator": "Equal", "value": "", "effect": "NoExecute", "tolerationSeconds": 0},
            {"key": "b"},
            {"operator": "Exists", "effect": "PreferNoSchedule"},
        ],
        priorityClassName="system-node-critical",
        imagePullSecrets=[{"name": "one"}, {"name": "two"}],
        updateStrategy={"rollingUpdate": {"maxUnavailable": "100%"}},
    )
    apply(spare, full)
    wait_where(spare, dict.fromkeys(NODES, "full"))
    told = wait_object(spare, "schedext", "full", READY)
    assert condition(told, "Degraded") == ("False", "NoFailures")
    plain = fetch(spare, "daemonset", "full") or {}
    before = fetch_pods(spare, "full")

    apply(spare, make_schedext("rival", sched=B, nodeSelector=only(NODES[0]), priority=5))
    wait_where(spare, dict.fromkeys(NODES[1:], "full") | {NODES[0]: "rival"})
    yields = has("Conflicted", "True", "Yields")
    told = wait_object(spare, "schedext", "full", lambda found: READY(found) and yields(found))
    assert condition(told, "Degraded") == ("False", "NoFailures")
    following = fetch(spare, "daemonset", "full") or {}
    assert following["metadata"]["generation"] == plain["metadata"]["generation"] + 1, "written once"
    assert fetch_pods(spare, "full") == {node: before[node] for node in NODES[1:]}
    version = told["metadata"]["resourceVersion"]
    spare.kubectl("annotate", "schedext", "full", "example.com/look=again")
    spare.kubectl("annotate", "daemonset", "full", "example.com/look=again")
    again = wait_object(spare, "schedext", "full", lambda found: found["metadata"]["resourceVersion"] != version)
    assert again["status"] == told["status"]
    assert (fetch(spare, "daemonset", "full") or {})["metadata"]["generation"] == following["metadata"]["generation"]


def test_middle_one_takes_what_the_strongest_leaves_it(spare: Cluster) -> None:
    """Its first node belongs to a stronger one; it shows on another that its pods can be created."""
    apply(spare, make_schedext("fallback", sched=A, nodeSelector=SPARE))
    wait_where(spare, dict.fromkeys(NODES, "fallback"))
    apply(spare, make_schedext("strong", sched=B, nodeSelector=only(NODES[0]), priority=9))
    wait_where(spare, dict.fromkeys(NODES[1:], "fallback") | {NODES[0]: "strong"})
    apply(spare, make_schedext("middle", sched=C, nodeSelector=SPARE, priority=5))
    wait_where(spare, dict.fromkeys(NODES[1:], "middle") | {NODES[0]: "strong"})


def test_pod_with_a_made_up_owner_keeps_nobody_off_a_node(spare: Cluster) -> None:
    """The garbage collector does not know the owner's kind, and leaves the pod where it is."""
    owner = {"apiVersion": "tenant.example/v1", "kind": "DaemonSet", "name": "x", "uid": "x", "controller": True}
    metadata: Json = {"name": "squatter", "labels": {"managed-by": "sked-controller"}, "ownerReferences": [owner]}
    spec = {"nodeName": NODES[0], "containers": [{"name": "a", "image": A}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata | {"namespace": "default"}, "spec": spec}
    apply(spare, pod)
    try:
        apply(spare, make_schedext("one", sched=A, nodeSelector=SPARE))
        wait_where(spare, dict.fromkeys(NODES, "one"))
        assert fetch_slots(spare) == {}
        assert read_objects(spare, "pod", "default", "managed-by=sked-controller,!name"), "it is still there"
    finally:
        spare.kubectl("delete", "pod", "squatter", "--grace-period=0", "--force")
