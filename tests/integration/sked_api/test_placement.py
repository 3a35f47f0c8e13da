"""What is accepted and computed here, asked of Kubernetes itself: the API server and the DaemonSet controller."""

import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from lab.cluster import Cluster
from lab.https import Connection
from lab.waiting import NotYetError, wait_for
from schedkit.sked.api.types import SchedExt
from schedkit.sked.api.workloads import ResolvedWorkload, resolve_workloads
from schedkit.sked.controller.objects import Node
from schedkit.sked.controller.scheduling import judge_node
from tests.unit.sked_api.accepted import ACCEPTED
from tests.unit.sked_api.cases import IMAGE, make
from tests.unit.sked_api.worlds import WORLD, make_random

DAEMON_SETS = "/apis/apps/v1/namespaces/default/daemonsets"
NODES = {f"node-{number}": labels for number, (labels, _) in enumerate(WORLD[::9])}
DAEMON_SET_COUNT = 45
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
# A node that nobody keeps alive is tainted.
ALIVE = [
    {"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": "NoSchedule"}
    for state in ("not-ready", "unreachable")
]


def make_daemon_set(name: str, workload: ResolvedWorkload) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "scx", "image": workload.sched, "args": workload.args, "env": workload.env}
    if workload.resources:
        container["resources"] = workload.resources
    pod = {
        "containers": [container],
        "nodeSelector": workload.node_selector,
        "affinity": workload.affinity or {},
        "tolerations": workload.tolerations,
    }
    labels = {"name": name}
    document = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }
    plain: dict[str, Any] = msgspec.to_builtins(document)
    return plain


@pytest.fixture(scope="module")
def connection(cluster: Cluster) -> Iterator[Connection]:
    with cluster.connect() as connection:
        yield connection


@pytest.mark.parametrize("spec", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_what_is_accepted_makes_a_daemon_set_that_is(spec: dict[str, Any], connection: Connection) -> None:
    for workload in resolve_workloads(msgspec.convert(make(spec), SchedExt)):
        document = make_daemon_set(workload.daemon_set, workload)
        answer = connection.request("POST", f"{DAEMON_SETS}?dryRun=All&fieldValidation=Strict", document)
        assert answer.status == 201, answer.text


def fetch(connection: Connection, path: str) -> dict[str, Any]:
    answer = connection.request("GET", path)
    if answer.status != 200:
        raise NotYetError(answer.text)
    fetched: dict[str, Any] = json.loads(answer.body)
    return fetched


def fetch_nodes(connection: Connection, name: str) -> set[str]:
    """Where a DaemonSet wants its pods, once it has made them all."""
    status = fetch(connection, f"{DAEMON_SETS}/{name}")["status"]
    pods = fetch(connection, f"/api/v1/namespaces/default/pods?labelSelector=name%3D{name}")["items"]
    if status.get("observedGeneration") != 1 or len(pods) != status["desiredNumberScheduled"]:
        raise NotYetError(f"{name}: {len(pods)} pods, {status}")
    terms = [pod["spec"]["affinity"]["nodeAffinity"] for pod in pods]
    required = [term["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0] for term in terms]
    return {term["matchFields"][0]["values"][0] for term in required}


def wait_for_nodes(connection: Connection, name: str) -> set[str]:
    (nodes,) = wait_for(f"the pods of {name}", lambda: (fetch_nodes(connection, name),), 60)
    return nodes


def make_taints(dice: random.Random) -> list[dict[str, str]]:
    """Some taints, each key and effect once, as Kubernetes demands."""
    pairs = dice.sample([(key, effect) for key in ("gpu", "team") for effect in EFFECTS], dice.choice([0, 0, 1, 2]))
    return [{"key": key, "effect": effect, "value": dice.choice(["", "a", "b"])} for key, effect in pairs]


def make_tolerations(dice: random.Random) -> list[dict[str, str]]:
    found = []
    for _ in range(dice.choice([0, 1, 2])):
        toleration = {"key": dice.choice(["gpu", "team"]), "operator": dice.choice(["Exists", "Equal"])}
        if toleration["operator"] == "Equal":
            toleration["value"] = dice.choice(["", "a", "b"])
        if dice.random() < 0.5:
            toleration["effect"] = dice.choice(EFFECTS)
        found.append(toleration)
    return found + [{"operator": "Exists"}] * (dice.random() < 0.1)


def test_daemon_set_controller_starts_pods_exactly_where_it_is_judged_to(connection: Connection) -> None:
    dice = random.Random(11)  # noqa: S311
    for name, labels in NODES.items():
        node: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        node["spec"] = {"taints": make_taints(dice)}
        answer = connection.request("POST", "/api/v1/nodes", node)
        assert answer.status == 201, answer.text
    placed: dict[str, ResolvedWorkload] = {}
    for number, (labels, affinity) in enumerate(itertools.islice(make_random(seed=7), DAEMON_SET_COUNT)):
        spec = {"sched": IMAGE, "tolerations": make_tolerations(dice) + ALIVE}
        (workload,) = resolve_workloads(msgspec.convert(make(spec), SchedExt))
        placed[f"own-{number}"] = replace(workload, node_selector=labels, affinity=affinity)
    for name, workload in placed.items():
        answer = connection.request("POST", DAEMON_SETS, make_daemon_set(name, workload))
        assert answer.status == 201, answer.text
    nodes = [msgspec.convert(found, Node) for found in fetch(connection, "/api/v1/nodes")["items"]]
    judged = {
        name: {
            node.metadata.name
            for node in nodes
            if judge_node(workload.parse_selector(), workload.tolerations, node).starts
        }
        for name, workload in placed.items()
    }
    asked = len(placed) * len(nodes)
    started = sum(map(len, judged.values()))
    assert asked >= 2000
    assert asked / 10 < started < asked * 9 / 10, "there is something to tell apart"
    assert {name: wait_for_nodes(connection, name) for name in placed} == judged
    for name in placed:
        connection.request("DELETE", f"{DAEMON_SETS}/{name}")
