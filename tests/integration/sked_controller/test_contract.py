"""What users of the Go operator rely on."""

from typing import Any

import pytest

from lab.addresses import choose_free_ports
from lab.cluster import Cluster
from lab.waiting import wait_for
from tests.described import make_described
from tests.integration.sked_controller.metrics import (
    WRITES,
    count,
    count_requests,
    serve_metrics,
    wait_serving,
)
from tests.integration.sked_controller.operator import (
    SECONDS,
    Operator,
    apply,
    condition,
    fetch,
    has,
    make_schedext,
    wait_absent,
    wait_object,
)

IMAGE = "ghcr.io/schedkit/scx_rusty:latest"
pytestmark = pytest.mark.usefixtures("operator")


def described_daemonset(name: str, image: str) -> dict[str, object]:
    """What the Go operator makes, before the API server fills in its defaults."""
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default", "labels": {"managed-by": "sked-controller"}},
        "spec": {
            "selector": {"matchLabels": {"name": name}},
            "template": {
                "metadata": {"labels": {"name": name, "managed-by": "sked-controller"}},
                "spec": {"containers": [{"name": "scx", "image": image, "securityContext": {"privileged": True}}]},
            },
        },
    }


def test_resource_with_a_scheduler_only_becomes_exactly_the_described_daemonset(clean: Cluster) -> None:
    apply(clean, make_schedext("scx-rusty", sched=IMAGE))
    resource = wait_object(clean, "schedext", "scx-rusty", has("Ready", "True", "Ready"))
    made = fetch(clean, "daemonset", "scx-rusty")
    assert made

    apply(clean, described_daemonset("reference", IMAGE))
    reference = wait_object(clean, "daemonset", "reference", lambda _: True)
    expected = reference["spec"]
    expected["selector"]["matchLabels"]["name"] = "scx-rusty"
    expected["template"]["metadata"]["labels"]["name"] = "scx-rusty"
    assert made["spec"] == expected
    assert made["metadata"]["labels"] == {"managed-by": "sked-controller"}
    assert made["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "sked.schedkit.io/v1",
            "kind": "SchedExt",
            "name": "scx-rusty",
            "uid": resource["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def test_deleting_the_resource_deletes_its_daemonset(clean: Cluster) -> None:
    apply(clean, make_schedext("gone", sched=IMAGE))
    wait_object(clean, "schedext", "gone", has("Ready", "True", "Ready"))
    clean.kubectl("delete", "schedext", "gone")
    wait_absent(clean, "daemonset", "gone")


def test_image_change_reaches_the_daemonset_and_status_follows(clean: Cluster) -> None:
    apply(clean, make_schedext("moving", sched="example.com/a:1"))
    wait_object(clean, "schedext", "moving", has("Ready", "True", "Ready"))
    apply(clean, make_schedext("moving", sched="example.com/a:2"))
    done = wait_object(
        clean,
        "schedext",
        "moving",
        lambda found: has("Ready", "True", "Ready")(found) and found["status"]["image"] == "example.com/a:2",
    )
    made = fetch(clean, "daemonset", "moving")
    assert made
    assert made["spec"]["template"]["spec"]["containers"][0]["image"] == "example.com/a:2"
    assert done["status"]["nodes"] == {
        "desired": 3,
        "scheduled": 3,
        "ready": 3,
        "updated": 3,
        "unavailable": 0,
        "misscheduled": 0,
        "notReady": 0,
        "quarantined": 0,
        "cordoned": 0,
        "attached": 0,
        "detached": 0,
        "foreign": 0,
        "ejected": 0,
        "unfit": 0,
        "unknown": 3,
        "yielded": 0,
        "reserved": 0,
    }
    assert condition(done, "Reconciling") == ("False", "Settled")
    assert condition(done, "Stalled") == ("False", "NotStalled")
    assert condition(done, "Progressing") == ("False", "Settled")
    assert condition(done, "Degraded") == ("False", "NoFailures")
    assert condition(done, "Conflicted") == ("False", "NoOverlap")
    assert condition(done, "Suspended") == ("False", "NotAsked")
    assert condition(done, "Attached") == ("Unknown", "NoAgents")
    ready = next(found for found in done["status"]["conditions"] if found["type"] == "Ready")
    assert ready["message"] == (
        "3 of 3 pods are ready; whether the kernels attached it is unknown: no agent runs in the cluster"
    )


def test_taking_over_from_the_go_operator_changes_and_restarts_nothing(clean: Cluster, operator: Operator) -> None:
    operator.stop()
    apply(clean, make_schedext("legacy", sched=IMAGE))
    resource = fetch(clean, "schedext", "legacy")
    assert resource
    apply(clean, make_described(resource))
    before = wait_object(clean, "daemonset", "legacy", lambda found: found["status"].get("numberReady") == 3)

    operator.start("--leader-elect")
    wait_object(clean, "schedext", "legacy", has("Ready", "True", "Ready"))
    after = fetch(clean, "daemonset", "legacy")
    assert after
    # The DaemonSet controller goes on writing its status; the operator has written nothing.
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert "sked" not in {entry["manager"] for entry in after["metadata"]["managedFields"]}


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({}, id="plain"),
        pytest.param(
            {"configFrom": {"configMap": "layers", "mountPath": "/etc/scx"}, "hostStats": True}, id="with-volumes"
        ),
    ],
)
def test_unchanged_world_is_not_written_to(clean: Cluster, operator: Operator, files: dict[str, Any]) -> None:
    apply(clean, make_schedext("quiet", sched=IMAGE, **files))
    wait_object(clean, "schedext", "quiet", has("Ready", "True", "Ready"))
    operator.stop()
    before = [fetch(clean, kind, "quiet") for kind in ("schedext", "daemonset")]

    (port,) = choose_free_ports(1)
    operator.start(*serve_metrics(port))  # without a lease, whose renewals are writes
    wait_serving(port)
    looked = lambda: count(port, "controller_runtime_reconcile_total", 'result="success"')  # noqa: E731
    wait_for("the operator to look at it", looked, SECONDS)
    assert count_requests(port, "", *WRITES) == 0
    assert [fetch(clean, kind, "quiet") for kind in ("schedext", "daemonset")] == before
