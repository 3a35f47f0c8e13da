"""The operator through kills, restarts, lost history, rivals for its lease, missing rights and odd resources."""

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from lab import kwok
from lab.addresses import choose_free_ports
from lab.cluster import Cluster
from lab.components import API_SERVER
from lab.waiting import NotYetError, wait_for
from tests.integration.clusters import read_objects
from tests.integration.sked_controller.metrics import (
    WRITES,
    count_requests,
    serve_metrics,
    wait_serving,
)
from tests.integration.sked_controller.operator import (
    LEASE,
    SECONDS,
    Json,
    Operator,
    apply,
    condition,
    fetch,
    fetch_pods,
    has,
    make_schedext,
    steal_lease,
    wait_absent,
    wait_object,
)
from tests.integration.sked_controller.recording import recorded

A, B = "example.com/a:1", "example.com/b:1"
ROUNDS, RESOURCES, SLOTS = 6, 30, 5
READY = has("Ready", "True", "Ready")


@pytest.fixture
def alone(clean: Cluster, operator: Operator) -> Iterator[Operator]:
    """The operator without a lease, which a killed one would hold for a while."""
    operator.stop()
    operator.start()
    yield operator
    operator.stop()


def wait_leader(cluster: Cluster, satisfies: Callable[[str], bool]) -> Json:
    return wait_object(cluster, "lease", LEASE, lambda lease: satisfies(lease["spec"].get("holderIdentity") or ""))


def wait_exactly(cluster: Cluster, expected: dict[str, str]) -> None:
    """Wait until there are these DaemonSets (name → image) and no other, each owned by the resource there is now."""

    def probe() -> bool:
        owners = {found["metadata"]["name"]: found["metadata"]["uid"] for found in read_objects(cluster, "schedext")}
        wanted = {name: (image, owners.get(name)) for name, image in expected.items()}
        seen = {
            found["metadata"]["name"]: (
                found["spec"]["template"]["spec"]["containers"][0]["image"],
                found["metadata"]["ownerReferences"][0]["uid"],
            )
            for found in read_objects(cluster, "daemonset")
        }
        if seen != wanted:
            odd = {name for name in seen | wanted if seen.get(name) != wanted.get(name)}
            raise NotYetError(str({name: (seen.get(name), wanted.get(name)) for name in odd})[:3000])
        return True

    wait_for("the DaemonSets", probe, 2 * SECONDS)


def test_killed_in_a_loop_under_churn_it_leaves_nothing_missing_doubled_or_stale(
    clean: Cluster, alone: Operator
) -> None:
    for slot in range(SLOTS):
        kwok.add_nodes(clean, 1, labels={"slot": str(slot)}, prefix=f"slot{slot}")
    chance = random.Random(4)  # noqa: S311
    steady = [f"r{number:02d}" for number in range(SLOTS)]  # on the nodes, and never touched
    images: dict[str, str] = {}

    def make(name: str, image: str) -> Json:
        images[name] = image
        return make_schedext(name, sched=image, nodeSelector={"slot": str(int(name[1:]))})

    names = [f"r{number:02d}" for number in range(RESOURCES)]
    apply(clean, *(make(name, A) for name in names))
    for name in steady:
        wait_object(clean, "schedext", name, READY)
    before = {name: fetch_pods(clean, name) for name in steady}
    assert all(len(pods) == 1 for pods in before.values())

    for turn in range(ROUNDS):
        changing = chance.sample(names[SLOTS:], 15)
        removed, changed = changing[:5], changing[5:]
        gone = [name for name in removed if images.pop(name, None)]
        if gone:
            clean.kubectl("delete", "schedexts", *gone, "--wait=false")
        apply(clean, *(make(name, f"example.com/a:{turn + 2}") for name in changed))
        # In the midst of its work, at another point each time.
        enough = chance.randrange(len(changed))

        def has_begun(turn: int = turn, enough: int = enough) -> bool:
            return f"{read_objects(clean, 'daemonset')}".count(f"'example.com/a:{turn + 2}'") >= enough

        wait_for(f"{enough} DaemonSets of turn {turn}", has_begun, SECONDS)
        alone.kill()
        alone.start()

    wait_exactly(clean, images)
    for name in images:
        wait_object(clean, "schedext", name, has("Progressing", "False", "Settled"))
    assert {name: fetch_pods(clean, name) for name in steady} == before
    clean.kubectl("delete", "nodes", *(f"slot{slot}-0000" for slot in range(SLOTS)))


def test_api_server_restart_is_survived_by_the_same_process(clean: Cluster, alone: Operator) -> None:
    apply(clean, make_schedext("kept", sched=A, nodeSelector={"pool": "large"}))
    wait_object(clean, "schedext", "kept", READY)
    pods, process = fetch_pods(clean, "kept"), alone.daemon.pid()

    clean.stop_component(API_SERVER)
    clean.start_component(API_SERVER)

    apply(clean, make_schedext("later", sched=B, nodeSelector={"pool": "small"}))
    wait_object(clean, "schedext", "later", READY)
    assert fetch_pods(clean, "kept") == pods
    assert alone.daemon.pid() == process


def test_stolen_lease_ends_the_operator_and_is_taken_when_it_runs_out(clean: Cluster, operator: Operator) -> None:
    wait_leader(clean, bool)
    steal_lease(clean)
    wait_for("the operator's end", lambda: not operator.daemon.alive(), SECONDS)
    assert "thief leads now" in operator.log()

    apply(clean, make_schedext("waiting", sched=A))
    operator.daemon.stop()
    operator.start("--leader-elect")
    wait_for("the operator to stand by", lambda: "thief leads" in operator.log(), SECONDS)
    assert fetch(clean, "daemonset", "waiting") is None
    wait_leader(clean, lambda holder: holder not in ("", "thief"))
    wait_object(clean, "schedext", "waiting", READY)


def test_of_two_managers_one_writes_and_the_other_takes_over_when_it_is_killed(
    clean: Cluster, operator: Operator
) -> None:
    ports = choose_free_ports(2)
    operator.stop()
    operator.start("--leader-elect", *serve_metrics(ports[0]))
    first = wait_leader(clean, bool)["spec"]
    assert first["leaseDurationSeconds"] == 15
    second = Operator(clean, name="sked-second")
    second.start("--leader-elect", *serve_metrics(ports[1]))
    try:
        wait_serving(ports[1])
        wait_for("the second to stand by", lambda: f"{first['holderIdentity']} leads" in second.log(), SECONDS)
        apply(clean, *(make_schedext(f"m{n}", sched=A, nodeSelector={"slot": str(n)}) for n in range(10)))
        wait_exactly(clean, {f"m{n}": A for n in range(10)})
        assert count_requests(ports[0], "20", "PATCH") >= 10
        assert count_requests(ports[1], "", *WRITES) == 0

        operator.kill()
        short = json.dumps({"spec": {"leaseDurationSeconds": 3}})  # of the usual 15, to be waited for
        clean.kubectl("patch", "lease", LEASE, "--type=merge", "-p", short)
        apply(clean, *(make_schedext(f"m{n}", sched=B, nodeSelector={"slot": str(n)}) for n in range(10)))
        wait_exactly(clean, {f"m{n}": B for n in range(10)})
        now = wait_leader(clean, bool)["spec"]
        assert now["holderIdentity"] != first["holderIdentity"]
        assert now["leaseTransitions"] == first["leaseTransitions"] + 1
    finally:
        second.stop()


def grant(cluster: Cluster, user: str, daemonsets: list[str]) -> None:
    """Give a user what the operator needs, and of DaemonSets these verbs."""
    look = ["get", "list", "watch"]
    rules = [
        {"apiGroups": ["sked.schedkit.io"], "resources": ["schedexts", "schedexts/status"], "verbs": [*look, "patch"]},
        {"apiGroups": [""], "resources": ["pods", "nodes", "events", "namespaces"], "verbs": look},
        {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": [*look, *daemonsets]},
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
        # To set an owner reference that blocks deletion takes the right to set finalizers.
        {"apiGroups": ["sked.schedkit.io"], "resources": ["schedexts/finalizers"], "verbs": ["update"]},
    ]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": user}}
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": user}}
    to = {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    apply(cluster, role | {"rules": rules}, binding | to)


def test_missing_rights_are_a_condition_and_a_log_line_not_a_loop(clean: Cluster, operator: Operator) -> None:
    operator.stop()
    grant(clean, "limited", [])
    kubeconfig = clean.folder / "limited.kubeconfig"
    kubeconfig.write_text(clean.make_kubeconfig("limited"))
    (port,) = choose_free_ports(1)
    limited = Operator(clean, name="sked-limited", kubeconfig=kubeconfig)
    limited.start(*serve_metrics(port))
    try:
        for name, pool in (("first", "large"), ("second", "small")):
            apply(clean, make_schedext(name, sched=A, nodeSelector={"pool": pool}))
            refused = wait_object(clean, "schedext", name, has("Degraded", "True", "Forbidden"))
            assert condition(refused, "Ready") == ("False", "Forbidden")
            told = next(found for found in refused["status"]["conditions"] if found["type"] == "Degraded")["message"]
            assert 'User "limited" cannot patch resource "daemonsets"' in told
        assert "cannot write" in limited.log()
        # Each of the two is tried when it comes and when its status has been written, and then left for a while.
        assert count_requests(port, "403", "PATCH") <= 8

        grant(clean, "limited", ["create", "patch"])
        clean.kubectl("label", "schedext", "first", "second", "try=again")
        wait_object(clean, "schedext", "first", READY)
        wait_object(clean, "schedext", "second", READY)

        apply(clean, make_schedext("first", sched=A, nodeSelector={"pool": "large"}, suspend=True))
        wait_object(clean, "schedext", "first", has("Degraded", "True", "Forbidden"))
        grant(clean, "limited", ["create", "patch", "delete"])
        clean.kubectl("label", "schedext", "first", "try=once-more", "--overwrite")
        wait_object(clean, "schedext", "first", has("Ready", "True", "Suspended"))
    finally:
        limited.stop()


@contextmanager
def without_validation(cluster: Cluster) -> Iterator[None]:
    """As if the resources of the block were stored before there was validation."""
    definition = fetch(cluster, "crd", "schedexts.sked.schedkit.io")
    assert definition
    for part in ("resourceVersion", "uid", "creationTimestamp", "generation", "managedFields"):
        definition["metadata"].pop(part, None)
    definition.pop("status")
    lax = json.loads(json.dumps(definition))
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    lax["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = anything
    probe = json.dumps(make_schedext("probe", sched=" "))

    def accepts() -> bool:
        return cluster.kubectl("create", "--dry-run=server", "-f", "-", input=probe, check=False).code == 0

    cluster.kubectl("replace", "-f", "-", input=json.dumps(lax))
    wait_for("validation to end", accepts, SECONDS)
    try:
        yield
    finally:
        cluster.kubectl("replace", "-f", "-", input=json.dumps(definition))
        wait_for("validation to begin", lambda: not accepts(), SECONDS)


def require(key: str, operator: str, *values: str) -> Json:
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def test_odd_resources_say_so_and_do_not_stop_the_others(clean: Cluster) -> None:
    with without_validation(clean):
        apply(
            clean,
            make_schedext("odd-type", sched=A, priority="high", nodeSelector={"odd": "0"}),
            make_schedext("odd-selector", sched=A, affinity=require("odd", "Sometimes", "1")),
            make_schedext("odd-label", sched=A, nodeSelector={"odd": "not a label value!"}),
            make_schedext("odd-amount", sched=A, nodeSelector={"odd": "2"}, resources={"limits": {"cpu": "much"}}),
            make_schedext("odd-image", nodeSelector={"odd": "3"}),
            make_schedext("odd.name", sched=A, nodeSelector={"odd": "4"}, pools=[]),
        )
    apply(clean, make_schedext("normal", sched=A, nodeSelector={"pool": "large"}))
    wait_object(clean, "schedext", "normal", READY)
    for name, reason in (
        ("odd-type", "Unreadable"),
        ("odd-selector", "InvalidSelector"),
        ("odd-label", "Invalid"),
        ("odd-amount", "ApiServerRefused"),
        ("odd-image", "Invalid"),
    ):
        wait_object(clean, "schedext", name, has("Degraded", "True", reason))
    assert fetch(clean, "daemonset", "odd-type") is None
    # A name that is no longer accepted still makes a DaemonSet that can be.
    wait_object(clean, "schedext", "odd.name", has("Ready", "True", "NoNodes"))
    made = fetch(clean, "daemonset", "odd.name")
    assert made
    assert made["spec"]["selector"]["matchLabels"] == {"name": "odd.name"}


@pytest.mark.parametrize("end", ["delete", "suspend", "move"])
def test_nodes_change_hands_without_two_schedulers_on_one(clean: Cluster, end: str) -> None:
    small = {"pool": "small"}
    apply(clean, make_schedext("special", sched=B, nodeSelector=small, priority=10))
    wait_object(clean, "schedext", "special", READY)
    with recorded(clean) as shared:
        apply(clean, make_schedext("everywhere", sched=A))
        wait_object(clean, "schedext", "everywhere", READY)
        assert set(fetch_pods(clean, "everywhere")) == {"large-0000", "large-0001"}
        if end == "delete":
            clean.kubectl("delete", "schedext", "special")
        elif end == "suspend":
            apply(clean, make_schedext("special", sched=B, nodeSelector=small, priority=10, suspend=True))
        else:
            apply(clean, make_schedext("special", sched=B, nodeSelector={"pool": "none"}, priority=10))
        wait_object(
            clean, "schedext", "everywhere", lambda found: READY(found) and found["status"]["nodes"]["ready"] == 3
        )
    assert shared == []


def test_resource_made_anew_under_its_old_name_waits_for_the_old_daemonset_to_go(clean: Cluster) -> None:
    for image in (A, B, A):
        apply(clean, make_schedext("again", sched=image))
        wait_object(clean, "schedext", "again", READY)
        clean.kubectl("delete", "schedext", "again", "--wait=false")
    apply(clean, make_schedext("again", sched=B))
    wait_object(clean, "schedext", "again", READY)
    wait_exactly(clean, {"again": B})
    events = read_objects(clean, "event", "default")
    assert [event for event in events if event["regarding"].get("name") == "again" and event["type"] == "Warning"] == []
    clean.kubectl("delete", "schedext", "again")
    wait_absent(clean, "daemonset", "again")
