"""The rights of config/rbac, held by the manager's own service account: enough for its whole job, and no more."""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import images, kube, kwok
from lab.cluster import Cluster
from lab.store import Store
from lab.waiting import wait_for
from tests.integration.clusters import read_api, read_object, read_objects
from tests.integration.images.pushing import Pusher
from tests.integration.images.test_logins import BASIC, HTPASSWD, SECRET, USER
from tests.integration.sked_controller.operator import (
    Json,
    Operator,
    apply,
    condition,
    fetch,
    has,
    make_schedext,
    wait_absent,
    wait_object,
)
from tests.integration.sked_controller.reporting import report
from tests.integration.sked_deploy.recording import Right, record_rights
from tests.integration.sked_deploy.tools import ACCOUNT, NAMESPACE, ROOT, write_account_kubeconfig

LEASE = "b4c95cb3.schedkit.io"
IMAGE = "example.com/scx_a:1"
NEWER = "example.com/scx_a:2"
POOL = {"pool": "all"}
SLOT = "sked.schedkit.io/slot"
SCHEDEXTS = "sked.schedkit.io"
READY = has("Ready", "True", "Ready")
# Rights of which the job below may show no request, and why the manager has them all the same.
UNSEEN: dict[Right, str] = {
    ("create", "apps", "daemonsets"): "server-side apply is a patch, and asks for this where there is none yet",
    (
        "update",
        SCHEDEXTS,
        "schedexts/finalizers",
    ): "asked for by an admission plugin: OwnerReferencesPermissionEnforcement",
    (
        "get",
        SCHEDEXTS,
        "schedexts",
    ): "for one that was stored before there was validation: sked_controller/test_unknown",
    ("patch", "events.k8s.io", "events"): "for an Event that comes again and again: sked_kube/test_events",
}


@pytest.fixture
def simulated(deployed: Cluster, store: Store) -> Iterator[Cluster]:
    """The same with two simulated nodes, on which no deployed manager is said to run."""
    deployed.kubectl("scale", "deployment", ACCOUNT, "-n", NAMESPACE, "--replicas=0")
    store.ensure(kube.KWOK)
    controller = kwok.Kwok.start(deployed, store.path(kube.KWOK))
    names = kwok.add_nodes(deployed, 2, labels=POOL)
    yield deployed
    controller.stop()
    deployed.kubectl("delete", "nodes", *names)
    deployed.kubectl("delete", "schedextnodes", "--all")


@pytest.fixture
def rights() -> set[Right]:
    """What the manager has asked for."""
    return set()


@pytest.fixture
def manager(simulated: Cluster, rights: set[Right]) -> Iterator[Operator]:
    """A manager with those rights alone, not yet started."""
    with record_rights(simulated, rights) as address:
        kubeconfig = write_account_kubeconfig(simulated, server=address)
        manager = Operator(simulated, name="sked-account", kubeconfig=kubeconfig)
        yield manager
        print(manager.log()[-6000:])
        manager.stop()
    simulated.kubectl("delete", "schedexts", "--all", "-A")
    simulated.kubectl("label", "namespace", "default", "sked.schedkit.io/any-priority-")


def fetch_events(cluster: Cluster) -> list[Json]:
    return [event for event in read_objects(cluster, "event", "default") if event["regarding"]["kind"] == "SchedExt"]


def fetch_slots(cluster: Cluster) -> dict[str, str]:
    nodes = read_api(cluster, "/api/v1/nodes")["items"]
    return {node["metadata"]["name"]: node["metadata"]["labels"].get(SLOT, "") for node in nodes}


def crash(cluster: Cluster, pod: str) -> None:
    """Have a pod say what a kubelet says of one that crashes; there is none on these nodes."""
    ended = {
        "exitCode": 1,
        "reason": "Error",
        "startedAt": "2026-01-01T00:00:00Z",
        "finishedAt": "2026-01-01T00:00:01Z",
    }
    status = {
        "name": "scx",
        "image": IMAGE,
        "imageID": "",
        "ready": False,
        "restartCount": 3,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
        "lastState": {"terminated": ended},
    }
    patch = json.dumps({"status": {"containerStatuses": [status]}})
    cluster.kubectl("patch", "pod", pod, "--subresource=status", "--type=merge", "-p", patch)


def granted(cluster: Cluster) -> set[Right]:
    """What the manager's roles for its job allow, verb by verb."""
    roles = [
        read_api(cluster, "/apis/rbac.authorization.k8s.io/v1/clusterroles/sked-manager-role"),
        read_api(cluster, f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles/sked-leader-election-role"),
    ]
    return {
        (verb, group, resource)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_rights_are_what_the_whole_job_needs_and_no_more(
    deployed: Cluster, manager: Operator, rights: set[Right]
) -> None:
    manager.start("--leader-elect")
    apply(deployed, make_schedext("fleet", sched=IMAGE, pools=[{"name": "all", "nodeSelector": POOL}]))
    ready = wait_object(deployed, "schedext", "fleet", READY)
    assert ready["status"]["nodes"]["ready"] == 2
    holder = wait_object(deployed, "lease", LEASE, lambda found: bool(found["spec"]["holderIdentity"]), NAMESPACE)
    assert holder["spec"]["leaseDurationSeconds"] == 15
    assert wait_for("an Event", lambda: fetch_events(deployed), 20)

    apply(deployed, make_schedext("fleet", sched=IMAGE))
    wait_object(deployed, "daemonset", "fleet", lambda _: True)
    wait_absent(deployed, "daemonset", "fleet-all")
    wait_object(deployed, "schedext", "fleet", READY)

    # A node that reports is told who has it.
    report(deployed, ["kwok-0000"])
    wait_object(deployed, "schedextnode", "kwok-0000", lambda found: found["status"].get("schedExt") == "default/fleet")

    # The simulated node has no kernel that could attach anything: without its report that is unknown again.
    deployed.kubectl("delete", "schedextnode", "kwok-0000")

    # A node that two select, and an update where sked itself replaces the pods.
    deployed.kubectl("label", "namespace", "default", "sked.schedkit.io/any-priority=true")
    special = make_schedext("special", sched=IMAGE, priority=1, nodeSelector={"kubernetes.io/hostname": "kwok-0000"})
    apply(deployed, special)
    wait_object(deployed, "schedext", "special", READY)
    assert fetch_slots(deployed) == {"kwok-0000": "default.special", "kwok-0001": ""}
    yielding = wait_object(deployed, "schedext", "fleet", has("Conflicted", "True", "Yields"))
    (said,) = (found["message"] for found in yielding["status"]["conditions"] if found["type"] == "Conflicted")
    assert f"\n{said}\n" in (ROOT / "docs/sked/usage.md").read_text()
    apply(deployed, make_schedext("fleet", sched=NEWER))

    def runs_newer() -> bool:
        pods = read_objects(deployed, "pod", "default", "name=fleet")
        return [pod["spec"]["containers"][0]["image"] for pod in pods] == [NEWER]

    wait_for("the pod of the older spec to be replaced", runs_newer, 60)
    wait_object(deployed, "schedext", "fleet", READY)
    (pod,) = read_objects(deployed, "pod", "default", "name=special")
    crash(deployed, pod["metadata"]["name"])
    wait_object(deployed, "schedext", "special", has("Degraded", "True", "CrashLooping"))
    wait_for("its log to be asked for", lambda: ("get", "", "pods/log") in rights, 30)

    deployed.kubectl("delete", "schedext", "special")
    wait_for("the label to go", lambda: fetch_slots(deployed) == {"kwok-0000": "", "kwok-0001": ""}, 60)
    apply(deployed, make_schedext("fleet", sched=NEWER, suspend=True))
    wait_object(deployed, "schedext", "fleet", has("Ready", "True", "Suspended"))
    wait_absent(deployed, "daemonset", "fleet")

    # A rollout has the image brought to a node before the scheduler before it leaves.
    one_node = {"kubernetes.io/hostname": "kwok-0000"}
    for sched in (IMAGE, NEWER):
        apply(deployed, make_schedext("rolled", sched=sched, nodeSelector=one_node, rollout={}))
        wait_for("its pod", lambda: read_objects(deployed, "pod", "default", "managed-by=sked-controller"), 60)
    wait_for("a pod to be made", lambda: ("create", "", "pods") in rights, 60)
    deployed.kubectl("delete", "schedext", "rolled")
    wait_for("the label to go", lambda: fetch_slots(deployed) == {"kwok-0000": "", "kwok-0001": ""}, 60)
    manager.stop()
    released = fetch(deployed, "lease", LEASE, NAMESPACE)
    assert released
    assert not released["spec"].get("holderIdentity")
    assert not re.search("forbidden", manager.log(), re.IGNORECASE)
    # What is watched is listed first, where the server does not send what there is at the start of a watch.
    listed = {("list", group, resource) for verb, group, resource in rights if verb == "watch"}
    assert rights | listed | UNSEEN.keys() == granted(deployed)


def test_without_the_right_to_label_nodes_they_stay_and_it_is_told(deployed: Cluster, manager: Operator) -> None:
    role = read_api(deployed, "/apis/rbac.authorization.k8s.io/v1/clusterroles/sked-manager-role")
    index = next(
        place
        for place, rule in enumerate(role["rules"])
        if (rule["resources"], rule["verbs"]) == (["nodes"], ["patch"])
    )
    patch = json.dumps([{"op": "remove", "path": f"/rules/{index}"}])
    deployed.kubectl("patch", "clusterrole", "sked-manager-role", "--type=json", "-p", patch)
    try:
        manager.start("--leader-elect")
        apply(deployed, make_schedext("everywhere", sched=IMAGE))
        wait_object(deployed, "schedext", "everywhere", READY)
        before = {pod["metadata"]["uid"] for pod in read_objects(deployed, "pod", "default")}
        apply(deployed, make_schedext("special", sched=IMAGE, nodeSelector={"kubernetes.io/hostname": "kwok-0000"}))
        told = wait_object(deployed, "schedext", "special", has("Conflicted", "True", "Undecided"))
        assert condition(told, "Ready") == ("False", "NodesNotWritable")
        assert {pod["metadata"]["uid"] for pod in read_objects(deployed, "pod", "default")} == before
        assert fetch_slots(deployed) == {"kwok-0000": "", "kwok-0001": ""}
    finally:
        restore = [{"op": "add", "path": f"/rules/{index}", "value": role["rules"][index]}]
        deployed.kubectl("patch", "clusterrole", "sked-manager-role", "--type=json", "-p", json.dumps(restore))


def test_priority_counts_up_to_the_ceiling(deployed: Cluster, manager: Operator) -> None:
    manager.start("--leader-elect", "--priority-ceiling=5")
    apply(deployed, make_schedext("everywhere", sched=IMAGE, priority=4))
    wait_object(deployed, "schedext", "everywhere", READY)
    first = {"kubernetes.io/hostname": "kwok-0000"}
    apply(deployed, make_schedext("special", sched=IMAGE, priority=9, nodeSelector=first))
    special = wait_object(deployed, "schedext", "special", READY)
    assert special["status"]["priority"] == 5
    apply(deployed, make_schedext("everywhere", sched=IMAGE, priority=7))  # older, and so the first of equals
    wait_object(deployed, "schedext", "special", has("Conflicted", "True", "Yields"))


def test_rights_to_the_lease_are_for_that_lease(deployed: Cluster) -> None:
    account = f"--as=system:serviceaccount:{NAMESPACE}:{ACCOUNT}"

    def ask(verb: str, name: str = "") -> str:
        lease = f"leases/{name}" if name else "leases"
        return deployed.kubectl("auth", "can-i", verb, lease, "-n", NAMESPACE, account, check=False).stdout.strip()

    assert [ask("get", LEASE), ask("patch", LEASE), ask("create")] == ["yes", "yes", "yes"]
    assert [ask("get", "other"), ask("patch", "other"), ask("delete", LEASE), ask("list")] == ["no", "no", "no", "no"]


def test_rights_of_others_are_not_among_them(deployed: Cluster) -> None:
    account = f"--as=system:serviceaccount:{NAMESPACE}:{ACCOUNT}"

    def ask(verb: str, resource: str) -> str:
        kind, _, part = resource.partition("/")
        options = [f"--subresource={part}"] if part else []
        return deployed.kubectl("auth", "can-i", verb, kind, "-A", account, *options, check=False).stdout.strip()

    assert ask("get", "pods/log") == "yes"
    for verb, resource in (
        ("create", "pods/exec"),
        ("get", "pods/exec"),
        ("get", "pods/proxy"),
        ("get", "nodes/proxy"),
        ("get", "nodes/log"),
        ("get", "secrets"),
        ("patch", "pods"),
        ("get", "nodes"),
        ("delete", "nodes"),
        ("update", "nodes"),
        ("patch", "nodes/status"),
        ("get", "namespaces"),
        ("list", "controllerrevisions"),
        ("update", "schedexts/status"),
        ("create", "schedexts"),
        ("delete", "schedexts"),
        ("patch", "schedexts"),
        ("create", "clusterroles"),
    ):
        assert ask(verb, resource) == "no", f"{verb} {resource}"


def test_verification_takes_one_config_map_and_pull_secrets_where_a_role_of_their_namespace_allows(
    deployed: Cluster, manager: Operator, rights: set[Right], store: Store, tmp_path: Path
) -> None:
    verdicts = ROOT / "config/verification"
    files = ("verdicts.yaml", "verdicts_role.yaml", "verdicts_role_binding.yaml")
    deployed.kubectl("apply", *(word for name in files for word in ("-f", str(verdicts / name))))
    with images.Registry(store, tmp_path / "registry") as registry:
        digest = Pusher(registry.address, "private").image("amd64", tag="v1")["digest"]
    with images.Registry(store, tmp_path / "registry", settings=BASIC, files={"htpasswd": HTPASSWD}) as registry:
        policy = tmp_path / "policy.yaml"
        policy.write_text(json.dumps({"allowUnsigned": [f"{registry.address}/**"]}))
        auth = base64.b64encode(f"{USER}:{SECRET}".encode()).decode()
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "login", "namespace": "default"},
            "type": "kubernetes.io/dockerconfigjson",
            "stringData": {".dockerconfigjson": json.dumps({"auths": {registry.address: {"auth": auth}}})},
        }
        reference = f"{registry.address}/private:v1"
        apply(deployed, secret, make_schedext("private", sched=reference, imagePullSecrets=[{"name": "login"}]))
        manager.start("--verification=enforce", f"--trust-policy={policy}")
        denied = wait_object(deployed, "schedext", "private", has("Verified", "Unknown", "NoPermission"))
        (told,) = [one["message"] for one in denied["status"]["conditions"] if one["type"] == "Verified"]
        assert "sked cannot read the pull secret default/login (Forbidden)" in told
        assert fetch(deployed, "daemonset", "private") is None

        named = ("--verb=get", "--resource=secrets", "--resource-name=login")
        deployed.kubectl("create", "role", "sked-pull-secret", "-n", "default", *named)
        account = f"--serviceaccount={NAMESPACE}:{ACCOUNT}"
        deployed.kubectl(
            "create", "rolebinding", "sked-pull-secret", "-n", "default", "--role=sked-pull-secret", account
        )
        deployed.kubectl("annotate", "schedext", "private", "sked.schedkit.io/refresh=1")
        wait_object(deployed, "schedext", "private", has("Verified", "True", "Verified"))

        def is_kept() -> bool:
            found = read_object(deployed, "configmap", "sked-verdicts", NAMESPACE) or {}
            return f"{registry.address}/private@{digest}" in found.get("data", {}).get("verdicts.json", "")

        wait_for("the verdict to be kept", is_kept, 30)
    used = {right for right in rights if right[2] in ("configmaps", "secrets")}
    assert used == {("get", "", "configmaps"), ("patch", "", "configmaps"), ("get", "", "secrets")}
    deployed.kubectl("delete", "role,rolebinding", "sked-pull-secret", "-n", "default")
