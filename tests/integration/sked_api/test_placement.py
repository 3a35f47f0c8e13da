"""What is accepted and computed here, asked of Kubernetes itself: the API server and the DaemonSet controller."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from lab.cluster import Cluster
from lab.https import Connection
from lab.waiting import NotYetError, wait_for
from schedkit.sked.api.selectors import Selector, exclude, parse_selector
from schedkit.sked.api.types import SchedExt
from schedkit.sked.api.workloads import ResolvedWorkload, resolve_workloads
from tests.unit.sked_api.accepted import ACCEPTED
from tests.unit.sked_api.cases import IMAGE, make
from tests.unit.sked_api.worlds import WORLD, make_random, to_affinity

DAEMON_SETS = "/apis/apps/v1/namespaces/default/daemonsets"
NODES = {f"node-{number}": labels for number, (labels, _) in enumerate(WORLD[::19])}
PAIRS = 20


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


def test_daemon_set_controller_places_the_pods_where_the_algebra_says(connection: Connection) -> None:
    for name, labels in NODES.items():
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        assert connection.request("POST", "/api/v1/nodes", node).status == 201
    # A node that nobody keeps alive is tainted.
    spec = {"sched": IMAGE, "tolerations": [{"operator": "Exists"}]}
    (everywhere,) = resolve_workloads(msgspec.convert(make(spec), SchedExt))
    placed: dict[str, tuple[ResolvedWorkload, Selector]] = {}
    cases = make_random(seed=7)
    for number, (own, other) in enumerate(itertools.islice(zip(cases, cases, strict=False), PAIRS)):
        workload = replace(everywhere, node_selector=own[0], affinity=own[1])
        placed[f"own-{number}"] = (workload, workload.parse_selector())
        left = exclude(workload.parse_selector(), parse_selector(*other))
        if left:
            placed[f"rest-{number}"] = (replace(everywhere, affinity=to_affinity(left)), left)
    for name, (workload, _) in placed.items():
        answer = connection.request("POST", DAEMON_SETS, make_daemon_set(name, workload))
        assert answer.status == 201, answer.text
    expected = {
        name: {node for node, labels in NODES.items() if selector.matches(labels, node)}
        for name, (_, selector) in placed.items()
    }
    assert len({frozenset(nodes) for nodes in expected.values()}) > PAIRS / 2, "they are not all the same"
    assert {name: wait_for_nodes(connection, name) for name in placed} == expected
