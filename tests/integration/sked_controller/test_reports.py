"""What nodes report, on a real control plane: attached or not, handed over, left out, and nothing written twice."""

import re
import time
from collections.abc import Iterator

import pytest

from lab.cluster import Cluster
from lab.waiting import NotYetError, wait_for
from tests.integration.clusters import read_objects
from tests.integration.sked_controller.operator import (
    SECONDS,
    Json,
    Operator,
    apply,
    condition,
    fetch,
    fetch_pods,
    fetch_slots,
    has,
    make_schedext,
    wait_object,
)
from tests.integration.sked_controller.reporting import add_agents, remove_agents, report, tell_time

NODES = ["large-0000", "large-0001", "small-0000"]
FIRST = {"kubernetes.io/hostname": NODES[0]}
IMAGE, OTHER = "example.com/scx_rusty:1", "example.com/scx_lavd:1"
RUSTY = "rusty_1.1.4_x86_64_unknown_linux_gnu"
QUIET_SECONDS = 3.0
READY = has("Ready", "True", "Ready")


@pytest.fixture
def reporting(clean: Cluster) -> Iterator[Cluster]:
    """The cluster with an agent on each node, and kernels to which nothing is attached."""
    add_agents(clean, NODES)
    report(clean, NODES)
    yield clean
    clean.kubectl("delete", "schedextnodes", "--all")
    clean.kubectl("delete", "pods", "-n", "default", "-l", "app.kubernetes.io/component=agent", "--now")
    clean.kubectl("label", "nodes", "--all", "sked.schedkit.io/slot-")


def counts(resource: Json) -> dict[str, int]:
    names = ("attached", "detached", "foreign", "ejected", "unfit", "unknown")
    nodes = resource["status"].get("nodes", {})
    return {name: nodes[name] for name in names if nodes.get(name)}


def wait_counts(cluster: Cluster, **expected: int) -> Json:
    return wait_object(cluster, "schedext", "one", lambda found: counts(found) == expected)


def wait_pods(cluster: Cluster, name: str, *nodes: str) -> None:
    def probe() -> bool:
        seen = sorted(fetch_pods(cluster, name))
        if seen != sorted(nodes):
            raise NotYetError(str(seen))
        return True

    wait_for(f"pods of {name} on {nodes}", probe, SECONDS)


def holders(cluster: Cluster) -> dict[str, str]:
    found = read_objects(cluster, "schedextnode")
    return {report["metadata"]["name"]: report["status"].get("schedExt", "") for report in found}


def versions(cluster: Cluster) -> dict[str, str]:
    """Of all that a manager may write."""
    found = [*read_objects(cluster, "schedextnode"), *read_objects(cluster, "daemonset", "default")]
    found += [*read_objects(cluster, "schedext", "default"), *read_objects(cluster, "event", "default")]
    return {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in found}


def test_kernels_decide_whether_a_resource_is_ready_and_a_restart_changes_nothing(
    reporting: Cluster, operator: Operator
) -> None:
    apply(reporting, make_schedext("one", sched=IMAGE))
    wait_pods(reporting, "one", *NODES)
    early = wait_object(reporting, "schedext", "one", has("Attached", "False", "Attaching"))
    assert condition(early, "Ready") == ("False", "Progressing")
    wait_for("who has the nodes", lambda: holders(reporting) == dict.fromkeys(NODES, "default/one"), SECONDS)

    report(reporting, NODES, state="enabled", ops=RUSTY, since=tell_time(), seq=1)
    done = wait_object(reporting, "schedext", "one", READY)
    assert counts(done) == {"attached": 3}
    assert condition(done, "Attached") == ("True", "Attached")
    assert holders(reporting) == dict.fromkeys(NODES, "default/one"), "the operator's part of a report stays"
    told = reporting.kubectl("get", "scx,scxn").stdout
    assert re.search(r"NAME +SCHEDULER +DESIRED +ATTACHED +STATUS +AGE\n\S+one +scx_rusty +3 +3 +Ready", told)
    assert re.search(rf"NAME +STATE +OPS +SCHEDEXT +ATTACHED +FIT +AGE\n\S+ +enabled +{RUSTY} +default/one", told)

    remove_agents(reporting, NODES[1])
    doubtful = wait_counts(reporting, attached=2, unknown=1)
    assert condition(doubtful, "Attached") == ("Unknown", "NotReported")
    assert condition(doubtful, "Ready") == ("True", "Ready")

    def is_quiet() -> bool:
        before = versions(reporting)
        time.sleep(QUIET_SECONDS)
        return versions(reporting) == before

    wait_for("nothing to be written any more", is_quiet, SECONDS)
    operator.stop()  # which writes how often its Events came
    before = versions(reporting)
    operator.start("--leader-elect")
    apply(reporting, make_schedext("two", sched=IMAGE, nodeSelector={"no": "node"}))
    wait_object(reporting, "schedext", "two", has("Ready", "True", "NoNodes"))
    after = versions(reporting)
    assert {uid: after[uid] for uid in before} == before


def test_slot_is_handed_over_when_the_kernel_has_let_go(reporting: Cluster) -> None:
    apply(reporting, make_schedext("one", sched=IMAGE))
    wait_pods(reporting, "one", *NODES)
    report(reporting, NODES, state="enabled", ops=RUSTY, since=tell_time(), seq=1)
    wait_object(reporting, "schedext", "one", READY)
    apply(reporting, make_schedext("special", sched=OTHER, nodeSelector=FIRST, priority=5))
    wait_pods(reporting, "one", *NODES[1:])
    wait_for("the slot to wait", lambda: fetch_slots(reporting) == {NODES[0]: "pending"}, SECONDS)
    time.sleep(QUIET_SECONDS)
    assert fetch_slots(reporting) == {NODES[0]: "pending"}, "the pod is gone, the scheduler is not"
    assert fetch_pods(reporting, "special") == {}
    report(reporting, NODES[:1], state="disabled", seq=1)
    wait_pods(reporting, "special", NODES[0])
    assert fetch_slots(reporting) == {NODES[0]: "default.special"}
    wait_for("who has the node", lambda: holders(reporting)[NODES[0]] == "default/special", SECONDS)


def test_unfit_nodes_are_left_out_and_given_back(reporting: Cluster) -> None:
    report(reporting, NODES[:1], state="disabled", unfit=True)
    apply(reporting, make_schedext("one", sched=IMAGE, skipUnfitNodes=True))
    wait_pods(reporting, "one", *NODES[1:])
    node = fetch(reporting, "node", NODES[0])
    assert node
    assert node["metadata"]["labels"]["sked.schedkit.io/slot"] == "none"
    assert node["metadata"]["annotations"]["sked.schedkit.io/slot"] == "none"
    report(reporting, NODES[1:], state="enabled", ops=RUSTY, since=tell_time(), seq=1)
    done = wait_object(reporting, "schedext", "one", READY)
    assert counts(done) == {"attached": 2, "unfit": 1}
    before = fetch_pods(reporting, "one")
    remove_agents(reporting, NODES[0])
    time.sleep(QUIET_SECONDS)
    assert fetch_slots(reporting) == {NODES[0]: "none"}, "what is unknown gives nothing back"
    add_agents(reporting, NODES[:1])
    report(reporting, NODES[:1], state="disabled")
    wait_pods(reporting, "one", *NODES)
    after = fetch_pods(reporting, "one")
    assert {name: after[name] for name in before} == before
    wait_for("the label to go", lambda: fetch_slots(reporting) == {}, SECONDS)
