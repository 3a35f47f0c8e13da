"""Whose a DaemonSet is, what nobody can place, and what is not watched."""

import pytest

from lab.cluster import Cluster
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

A = "example.com/a:1"
ADOPT = "sked.schedkit.io/adopt"
READY = has("Ready", "True", "Ready")
pytestmark = pytest.mark.usefixtures("operator")


def make_daemonset(name: str, labels: Json) -> Json:
    """Somebody else's."""
    pod = {"containers": [{"name": "scx", "image": "example.com/theirs:1"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default", "labels": {"team": "theirs"}},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }


def test_daemonset_that_is_handed_over_becomes_the_resources(clean: Cluster) -> None:
    apply(clean, make_daemonset("given", {"name": "given"}), make_schedext("given", sched=A))
    wait_object(clean, "schedext", "given", has("Degraded", "True", "ForeignDaemonSet"))
    uid = (fetch(clean, "daemonset", "given") or {})["metadata"]["uid"]

    clean.kubectl("annotate", "daemonset", "given", f"{ADOPT}=true")
    wait_object(clean, "schedext", "given", READY)
    ours = fetch(clean, "daemonset", "given")
    assert ours
    assert ours["metadata"]["uid"] == uid
    assert ours["metadata"]["labels"] == {"team": "theirs", "managed-by": "sked-controller"}
    assert [owner["kind"] for owner in ours["metadata"]["ownerReferences"]] == ["SchedExt"]
    assert ours["spec"]["template"]["spec"]["containers"][0]["image"] == A


def test_daemonset_that_cannot_be_handed_over_says_why(clean: Cluster) -> None:
    apply(clean, make_daemonset("stuck", {"app": "theirs"}), make_schedext("stuck", sched=A))
    wait_object(clean, "schedext", "stuck", has("Degraded", "True", "ForeignDaemonSet"))
    clean.kubectl("annotate", "daemonset", "stuck", f"{ADOPT}=true")
    refused = wait_object(clean, "schedext", "stuck", has("Degraded", "True", "Invalid"))
    told = next(found for found in refused["status"]["conditions"] if found["type"] == "Degraded")
    assert "spec.selector" in told["message"]
    assert "immutable" in told["message"]


def test_pod_that_no_node_has_room_for_is_a_failure_with_its_node(clean: Cluster) -> None:
    huge = {"requests": {"cpu": "100000"}}
    apply(clean, make_schedext("huge", sched=A, nodeSelector={"pool": "small"}, resources=huge))
    failing = wait_object(clean, "schedext", "huge", has("Degraded", "True", "Unschedulable"))
    (failure,) = failing["status"]["failures"]
    assert (failure["node"], failure["reason"]) == ("small-0000", "Unschedulable")
    assert "Insufficient cpu" in failure["message"]
    assert condition(failing, "Ready") == ("False", "Unschedulable")


def test_only_the_namespaces_that_are_named_are_watched(clean: Cluster, operator: Operator) -> None:
    for namespace in ("watched", "watched-too", "unwatched"):
        clean.kubectl("create", "namespace", namespace)
    operator.stop()
    some = Operator(clean, name="sked-some")
    some.start("--namespace=watched", "--namespace", "watched-too", "--enable-http2")
    try:
        small = {"pool": "small"}
        apply(clean, make_schedext("one", "unwatched", sched=A, nodeSelector=small))
        apply(clean, make_schedext("two", "watched", sched=A, nodeSelector={"pool": "large"}))
        apply(clean, make_schedext("three", "watched-too", sched=A, nodeSelector=small))
        wait_object(clean, "schedext", "two", READY, "watched")
        wait_object(clean, "schedext", "three", READY, "watched-too")
        assert fetch(clean, "daemonset", "one", "unwatched") is None
        assert "--enable-http2 has no effect" in some.log()
    finally:
        some.stop()
    operator.start("--leader-elect")
    wait_object(clean, "schedext", "one", lambda found: bool(found.get("status")), "unwatched")
