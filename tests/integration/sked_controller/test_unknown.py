"""What cannot be known is said: logs without a kubelet, what may not be looked at, what is not understood."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial

import pytest

from lab.addresses import choose_free_ports
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
    fetch_warnings,
    has,
    make_schedext,
    wait_object,
)
from tests.integration.sked_controller.test_robustness import without_validation

A, B = "example.com/a:1", "example.com/b:1"
LARGE, SMALL = {"pool": "large"}, {"pool": "small"}
LOOK = ["get", "list", "watch"]
LOOK_SECONDS = 2.0  # an operator that writes because of what it wrote does so at once
READY = has("Ready", "True", "Ready")
USER = "half-blind"
RULES: dict[str, Json] = {
    "resources": {"apiGroups": ["sked.schedkit.io"], "resources": ["schedexts"], "verbs": LOOK},
    "status": {"apiGroups": ["sked.schedkit.io"], "resources": ["schedexts/status"], "verbs": ["patch"]},
    "reports": {"apiGroups": ["sked.schedkit.io"], "resources": ["schedextnodes"], "verbs": LOOK},
    "holders": {"apiGroups": ["sked.schedkit.io"], "resources": ["schedextnodes/status"], "verbs": ["patch"]},
    "finalizers": {"apiGroups": ["sked.schedkit.io"], "resources": ["schedexts/finalizers"], "verbs": ["update"]},
    "daemonsets": {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": [*LOOK, "create", "patch", "delete"]},
    "pods": {"apiGroups": [""], "resources": ["pods"], "verbs": LOOK},
    "nodes": {"apiGroups": [""], "resources": ["nodes"], "verbs": LOOK},
    "events": {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    "leases": {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get", "patch"]},
}


def grant(cluster: Cluster, *, without: str = "") -> None:
    """Give the user all rights of the operator but one, and but the one to read logs."""
    rbac = "rbac.authorization.k8s.io"
    rules = [rule for name, rule in RULES.items() if name != without]
    role = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": USER}, "rules": rules}
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": USER},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": USER},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": USER}],
    }
    apply(cluster, role, binding)


@pytest.fixture
def limited(clean: Cluster, operator: Operator) -> Iterator[Operator]:
    """An operator of that user in the place of the usual one, not yet started."""
    operator.stop()
    kubeconfig = clean.folder / f"{USER}.kubeconfig"
    kubeconfig.write_text(clean.make_kubeconfig(USER))
    limited = Operator(clean, name=USER, kubeconfig=kubeconfig)
    yield limited
    print(limited.log()[-8000:])
    limited.stop()


def crash(cluster: Cluster, name: str, restarts: int) -> list[str]:
    """Have the pods of a DaemonSet say what a kubelet says of one that crashes; there is none on these nodes."""
    pods = read_objects(cluster, "pod", "default", f"name={name}")
    state: Json = {
        "name": "scx",
        "image": A,
        "imageID": "",
        "ready": False,
        "restartCount": restarts,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "containerID": "containerd://1"}},
    }
    patch = json.dumps({"status": {"containerStatuses": [state]}})
    names = [pod["metadata"]["name"] for pod in pods]
    for pod in names:
        cluster.kubectl("patch", "pod", pod, "--subresource=status", "--type=merge", "-p", patch)
    return names


def messages(resource: Json) -> list[str]:
    return [failure["message"] for failure in resource.get("status", {}).get("failures", [])]


def assert_settled(cluster: Cluster, name: str) -> None:
    """Nothing is written to a resource while nothing happens."""
    before = fetch(cluster, "schedext", name)
    time.sleep(LOOK_SECONDS)
    assert fetch(cluster, "schedext", name) == before


def read_readiness(port: int) -> str:
    """What `/readyz` complains of."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz"):
            return ""
    except urllib.error.HTTPError as error:
        return error.read().decode()
    except OSError as error:
        return str(error)


def told(resource: Json, kind: str) -> str:
    found: str = next(found for found in resource["status"]["conditions"] if found["type"] == kind)["message"]
    return found


def fetch_made(cluster: Cluster, name: str) -> tuple[str, int, Json]:
    """Which DaemonSet has a name now, and all of it that somebody wrote."""
    found = fetch(cluster, "daemonset", name)
    assert found
    return found["metadata"]["uid"], found["metadata"]["generation"], found["spec"]


def test_log_of_a_node_that_does_not_answer_is_said_to_be_unread(clean: Cluster, operator: Operator) -> None:
    apply(clean, make_schedext("crashing", sched=A, nodeSelector=LARGE))
    wait_object(clean, "schedext", "crashing", READY)
    pods = crash(clean, "crashing", 3)
    expected = "the scheduler ended with status 1; its log could not be read: NoAnswer"
    failing = wait_object(clean, "schedext", "crashing", lambda found: messages(found) == [expected] * 2)
    assert sorted(failure["pod"] for failure in failing["status"]["failures"]) == sorted(pods)
    assert condition(failing, "Degraded") == ("True", "CrashLooping")

    apply(clean, make_schedext("healthy", sched=B, nodeSelector=SMALL))  # nobody is held up
    wait_object(clean, "schedext", "healthy", READY)
    operator.stop()
    operator.start("--leader-elect")
    wait_for("the operator to lead", lambda: "leading" in operator.log(), SECONDS)
    assert_settled(clean, "crashing")


def test_right_to_look_that_is_missing_is_a_condition_until_it_is_granted(
    clean: Cluster, operator: Operator, limited: Operator
) -> None:
    operator.start("--leader-elect")
    apply(clean, make_schedext("running", sched=A, nodeSelector=LARGE))
    wait_object(clean, "schedext", "running", READY)
    before = fetch_made(clean, "running")
    operator.stop()

    grant(clean, without="daemonsets")
    (port,) = choose_free_ports(1)
    limited.start("--leader-elect", f"--health-probe-bind-address=127.0.0.1:{port}")
    apply(clean, make_schedext("asked", sched=B, nodeSelector=SMALL))
    refusal = f'User "{USER}" cannot watch resource "daemonsets"'
    for name in ("running", "asked"):
        blind = wait_object(clean, "schedext", name, has("Degraded", "True", "Forbidden"))
        assert condition(blind, "Ready") == ("Unknown", "Forbidden")
        assert refusal in told(blind, "Degraded")
        assert "nodes" not in blind["status"]
    assert refusal in read_readiness(port)
    said = limited.log().count("cannot watch")
    assert_settled(clean, "asked")
    assert limited.log().count("cannot watch") == said
    assert len(fetch_warnings(clean, "asked")) == 1
    assert fetch_made(clean, "running") == before
    assert fetch(clean, "daemonset", "asked") is None
    process = limited.daemon.pid()

    grant(clean)
    for name in ("running", "asked"):
        wait_object(clean, "schedext", name, READY)
    wait_for("readiness", lambda: read_readiness(port) == "", SECONDS)
    assert limited.daemon.pid() == process


def test_log_that_may_not_be_read_is_said_to_be_unread(clean: Cluster, limited: Operator) -> None:
    grant(clean)
    limited.start()
    apply(clean, make_schedext("private", sched=A, nodeSelector=SMALL))
    wait_object(clean, "schedext", "private", READY)
    crash(clean, "private", 3)
    expected = "the scheduler ended with status 1; its log could not be read: Forbidden"
    wait_object(clean, "schedext", "private", lambda found: messages(found) == [expected])


def change_by_hand(cluster: Cluster, name: str, change: Json, *options: str) -> None:
    cluster.kubectl("patch", "schedext", name, "--type=merge", "-p", json.dumps(change), *options)


def test_resource_that_is_not_understood_says_so_and_keeps_its_daemonset(clean: Cluster, operator: Operator) -> None:
    apply(clean, make_schedext("older", sched=A, nodeSelector=LARGE))
    wait_object(clean, "schedext", "older", READY)
    before = fetch_made(clean, "older")
    with without_validation(clean):
        change_by_hand(clean, "older", {"spec": {"sched": B, "priority": "high"}})
        apply(clean, make_schedext("odd", sched=A, nodeSelector={"odd": "0"}, args="-v"))
    for name, where in (("older", "priority"), ("odd", "args")):
        odd = wait_object(clean, "schedext", name, has("Degraded", "True", "Unreadable"))
        assert condition(odd, "Ready") == ("False", "Unreadable")
        assert f"at `{where}`" in told(odd, "Degraded")
        assert odd["status"]["summary"] == "Unreadable"
        wait_for("the Event", partial(fetch_warnings, clean, name), SECONDS)
    said = [f"object left out kind=SchedExt object=default/{name} " for name in ("older", "odd")]
    assert [operator.log().count(line) for line in said] == [1, 1], "not again when the status is written"
    operator.stop()  # one that has never seen the older form knows no better
    operator.start("--leader-elect")
    wait_for("the operator to lead", lambda: "leading" in operator.log(), SECONDS)
    assert_settled(clean, "older")
    assert [operator.log().count(line) for line in said] == [1, 1]
    assert len(fetch_warnings(clean, "older")) == 1
    assert fetch_made(clean, "older") == before
    assert fetch(clean, "daemonset", "odd") is None

    # Which nodes it asks for is not known either; where its pods are nobody else goes.
    apply(clean, make_schedext("rival", sched=A, nodeSelector=LARGE))
    wait_object(clean, "schedext", "rival", has("Progressing", "True", "WaitingForNodes"))
    assert fetch(clean, "daemonset", "rival") is None

    change_by_hand(clean, "older", {"spec": {"priority": 5}})
    mended = wait_object(clean, "schedext", "older", READY)
    assert mended["status"]["image"] == B
    wait_object(clean, "schedext", "rival", has("Ready", "False", "Conflicted"))


def test_status_that_is_not_understood_is_made_anew(clean: Cluster) -> None:
    apply(clean, make_schedext("scribbled", sched=A, nodeSelector=LARGE))
    good = wait_object(clean, "schedext", "scribbled", READY)["status"]
    pods = clean.kubectl("get", "pods", "-l", "name=scribbled", "-o", "name").stdout
    with without_validation(clean):
        for scribble in ({"nodes": "three"}, {"conditions": "fine"}, {"failures": [{"node": 3}], "extra": {"a": 1}}):
            change_by_hand(clean, "scribbled", {"status": scribble}, "--subresource=status")

            def is_mended(found: Json) -> bool:
                times = {"lastTransitionTime"}
                conditions = [
                    {name: value for name, value in condition.items() if name not in times}
                    for condition in found["status"]["conditions"]
                ]
                expected = [
                    {name: value for name, value in condition.items() if name not in times}
                    for condition in good["conditions"]
                ]
                return found["status"] | {"conditions": 0} == good | {"conditions": 0} and conditions == expected

            def probe() -> bool:
                found = fetch(clean, "schedext", "scribbled")
                assert found
                if not isinstance(found["status"].get("conditions"), list) or not is_mended(found):
                    raise NotYetError(json.dumps(found["status"]))
                return True

            wait_for("the status to be mended", probe, SECONDS)
    assert clean.kubectl("get", "pods", "-l", "name=scribbled", "-o", "name").stdout == pods
