"""What the resource can do beyond running one scheduler everywhere."""

import json

import pytest

from lab.cluster import Cluster
from lab.waiting import NotYetError, wait_for
from tests.integration.clusters import read_objects
from tests.integration.sked_controller.operator import (
    SECONDS,
    Json,
    apply,
    fetch,
    fetch_pods,
    fetch_slots,
    fetch_warnings,
    has,
    make_schedext,
    wait_absent,
    wait_object,
)

A, B = "example.com/a:1", "example.com/b:1"
pytestmark = pytest.mark.usefixtures("operator")


def nodes_of(cluster: Cluster, daemonset: str) -> set[str]:
    """The nodes on which a DaemonSet has pods that are not going."""
    pods = read_objects(cluster, "pod", labels=f"name={daemonset}")
    return {pod["spec"].get("nodeName", "") for pod in pods if "deletionTimestamp" not in pod["metadata"]}


def wait_nodes(cluster: Cluster, daemonset: str, nodes: set[str]) -> None:
    def probe() -> bool:
        seen = nodes_of(cluster, daemonset)
        if seen != nodes:
            raise NotYetError(str(seen))
        return True

    wait_for(f"{daemonset} on {nodes}", probe, SECONDS)


def container_of(daemonset: Json) -> Json:
    found: Json = daemonset["spec"]["template"]["spec"]["containers"][0]
    return found


def test_placement_and_container_settings_reach_the_pods(clean: Cluster) -> None:
    toleration = {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}
    apply(
        clean,
        make_schedext(
            "full",
            sched=A,
            args=["--slice-us", "5000"],
            env=[{"name": "RUST_LOG", "value": "debug"}],
            configFrom={"configMap": "layers", "mountPath": "/etc/scx"},
            hostStats=True,
            resources={"requests": {"cpu": "10m"}, "limits": {"memory": "64Mi"}},
            nodeSelector={"pool": "large"},
            tolerations=[toleration],
            priorityClassName="system-node-critical",
            imagePullPolicy="IfNotPresent",
            imagePullSecrets=[{"name": "registry"}],
            updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}},
        ),
    )
    wait_nodes(clean, "full", {"large-0000", "large-0001"})
    made = fetch(clean, "daemonset", "full")
    assert made
    container, pod = container_of(made), made["spec"]["template"]["spec"]
    assert container["args"] == ["--slice-us", "5000"]
    assert container["env"] == [{"name": "RUST_LOG", "value": "debug"}]
    assert container["resources"] == {"requests": {"cpu": "10m"}, "limits": {"memory": "64Mi"}}
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert container["volumeMounts"] == [
        {"name": "scx-config", "mountPath": "/etc/scx", "readOnly": True},
        {"name": "scx-stats", "mountPath": "/var/run/scx"},
    ]
    assert pod["volumes"] == [
        {"name": "scx-config", "configMap": {"name": "layers", "defaultMode": 0o644}},
        {"name": "scx-stats", "hostPath": {"path": "/var/run/scx", "type": "DirectoryOrCreate"}},
    ]
    assert pod["tolerations"] == [toleration]
    assert pod["priorityClassName"] == "system-node-critical"
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert made["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == 2

    apply(clean, make_schedext("full", sched=A))
    done = wait_object(clean, "schedext", "full", has("Ready", "True", "Ready"))
    assert done["status"]["nodes"]["desired"] == 3
    plain = fetch(clean, "daemonset", "full")
    assert plain
    assert not {"args", "env", "volumeMounts"} & set(container_of(plain))
    assert not {"nodeSelector", "volumes"} & set(plain["spec"]["template"]["spec"])


def test_pools_run_different_schedulers_and_a_removed_pool_goes(clean: Cluster) -> None:
    large = {"name": "large", "nodeSelector": {"pool": "large"}}
    small = {"name": "small", "nodeSelector": {"pool": "small"}, "sched": B, "args": ["-v"]}
    apply(clean, make_schedext("mixed", sched=A, pools=[large, small]))
    wait_nodes(clean, "mixed-large", {"large-0000", "large-0001"})
    wait_nodes(clean, "mixed-small", {"small-0000"})
    assert fetch(clean, "daemonset", "mixed") is None
    done = wait_object(clean, "schedext", "mixed", has("Ready", "True", "Ready"))
    told = {pool["name"]: (pool["image"], pool["nodes"]["ready"]) for pool in done["status"]["pools"]}
    assert told == {"large": (A, 2), "small": (B, 1)}

    apply(clean, make_schedext("mixed", sched=A, pools=[large]))
    wait_absent(clean, "daemonset", "mixed-small")
    assert fetch(clean, "daemonset", "mixed-large")


def test_suspend_removes_the_schedulers_and_keeps_the_resource(clean: Cluster) -> None:
    apply(clean, make_schedext("paused", sched=A))
    wait_object(clean, "schedext", "paused", has("Ready", "True", "Ready"))
    apply(clean, make_schedext("paused", sched=A, suspend=True))
    wait_absent(clean, "daemonset", "paused")
    wait_object(clean, "schedext", "paused", has("Ready", "True", "Suspended"))
    apply(clean, make_schedext("paused", sched=A))
    wait_object(clean, "schedext", "paused", has("Ready", "True", "Ready"))


def test_stronger_resource_takes_its_nodes_and_gives_them_back_when_it_goes(clean: Cluster) -> None:
    apply(clean, make_schedext("everywhere", sched=A))
    wait_nodes(clean, "everywhere", {"large-0000", "large-0001", "small-0000"})
    before = fetch_pods(clean, "everywhere")
    apply(clean, make_schedext("special", sched=B, nodeSelector={"pool": "small"}, priority=10))

    wait_nodes(clean, "special", {"small-0000"})
    wait_nodes(clean, "everywhere", {"large-0000", "large-0001"})
    loser = wait_object(clean, "schedext", "everywhere", has("Conflicted", "True", "Yields"))
    wait_object(clean, "schedext", "special", has("Conflicted", "False", "NoOverlap"))
    assert loser["status"]["pools"][0]["excludedBy"] == ["default/special"]
    assert "special" in json.dumps(loser["status"]["conditions"])
    assert fetch_slots(clean) == {"small-0000": "default.special"}
    kept = {node: uid for node, uid in before.items() if node != "small-0000"}
    assert fetch_pods(clean, "everywhere") == kept

    clean.kubectl("delete", "schedext", "special")
    wait_nodes(clean, "everywhere", {"large-0000", "large-0001", "small-0000"})
    wait_object(clean, "schedext", "everywhere", has("Conflicted", "False", "NoOverlap"))
    wait_object(clean, "schedext", "everywhere", has("Ready", "True", "Ready"))
    wait_for("the label to go", lambda: fetch_slots(clean) == {}, SECONDS)
    assert kept.items() <= fetch_pods(clean, "everywhere").items()


def test_equal_resources_in_two_namespaces_do_not_share_nodes(clean: Cluster) -> None:
    clean.kubectl("create", "namespace", "other")
    apply(clean, make_schedext("first", sched=A))
    wait_object(clean, "schedext", "first", has("Ready", "True", "Ready"))
    apply(clean, make_schedext("second", "other", sched=B))
    wait_object(clean, "schedext", "second", has("Ready", "False", "Conflicted"), "other")
    assert read_objects(clean, "pod", "other") == []

    clean.kubectl("delete", "schedext", "first")
    wait_object(clean, "schedext", "second", has("Ready", "True", "Ready"), "other")
    clean.kubectl("delete", "schedext", "second", "-n", "other")


def test_two_that_swap_their_nodes_do_not_wait_for_each_other(clean: Cluster) -> None:
    large, small = {"pool": "large"}, {"pool": "small"}
    apply(clean, make_schedext("one", sched=A, nodeSelector=large), make_schedext("two", sched=B, nodeSelector=small))
    wait_nodes(clean, "one", {"large-0000", "large-0001"})
    wait_nodes(clean, "two", {"small-0000"})
    apply(clean, make_schedext("one", sched=A, nodeSelector=small), make_schedext("two", sched=B, nodeSelector=large))
    wait_nodes(clean, "one", {"small-0000"})
    wait_nodes(clean, "two", {"large-0000", "large-0001"})


def test_daemonset_of_somebody_else_is_left_alone_until_it_is_handed_over(clean: Cluster) -> None:
    labels = {"app": "theirs"}
    pod = {"containers": [{"name": "theirs", "image": "example.com/theirs:1"}], "nodeSelector": {"pool": "none"}}
    apply(
        clean,
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "taken", "namespace": "default"},
            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
        },
        make_schedext("taken", sched=A),
    )
    wait_object(clean, "schedext", "taken", has("Degraded", "True", "ForeignDaemonSet"))
    theirs = fetch(clean, "daemonset", "taken")
    assert theirs
    assert container_of(theirs)["image"] == "example.com/theirs:1"

    (event,) = wait_for("the Event", lambda: fetch_warnings(clean, "taken"), SECONDS)
    assert event["reason"] == "ForeignDaemonSet"

    clean.kubectl("delete", "daemonset", "taken")
    wait_object(clean, "schedext", "taken", has("Ready", "True", "Ready"))


def test_drift_in_what_is_ours_is_put_back_and_what_others_own_is_left(clean: Cluster) -> None:
    apply(clean, make_schedext("drift", sched=A))
    wait_object(clean, "schedext", "drift", has("Ready", "True", "Ready"))
    clean.kubectl("annotate", "daemonset", "drift", "example.com/note=theirs")
    clean.kubectl("set", "image", "daemonset/drift", "scx=example.com/evil:1")
    made = wait_object(clean, "daemonset", "drift", lambda found: container_of(found)["image"] == A)
    assert made["metadata"]["annotations"]["example.com/note"] == "theirs"
