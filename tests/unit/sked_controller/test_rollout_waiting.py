"""Rollouts whose next pod is on the node before the old scheduler leaves, and waits for the kernel's slot."""

from datetime import timedelta
from typing import Any

import pytest

from schedkit.sked.controller.daemonsets import find_waiter
from schedkit.sked.controller.objects import WAIT
from schedkit.sked.controller.pulls import PULL
from tests.unit.sked_controller.test_rollouts import (
    BAD,
    NODES,
    QUICK,
    V1,
    V2,
    V3,
    Rolling,
    find_revision,
    make_rolling,
    work_until_killed,
)

SKED = "example.com/sked:1"


class Waiting(Rolling):
    """A cluster whose agents are of an image that everybody may use, and whose kubelets run what waits."""

    stuck_waiters: tuple[str, ...] = ()  # nodes that have no room for a second pod
    waiter_fault = ""  # why the image of what waits cannot be pulled
    secrets: tuple[str, ...] = ()

    def __init__(self, before: "Waiting | None" = None, **options: Any) -> None:
        self.waited: list[str] = []  # nodes
        super().__init__(before, **options)

    def add_agents(self, *nodes: str, ready: bool = True) -> None:
        super().add_agents(*nodes, ready=ready)
        for node in nodes:
            found = self.get("agents", f"sked-agent-{node}")
            secrets = [{"name": name} for name in self.secrets]
            spec = found["spec"] | {"containers": [{"name": "agent", "image": SKED}], "imagePullSecrets": secrets}
            self.put("agents", found | {"spec": spec})

    def check(self) -> None:
        for node in self.names("nodes"):
            running = [pod["metadata"]["name"] for pod in self._pods_on(node) if runs(pod)]
            assert len(running) <= 1, f"{running} run on {node}"
        reports = map(self.find_report, self.names("nodes"))
        attached = sum(report.get("slot", {}).get("state") == "enabled" for report in reports)
        self.most_idle = max(self.most_idle, len(self.names("nodes")) - attached)

    def _pods_on(self, node: str) -> list[dict[str, Any]]:
        found = [pod for pod in self.objects["pods"].values() if pod["spec"]["nodeName"] == node]
        return [pod for pod in found if PULL not in pod["metadata"]["labels"]]

    def _find_pod(self, node: str) -> dict[str, Any] | None:
        """What runs, or begins to: as kubelets do, what waits goes on when nothing runs any more."""
        there = self._pods_on(node)
        running = [pod for pod in there if runs(pod)]
        staying = [pod for pod in there if "deletionTimestamp" not in pod["metadata"]]
        if running:
            for pod in (pod for pod in staying if pod not in running):
                self._wait(pod, node)
            return next((pod for pod in running if pod in staying), None)
        return staying[0] if staying else None

    def _wait(self, pod: dict[str, Any], node: str) -> None:
        found = pod["status"].get("initContainerStatuses", [{}])[0].get("state", {})
        began = found.get("running", {}).get("startedAt", f"{self.now:%Y-%m-%dT%H:%M:%SZ}")
        state: dict[str, Any] = {"running": {"startedAt": began}}
        if self.waiter_fault:
            state = {"waiting": {"reason": "ErrImagePull", "message": self.waiter_fault}}
        if node in self.stuck_waiters:
            state = {"waiting": {"reason": "PodInitializing"}}
        status = {"phase": "Pending", "initContainerStatuses": [{"name": WAIT, "state": state}]}
        if pod["status"] != status and pod["spec"].get("initContainers"):
            self.waited.append(node)
            self.change("pods", pod["metadata"]["name"], status=status)

    def coming(self) -> dict[str, str]:
        found = {node["metadata"]["name"]: node["metadata"] for node in self.objects["nodes"].values()}
        return {
            name: value
            for name, metadata in found.items()
            if (value := metadata.get("labels", {}).get("sked.schedkit.io/next"))
        }


def runs(pod: dict[str, Any]) -> bool:
    return any("running" in found["state"] for found in pod["status"].get("containerStatuses", ()))


def make_waiting(cls: type[Waiting] = Waiting) -> Waiting:
    cluster = make_rolling(cls=cls)
    assert isinstance(cluster, Waiting)
    return cluster


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Minutes pass at each turn of the cluster."""
    monkeypatch.setattr("schedkit.sked.controller.steering.WAITER_SECONDS", timedelta(hours=9))


def test_pod_of_the_next_revision_waits_on_the_node_before_the_old_one_leaves() -> None:
    cluster = make_waiting()
    before = cluster.pod_uids()
    cluster.waited.clear()
    cluster.ask(V2, steps=[{"nodes": 1}, {"pause": {}}])
    cluster.run_until("Paused")
    assert cluster.images == {"n1": V2, "n2": V1, "n3": V1, "n4": V1}
    assert cluster.waited == ["n1"]
    assert cluster.coming() == {}, "nobody waits for what is not to come"
    others = ("n2", "n3", "n4")
    assert {node: cluster.pod_uids()[node] for node in others} == {node: before[node] for node in others}
    cluster.annotate(promote="now")
    cluster.run_until("Complete")
    assert cluster.images == dict.fromkeys(NODES, V2)
    assert (sorted(cluster.waited), cluster.coming(), cluster.most_idle) == (NODES, {}, 1)
    assert not cluster.work(), "a rollout that is complete writes nothing"


def test_first_revision_and_a_failed_one_wait_for_nothing() -> None:
    cluster = make_waiting()
    assert cluster.waited == []
    cluster.ask(BAD, steps=[{"nodes": 1}])
    cluster.run_until("RolledBack")
    assert cluster.images == dict.fromkeys(NODES, V1)
    assert cluster.waited == ["n1"], "nobody waits where nothing is attached"


class Noting(Waiting):
    """Keeps who waited for what, and which pods were to pull, when the way back was noted down."""

    then: tuple[list[str], list[str]] | None = None

    def _note(self, write: str, body: object) -> None:
        if self.then is None and "schedexts/status" in write and "RollingBack" in str(body):
            self.then = sorted(self.coming()), self.find_pulling()
        super()._note(write, body)

    def find_pulling(self) -> list[str]:
        pods = [pod for pod in self.objects["pods"].values() if PULL in pod["metadata"]["labels"]]
        return sorted(pod["spec"]["nodeName"] for pod in pods if "deletionTimestamp" not in pod["metadata"])


def test_way_back_is_noted_down_before_anything_is_cleared_away() -> None:
    """Clearing away thousands takes a while, and the nodes where it failed are without a scheduler."""
    cluster = make_waiting(Noting)
    assert isinstance(cluster, Noting)
    cluster.add_node("n5")
    cluster.add_agents("n5")
    cluster.run_until("Complete")
    cluster.most_idle = 0
    cluster.ask(BAD, maxUnavailable=1)
    cluster.run_until("RolledBack")
    assert cluster.then == (["n2", "n3"], ["n4", "n5"])
    assert (cluster.coming(), cluster.find_pulling()) == ({}, [])
    assert cluster.most_idle == 1, "what was there before is no reason to move another node"


def test_nobody_leaves_before_what_waits_looks_at_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that has just been started would see too late that the slot is free, and the gap would be longer."""
    cluster = make_waiting()
    monkeypatch.setattr("schedkit.sked.controller.steering.WAITER_STARTS", timedelta(hours=8))
    cluster.ask(V2)
    cluster.work()
    assert (cluster.waited, cluster.images) == (["n1", "n2"], dict.fromkeys(NODES, V1))
    pulled = (pod for pod in cluster.objects["pods"].values() if PULL in pod["metadata"]["labels"])
    assert not [pod for pod in pulled if pod["spec"]["nodeName"] in cluster.waited], "what pulls is gone before"
    cluster.now += timedelta(hours=8)
    cluster.look("one")
    cluster.work()
    assert cluster.images["n1"] == V2


def test_undo_waits_as_well() -> None:
    cluster = make_waiting()
    cluster.ask(V2)
    cluster.run_until("Complete")
    cluster.waited.clear()
    cluster.annotate(undo=find_revision(cluster, V1))
    cluster.work()
    cluster.run_until("Complete")
    assert cluster.images == dict.fromkeys(NODES, V1)
    assert sorted(cluster.waited) == NODES


def test_upgrade_of_sked_restarts_nothing_and_what_comes_then_waits_with_the_new_image() -> None:
    cluster = make_waiting()
    before = cluster.pod_uids()
    for node in NODES:
        found = cluster.get("agents", f"sked-agent-{node}")
        cluster.put("agents", found | {"spec": found["spec"] | {"containers": [{"image": "example.com/sked:2"}]}})
        writes = cluster.work()
        assert writes == ([f"apply daemonsets {find_revision(cluster, V1)} force"] if node == NODES[-1] else [])
    assert cluster.pod_uids() == before
    cluster.ask(V2)
    cluster.run_until("Complete")
    images = {
        found["spec"]["template"]["spec"]["containers"][0]["image"]: found["spec"]["template"]["spec"][
            "initContainers"
        ][0]["image"]
        for found in cluster.objects["daemonsets"].values()
    }
    assert images == dict.fromkeys((V1, V2), "example.com/sked:2")


def test_image_that_takes_credentials_is_not_waited_with() -> None:
    class Private(Waiting):
        secrets = ("registry",)

    cluster = make_waiting(Private)
    cluster.ask(V2)
    cluster.run_until("Complete")
    assert cluster.images == dict.fromkeys(NODES, V2)
    assert cluster.waited == []
    assert all(
        "initContainers" not in found["spec"]["template"]["spec"] for found in cluster.objects["daemonsets"].values()
    )


def change_agents(cluster: Waiting, image: str, *secrets: str, ready: bool = True) -> None:
    """Have all agents made again of another image, as by an upgrade of sked."""
    for node in NODES:
        found = cluster.get("agents", f"sked-agent-{node}")
        pulls = [{"name": name} for name in secrets]
        spec = found["spec"] | {"containers": [{"image": image}], "imagePullSecrets": pulls}
        status = found["status"] if ready else {}
        cluster.put("agents", found | {"spec": spec, "status": status})


def find_waiters(cluster: Waiting) -> dict[str, str]:
    """By revision, the image that its pods wait with."""
    pods = [found["spec"]["template"]["spec"] for found in cluster.objects["daemonsets"].values()]
    return {
        pod["containers"][0]["image"]: container["image"] for pod in pods for container in pod.get("initContainers", ())
    }


def test_agents_that_take_credentials_from_now_on_end_the_waiting_and_restart_nothing() -> None:
    cluster = make_waiting()
    cluster.ask(V2, minAttachedSeconds=10**6)  # so that others wait while the first has yet to show that it stays
    cluster.work()
    assert sorted(cluster.coming()) == ["n2", "n3"]
    before = {pod["spec"]["nodeName"]: pod["metadata"]["uid"] for pod in cluster.objects["pods"].values() if runs(pod)}
    change_agents(cluster, "registry.example.com/sked:2", "registry")
    cluster.work()
    assert (find_waiters(cluster), cluster.coming()) == ({}, {})
    assert cluster.pod_uids() == before, "only what waited is gone"
    cluster.ask(V2)
    cluster.run_until("Complete")
    assert cluster.images == dict.fromkeys(NODES, V2)
    assert cluster.most_idle == 1


def test_agents_that_are_not_ready_tell_nothing_of_what_to_wait_with() -> None:
    cluster = make_waiting()
    before = find_waiters(cluster)
    change_agents(cluster, "registry.example.com/sked:2", "registry", ready=False)
    cluster.work()
    assert find_waiters(cluster) == before == {V1: SKED}


def test_revision_that_is_older_than_its_rollout_restarts_nothing_and_is_waited_for_when_nodes_come_back() -> None:
    cluster = Waiting()
    for name in NODES:
        cluster.add_node(name)
    cluster.add_agents(*NODES)
    cluster.apply_resource("one", sched=V1)
    cluster.work()
    before = cluster.pod_uids()
    assert find_waiters(cluster) == {}
    cluster.ask(V1)
    cluster.run_until("Complete")
    assert (find_waiters(cluster), cluster.pod_uids()) == ({V1: SKED}, before)
    cluster.ask(V2)
    cluster.run_until("Complete")
    cluster.waited.clear()
    cluster.ask(V1)
    cluster.run_until("Complete")
    assert cluster.images == dict.fromkeys(NODES, V1)
    assert sorted(cluster.waited) == NODES


def test_node_without_room_for_two_pods_goes_without(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = make_waiting()
    cluster.stuck_waiters = ("n2",)
    cluster.ask(V2)
    cluster.work()
    assert cluster.images["n2"] == V1
    monkeypatch.setattr("schedkit.sked.controller.steering.WAITER_SECONDS", timedelta(seconds=0))
    cluster.run_until("Complete")
    assert cluster.images == dict.fromkeys(NODES, V2)


def test_pod_that_cannot_wait_costs_no_node_its_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = make_waiting()
    before = cluster.pod_uids()
    cluster.waiter_fault = "unauthorized"
    cluster.ask(V2)
    cluster.work()
    monkeypatch.setattr("schedkit.sked.controller.steering.WAITER_SECONDS", timedelta(seconds=0))
    rollout = cluster.run_until("RolledBack")
    assert (rollout["failedRevision"]["reason"], rollout["failedRevision"]["message"]) == ("PullFailed", "unauthorized")
    cluster.work()
    assert (cluster.pod_uids(), cluster.most_idle) == (before, 0)


def test_scheduler_that_starts_early_counts_as_moved() -> None:
    cluster = make_waiting()
    cluster.stuck_waiters = ("n1",)
    cluster.ask(V2)
    cluster.work()
    assert set(cluster.coming()) >= {"n1"}
    # The old one crashed, its kernel was free for a moment, and what waited began.
    old = next(pod for pod in cluster._pods_on("n1") if "containerStatuses" in pod["status"])
    new = next(pod for pod in cluster._pods_on("n1") if "containerStatuses" not in pod["status"])
    cluster.change("pods", old["metadata"]["name"], status={"phase": "Running"})
    cluster.change("pods", new["metadata"]["name"], status={"phase": "Running"} | cluster._start(V2))
    cluster.run_until("Complete")
    assert cluster.images == dict.fromkeys(NODES, V2)


def test_reserved_node_is_not_taken_by_what_waited() -> None:
    cluster = make_waiting()
    cluster.stuck_waiters = ("n1",)
    cluster.ask(V2)
    cluster.work()
    assert "n1" in cluster.coming()
    cluster.label("n1", slot="none")
    cluster.work()
    assert "n1" not in cluster.coming()
    assert cluster.on("n1") == []
    assert cluster.slots()["n1"] == "none"


def test_third_revision_waits_in_place_of_the_second() -> None:
    cluster = make_waiting()
    cluster.stuck_waiters = ("n1",)
    cluster.ask(V2)
    cluster.work()
    second = cluster.coming()["n1"]
    cluster.stuck_waiters = ()
    cluster.apply_resource("one", sched=V3, rollout=QUICK)
    cluster.run_until("Complete")
    assert cluster.images == dict.fromkeys(NODES, V3)
    assert second.endswith(find_revision(cluster, V2))


def test_operator_that_starts_again_goes_on() -> None:
    cluster = make_waiting()
    cluster.stuck_waiters = ("n1",)
    cluster.ask(V2)
    cluster.work()
    assert "n1" in cluster.coming()
    again = Waiting(cluster)
    again.run_until("Complete")
    assert again.images == dict.fromkeys(NODES, V2)
    assert again.coming() == {}


@pytest.mark.parametrize("image", [V2, BAD])
@pytest.mark.parametrize("after", [1, 2, 3, 5])
def test_operator_that_is_killed_while_pods_wait_is_followed_by_one_that_goes_on(after: int, image: str) -> None:
    cluster = make_waiting()
    cluster.ask(image, steps=[{"nodes": 1}, {"nodes": "50%"}])
    phase, ends = ("Complete", V2) if image == V2 else ("RolledBack", V1)
    for _ in range(200):
        cluster = work_until_killed(cluster, after)
        if (cluster.rollout["phase"], cluster.images) == (phase, dict.fromkeys(NODES, ends)):
            break
    else:
        pytest.fail(f"no end: {cluster.rollout} {cluster.images} {cluster.coming()}")
    assert cluster.most_idle == 1
    cluster.work()
    assert cluster.coming() == {}


def test_what_is_waited_with_is_no_other_work() -> None:
    cluster = make_waiting()
    plain = make_rolling()
    assert find_revision(cluster, V1) == find_revision(plain, V1)
    assert find_waiter(None) is None


class OneGeneration(Waiting):
    """Its DaemonSets all have the same generation, as several happen to have."""

    def put(self, plural: str, document: dict[str, Any]) -> dict[str, Any]:
        stored = super().put(plural, document)
        if plural == "daemonsets":
            stored["metadata"]["generation"] = 2
        return stored


class Old(Waiting):
    """Its API server drops `lifecycle`, as that of Kubernetes 1.29 does, and tells nobody of a write without change."""

    def put(self, plural: str, document: dict[str, Any]) -> dict[str, Any]:
        if plural == "daemonsets":
            for container in document["spec"]["template"]["spec"].get("initContainers", ()):
                container.pop("lifecycle", None)
            name = document["metadata"]["name"]
            if name in self.names(plural) and self.get(plural, name)["spec"] == document["spec"]:
                return self.get(plural, name)
        return super().put(plural, document)


@pytest.mark.parametrize("cls", [OneGeneration, Old])
def test_nobody_is_said_to_have_changed_a_revision(cls: type[Waiting]) -> None:
    cluster = make_waiting(cls)
    cluster.ask(V2)
    cluster.run_until("Complete")
    cluster.ask(V3, steps=[{"nodes": 1}, {"pause": {}}])
    cluster.run_until("Paused")
    successor = cls(cluster)
    written = successor.run()
    assert not [write for write in written if "daemonsets" in write]
    successor.annotate(promote="now")
    successor.run_until("Complete")
    said = {reason for world in (cluster, successor) for _, _, reason in world.events}
    assert "ModifiedByOthers" not in said
