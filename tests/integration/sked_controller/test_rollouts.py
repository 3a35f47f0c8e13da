"""Rollouts on a real control plane: killed at every point, and nothing written once they are done."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Self

import pytest

from lab.cluster import Cluster, KubectlError
from lab.components import API_SERVER
from lab.waiting import NotYetError, wait_for
from tests.integration.clusters import read_objects
from tests.integration.sked_controller.operator import (
    SECONDS,
    Json,
    Operator,
    apply,
    fetch,
    fetch_slots,
    has,
    make_schedext,
    steal_lease,
    wait_object,
)
from tests.integration.sked_controller.reporting import add_agents, report, tell_time

NODES = ["large-0000", "large-0001", "small-0000"]
V1, V2, BAD = "example.com/scx_rusty:1", "example.com/scx_rusty:2", "example.com/scx_rusty:bad"
OPS = "rusty_1.1.4_x86_64_unknown_linux_gnu"
SCHEDULERS = "managed-by=sked-controller,!sked.schedkit.io/pull"
QUIET_SECONDS = 3.0
KILLS = 30  # at most, of each rollout


class PlayedKernels(threading.Thread):
    """Attaches what runs on the nodes but for one image, detaches what is gone, and tells it as agents do."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self._cluster = cluster
        self._attached = dict.fromkeys(NODES, "")
        self._seq = dict.fromkeys(NODES, 0)
        self._ended = threading.Event()
        self.most_idle = 0
        self.several: list[str] = []  # nodes that had more than one scheduler

    def run(self) -> None:
        while not self._ended.wait(0.1):
            with suppress(NotYetError, KubectlError):  # the API server is not there for a moment
                self._look()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()

    def _look(self) -> None:
        running: dict[str, dict[str, str]] = {node: {} for node in NODES}
        for pod in read_objects(self._cluster, "pod", "default", SCHEDULERS):
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]:
                running[pod["spec"]["nodeName"]][pod["metadata"]["uid"]] = pod["spec"]["containers"][0]["image"]
        for node, pods in running.items():
            if len(pods) > 1:
                self.several.append(node)
            uid = next((uid for uid, image in pods.items() if image != BAD), "")
            if uid == self._attached[node]:
                continue
            if uid:
                self._seq[node] += 1
                report(self._cluster, [node], state="enabled", ops=OPS, since=tell_time(), seq=self._seq[node])
            else:
                report(self._cluster, [node], seq=self._seq[node])
            self._attached[node] = uid
        self.most_idle = max(self.most_idle, sum(not uid for uid in self._attached.values()))


@pytest.fixture
def rolling(clean: Cluster) -> Iterator[Cluster]:
    """The cluster with kernels to which nothing is attached; agents are for tests to add."""
    report(clean, NODES)
    yield clean
    clean.kubectl("delete", "schedexts", "--all", "--wait=true")
    clean.kubectl("delete", "schedextnodes", "--all")
    clean.kubectl("delete", "pods", "-n", "default", "-l", "app.kubernetes.io/component=agent", "--now")
    clean.kubectl("label", "nodes", "--all", "sked.schedkit.io/slot-", "sked.schedkit.io/next-")


def ask(cluster: Cluster, image: str, **more: object) -> None:
    rollout = {"minAttachedSeconds": 0, "attachTimeoutSeconds": 180} | more
    apply(cluster, make_schedext("one", sched=image, rollout=rollout))


def read_rollout(resource: Json) -> Json:
    status = resource.get("status", {})
    pools = status.get("pools", []) if status.get("observedGeneration") == resource["metadata"]["generation"] else []
    found: Json = pools[0].get("rollout", {}) if pools else {}
    return found


def wait_phase(cluster: Cluster, phase: str) -> Json:
    return wait_object(cluster, "schedext", "one", lambda found: read_rollout(found).get("phase") == phase)


def kill_until(cluster: Cluster, operator: Operator, phase: str) -> int:
    """Kill the operator each time that it has got one step further, until a rollout is so far; how often that was."""
    before: tuple[object, ...] = ()
    for kills in range(KILLS):

        def is_further() -> bool:
            resource = fetch(cluster, "schedext", "one")
            assert resource
            known = read_rollout(resource)
            nonlocal before
            seen = known.get("phase"), known.get("updateRevision"), tuple(sorted(fetch_slots(cluster).items()))
            if seen == before:
                return False
            before = seen
            return True

        wait_for(f"another step to {phase}", is_further, SECONDS)
        if before[0] == phase:
            return kills
        operator.kill()
        operator.start()
    pytest.fail(f"not {phase} after {KILLS} kills: {before}")


def test_killed_at_every_step_it_goes_on_and_comes_back_within_its_pace(rolling: Cluster, operator: Operator) -> None:
    add_agents(rolling, NODES, private=True)
    operator.stop()
    operator.start()
    with PlayedKernels(rolling) as kernels:
        ask(rolling, V1)
        wait_phase(rolling, "Complete")
        kernels.most_idle = 0
        ask(rolling, V2)
        assert kill_until(rolling, operator, "Complete") >= len(NODES)
        stable = read_rollout(wait_phase(rolling, "Complete"))["currentRevision"]
        ask(rolling, BAD, attachTimeoutSeconds=15)
        assert kill_until(rolling, operator, "RolledBack") >= 2
        rollout = read_rollout(wait_phase(rolling, "RolledBack"))
    assert (rollout["currentRevision"], rollout["failedRevision"]["reason"]) == (stable, "NotAttachedInTime")
    assert fetch_slots(rolling) == dict.fromkeys(NODES, f"default.{stable}")
    assert (kernels.most_idle, kernels.several) == (1, [])
    operator.stop()


def wait_moved(cluster: Cluster, stable: str, count: int) -> None:
    """Until so many nodes are to have another revision."""

    def is_moved() -> bool:
        return sum(value not in ("pending", f"default.{stable}") for value in fetch_slots(cluster).values()) >= count

    wait_for(f"{count} nodes to be moved", is_moved, SECONDS)


def test_api_server_that_restarts_and_a_lease_that_is_lost_do_not_end_a_rollout(
    rolling: Cluster, operator: Operator
) -> None:
    add_agents(rolling, NODES, private=True)
    operator.stop()
    operator.start("--leader-elect")
    with PlayedKernels(rolling) as kernels:
        ask(rolling, V1)
        stable = read_rollout(wait_phase(rolling, "Complete"))["currentRevision"]
        kernels.most_idle, process = 0, operator.daemon.pid()
        ask(rolling, V2)
        wait_moved(rolling, stable, 1)
        rolling.stop_component(API_SERVER)
        rolling.start_component(API_SERVER)
        wait_moved(rolling, stable, 2)
        assert operator.daemon.pid() == process
        steal_lease(rolling)
        wait_for("the operator's end", lambda: not operator.daemon.alive(), SECONDS)
        operator.daemon.stop()
        operator.start("--leader-elect")
        revision = read_rollout(wait_phase(rolling, "Complete"))["currentRevision"]
    assert revision != stable
    assert fetch_slots(rolling) == dict.fromkeys(NODES, f"default.{revision}")
    assert (kernels.most_idle, kernels.several) == (1, [])
    operator.stop()


def test_without_the_operator_schedulers_stay_and_a_person_can_end_the_rollout(
    rolling: Cluster, operator: Operator
) -> None:
    """As docs/sked/rollouts.md says."""
    add_agents(rolling, NODES, private=True)
    with PlayedKernels(rolling):
        ask(rolling, V1)
        wait_phase(rolling, "Complete")
        ask(rolling, V2, steps=[{"nodes": 1}, {"pause": {}}])
        revision = read_rollout(wait_phase(rolling, "Paused"))["updateRevision"]
        operator.stop()
        before = fetch_schedulers(rolling)
        time.sleep(QUIET_SECONDS)
        assert fetch_schedulers(rolling) == before
        old = [node for node in NODES if before[node][1] == V1]
        assert len(old) == len(NODES) - 1

        slot = f"default.{revision}"
        words = ("daemonset", revision, "-o", "jsonpath={.spec.template.spec.affinity}")
        assert f'"{slot}"' in rolling.kubectl("get", *words).stdout
        for node in old:
            rolling.kubectl("label", "--overwrite", "node", node, "sked.schedkit.io/slot=pending")
            wait_for("the old pod to go", lambda node=node: node not in fetch_schedulers(rolling), SECONDS)  # type: ignore[misc]
            rolling.kubectl("label", "--overwrite", "node", node, f"sked.schedkit.io/slot={slot}")

        def is_everywhere() -> bool:
            return {node: image for node, (_, image) in fetch_schedulers(rolling).items()} == dict.fromkeys(NODES, V2)

        wait_for("the new revision everywhere", is_everywhere, SECONDS)


def fetch_schedulers(cluster: Cluster) -> dict[str, tuple[str, str]]:
    """By node, the UID and the image of the scheduler's pod that runs there."""
    return {
        pod["spec"]["nodeName"]: (pod["metadata"]["uid"], pod["spec"]["containers"][0]["image"])
        for pod in read_objects(cluster, "pod", "default", SCHEDULERS)
        if pod["status"].get("phase") == "Running"
    }


def test_revision_whose_pods_wait_is_as_asked_for_in_the_words_of_the_api_server(
    rolling: Cluster, operator: Operator
) -> None:
    add_agents(rolling, NODES)
    with PlayedKernels(rolling):
        ask(rolling, V1)
        wait_phase(rolling, "Complete")
        wait_object(rolling, "schedext", "one", has("Ready", "True", "Ready"))
        (made,) = read_objects(rolling, "daemonset", "default")
        (waiter,) = made["spec"]["template"]["spec"]["initContainers"]
        assert (waiter["image"], waiter["command"]) == ("example.com/sked:1", ["/usr/bin/sked-wait", "--stay"])
        assert waiter["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert waiter["lifecycle"] == {"preStop": {"sleep": {"seconds": 3}}}
        time.sleep(QUIET_SECONDS)
        (after,) = read_objects(rolling, "daemonset", "default")
        assert after["metadata"]["generation"] == made["metadata"]["generation"]
        resource = fetch(rolling, "schedext", "one")
        assert resource
        told = {found["type"]: found["status"] for found in resource["status"]["conditions"]}
        assert (told["Ready"], "ModifiedByOthers" in f"{resource['status']}") == ("True", False)


def test_label_of_a_person_stays_where_what_waited_is_taken_away(rolling: Cluster, operator: Operator) -> None:
    """Who owns which label is the API server's to say: sked's own write of both is made as it makes it."""
    node = NODES[0]
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}

    def write(**said: str) -> None:
        names = {f"sked.schedkit.io/{name}": value for name, value in said.items()}
        metadata = {"name": node, "labels": names, "annotations": names}
        words = ("--server-side", "--force-conflicts", "--field-manager=sked")
        rolling.kubectl("apply", *words, "-f", "-", input=json.dumps(body | {"metadata": metadata}))

    operator.stop()
    write(slot="default.a", next="default.b")
    rolling.kubectl("label", "--overwrite", "node", node, "sked.schedkit.io/slot=none")
    write()
    metadata = read_objects(rolling, "node")
    (labels,) = (found["metadata"]["labels"] for found in metadata if found["metadata"]["name"] == node)
    assert (labels.get("sked.schedkit.io/slot"), labels.get("sked.schedkit.io/next")) == ("none", None)


def test_who_waits_is_not_said_by_hand(rolling: Cluster, operator: Operator) -> None:
    add_agents(rolling, NODES, private=True)
    with PlayedKernels(rolling):
        ask(rolling, V1)
        wait_phase(rolling, "Complete")
        rolling.kubectl("label", "node", NODES[0], "sked.schedkit.io/next=default.one")

        def is_gone() -> bool:
            return not [
                node for node in read_objects(rolling, "node") if "sked.schedkit.io/next" in f"{node['metadata']}"
            ]

        wait_for("the label to go", is_gone, SECONDS)
