"""Whose a DaemonSet is, what nobody can place, what is not watched, and what would be made without a cluster."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lab.cluster import Cluster
from lab.waiting import wait_for
from tests.integration.clusters import read_objects
from tests.integration.sked_controller.operator import (
    PROGRAM,
    SECONDS,
    Json,
    Operator,
    apply,
    condition,
    fetch,
    has,
    make_schedext,
    wait_object,
)

A, B = "example.com/a:1", "example.com/b:1"
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


def render(file: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", PROGRAM, "render", str(file)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_what_is_rendered_offline_is_what_is_made(clean: Cluster, tmp_path: Path) -> None:
    pools = [
        {"name": "large", "nodeSelector": {"pool": "large"}, "args": ["-v"]},
        {"name": "small", "nodeSelector": {"pool": "small"}, "sched": B, "resources": {"limits": {"cpu": "1"}}},
    ]
    resources = [
        make_schedext("first", sched=A, nodeSelector={"pool": "medium"}, priority=7),
        make_schedext("second", sched=A, pools=pools, imagePullSecrets=[{"name": "registry"}]),
    ]
    file = tmp_path / "resources.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": resources}))
    rendered = render(file)
    assert rendered.returncode == 0, rendered.stderr
    clean.kubectl("create", "namespace", "rendered")
    moved = rendered.stdout.replace("namespace: default", "namespace: rendered").replace("uid: ''", "uid: unknown")
    clean.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", input=moved)

    apply(clean, *resources)
    wait_object(clean, "schedext", "second", READY)
    # What the API server makes of the rendered ones has its defaults too, so the two can be compared.
    shown = clean.kubectl("apply", "--dry-run=server", "-o", "json", "-f", "-", input=moved).stdout
    planned = {found["metadata"]["name"]: found["spec"] for found in json.loads(shown)["items"]}
    assert set(planned) == {"first", "second-large", "second-small"}

    def is_made() -> bool:
        listed = read_objects(clean, "daemonset", "default")
        return {found["metadata"]["name"]: found["spec"] for found in listed} == planned

    wait_for("the DaemonSets that were rendered", is_made, SECONDS)


def test_what_cannot_be_rendered_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(json.dumps(make_schedext("bad", sched="not an image")))
    refused = render(file)
    assert refused.returncode == 65
    assert refused.stdout == ""
    assert refused.stderr.startswith("error: ")
    assert "Traceback" not in refused.stderr
    assert render(tmp_path / "absent.yaml").returncode == 66
