"""Rollouts of resources that ask for a quarantine: one ejection is one failure, and another try is a new start."""

from collections.abc import Callable

import pytest

from schedkit.sked.kube.objects import Key
from tests.unit.sked_controller.test_rollout_trouble import ONE_CANARY, eject
from tests.unit.sked_controller.test_rollouts import NODES, QUICK, V1, V2, Rolling, find_revision, make_rolling
from tests.unit.sked_controller.world import refusal


def begin_ejection(action: str) -> Rolling:
    """A rollout whose canary is ejected, which the operator has yet to see."""
    cluster = make_rolling()
    rollout = QUICK | {"steps": ONE_CANARY, "failure": {"action": action}}
    cluster.apply_resource("one", sched=V2, rollout=rollout, quarantine={"afterEjections": 1})
    cluster.run_until("Paused")
    eject(cluster, "n1")
    return cluster


def eject_canary(action: str) -> Rolling:
    """A rollout whose canary is ejected, and put in quarantine for that."""
    cluster = begin_ejection(action)
    cluster.work()
    return cluster


def rolled_back() -> Rolling:
    cluster = eject_canary("Rollback")
    cluster.run_until("RolledBack")
    return cluster


def retry(cluster: Rolling) -> None:
    cluster.annotate(retry="now")
    for _ in range(6):
        cluster.work()
        cluster.look("one")


def test_nodes_in_quarantine_count_as_failed_so_that_not_all_of_them_end_there() -> None:
    cluster = make_rolling()
    steps = [{"nodes": 2}, {"pause": {}}]
    rollout = QUICK | {"steps": steps, "maxUnavailable": 3, "failure": {"maxNodes": 1}}
    cluster.apply_resource("one", sched=V2, rollout=rollout, quarantine={"afterEjections": 1})
    cluster.run_until("Paused")
    eject(cluster, "n1")
    cluster.work()
    assert cluster.slots()["n1"] == "none"
    assert cluster.rollout["phase"] == "Paused"
    assert cluster.rollout["nodes"] == {"updated": 2, "attached": 1, "failed": 1, "quarantined": 1, "skipped": 0}
    eject(cluster, "n2")
    cluster.work()
    cluster.run_until("RolledBack")
    assert cluster.images == dict.fromkeys(NODES, V1)


@pytest.mark.parametrize("action", ["Rollback", "Pause"])
def test_quarantine_and_failure_of_one_ejection(action: str) -> None:
    cluster = begin_ejection(action)
    cluster.refusals["apply schedexts/status"] = refusal(503, "Unavailable")
    with pytest.raises(Exception, match="503"):
        cluster.work()
    cluster.refusals.clear()
    cluster.look("one")
    cluster.work()
    assert cluster.rollout["failedRevision"]["node"] == "n1"
    if action == "Rollback":
        cluster.run_until("RolledBack")
        assert cluster.images == dict.fromkeys(NODES, V1), "a revision that is gone keeps no node in quarantine"
    else:
        assert cluster.slots()["n1"] == "none"


def test_nothing_is_left_in_memory_of_a_quarantine_that_ended_before_it_was_written() -> None:
    cluster = rolled_back()
    assert cluster.known.quarantines == {}
    assert "none" not in cluster.slots().values()


@pytest.mark.parametrize("again", [True, False])
def test_retry_after_a_rollback_tries_again(again: bool) -> None:
    cluster = rolled_back()
    if again:
        cluster = Rolling(cluster)
        cluster.work()
    retry(cluster)
    assert cluster.rollout["phase"] == "Paused"
    assert cluster.images["n1"] == V2
    assert "failedRevision" not in cluster.rollout


def test_retry_ends_a_quarantine_that_was_written() -> None:
    cluster = eject_canary("Pause")
    assert cluster.slots()["n1"] == "none"
    retry(cluster)
    assert "failedRevision" not in cluster.rollout
    assert cluster.images["n1"] == V2
    assert "none" not in cluster.slots().values()


def reserve(cluster: Rolling, node: str, value: str) -> None:
    """Have a person take a node in quarantine out of sked's hands."""
    if value == "none":  # sked wrote that already: what it does not remember to have written, a person wrote
        metadata = cluster.get("nodes", node)["metadata"]
        kept = {name: text for name, text in metadata["annotations"].items() if name != "sked.schedkit.io/slot"}
        cluster.change("nodes", node, metadata=metadata | {"annotations": kept})
    else:
        cluster.label(node, slot=value)
    cluster.work()


@pytest.mark.parametrize("again", [True, False], ids=["restarted", "running"])
@pytest.mark.parametrize("value", ["none", "maintenance", "one", "stable"])
def test_retry_ends_a_quarantine_on_a_node_that_a_person_reserved(value: str, again: bool) -> None:
    cluster = eject_canary("Pause")
    value = f"default.{find_revision(cluster, V1)}" if value == "stable" else value
    reserve(cluster, "n1", value)
    if again:
        cluster = Rolling(cluster)
        cluster.work()
    assert "sked.schedkit.io/quarantine" in cluster.get("nodes", "n1")["metadata"]["annotations"]
    cluster.annotate(retry="now")
    cluster.run_until("Paused")
    assert "failedRevision" not in cluster.rollout
    assert "sked.schedkit.io/quarantine" not in cluster.get("nodes", "n1")["metadata"]["annotations"]
    assert cluster.slots()["n1"] == value, "the reservation stays"
    assert cluster.images["n2"] == V2, "another node is tried"
    cluster.label("n1", slot=None)
    cluster.work()
    assert "failedRevision" not in cluster.rollout
    assert cluster.images["n1"] == V1
    cluster.annotate(promote="now")
    cluster.run_until("Complete")
    assert cluster.images == dict.fromkeys(NODES, V2)


def test_node_in_quarantine_that_a_person_reserved_does_not_count_as_failed() -> None:
    cluster = make_rolling()
    rollout = QUICK | {"steps": [{"nodes": 2}, {"pause": {}}], "maxUnavailable": 3, "failure": {"maxNodes": 1}}
    cluster.apply_resource("one", sched=V2, rollout=rollout, quarantine={"afterEjections": 1})
    cluster.run_until("Paused")
    eject(cluster, "n1")
    cluster.work()
    assert cluster.rollout["nodes"]["failed"] == 1
    reserve(cluster, "n1", "maintenance")
    cluster.look("one")
    cluster.work()
    assert cluster.rollout["nodes"]["failed"] == 0


def test_retry_goes_on_by_itself_when_the_quarantine_of_a_reserved_node_has_ended() -> None:
    cluster = eject_canary("Pause")
    reserve(cluster, "n1", "maintenance")
    cluster.refusals["label n1"] = refusal(503, "Unavailable")
    cluster.annotate(retry="now")
    with pytest.raises(Exception, match="503"):
        cluster.work()
    cluster.refusals.clear()
    cluster.look("one")
    cluster.run()
    assert cluster.rollout["message"] == "1 node left to bring back before another try"
    cluster.look_at_node("n1")
    cluster.work()
    assert cluster.rollout["phase"] != "RollingBack"


def test_operator_that_comes_in_the_middle_of_a_retry_ends_the_quarantine_before_it_goes_on() -> None:
    cluster = eject_canary("Pause")
    cluster.refusals["label n1"] = refusal(503, "Unavailable")
    cluster.annotate(retry="now")
    with pytest.raises(Exception, match="503"):
        cluster.work()
    assert cluster.rollout["phase"] == "RollingBack"
    assert cluster.slots()["n1"] == "none"
    cluster = Rolling(cluster)
    given = []
    for _ in range(6):
        given += [write for write in cluster.work() if write.startswith("label n1")]
        cluster.look("one")
    stable = cluster.rollout["currentRevision"]
    assert given[0] == f"label n1 default.{stable}", "what is to be tried again begins with the stable revision"
    assert "failedRevision" not in cluster.rollout
    assert cluster.images["n1"] == V2


def test_ejection_counts_for_the_revision_of_its_pod_whatever_the_label_says_by_now() -> None:
    cluster = make_rolling()
    cluster.apply_resource("one", sched=V1, rollout=QUICK, quarantine={"afterEjections": 5})
    cluster.work()
    eject(cluster, "n1")
    said = {"sked.schedkit.io/slot": "pending"}
    metadata = cluster.get("nodes", "n1")["metadata"]
    labels = metadata["labels"] | said
    cluster.change("nodes", "n1", metadata=metadata | {"labels": labels, "annotations": said})
    logs, cluster = cluster.logs, Rolling(cluster)
    cluster.logs = logs
    cluster.run()
    assert cluster.find_report("n1")["ejections"]["revision"] == find_revision(cluster, V1)


def test_rolled_back_revision_is_not_given_to_a_node_whose_quarantine_ends_with_it() -> None:
    cluster = make_rolling()
    rollout = QUICK | {"steps": [{"nodes": 2}, {"pause": {}}], "maxUnavailable": 3, "failure": {"maxNodes": 1}}
    cluster.apply_resource("one", sched=V2, rollout=rollout, quarantine={"afterEjections": 1})
    cluster.run_until("Paused")
    eject(cluster, "n1")
    cluster.work()
    eject(cluster, "n2")
    cluster.refusals["label n1"] = refusal(503, "Unavailable")
    with pytest.raises(Exception, match="503"):
        cluster.work()
    assert (cluster.rollout["phase"], cluster.slots()["n1"]) == ("RollingBack", "none")
    cluster = Rolling(cluster)
    writes = []
    for _ in range(6):
        writes += cluster.work()
        cluster.look("one")
    failed = find_revision(cluster, V2)
    assert f"label n1 default.{failed}" not in writes
    assert cluster.rollout["phase"] == "RolledBack"
    assert cluster.images == dict.fromkeys(NODES, V1)


class NodesFirst(Rolling):
    """As in the operator, where a resource is woken soon and a node at once."""

    def _wake(self, key: Key | str) -> None:
        if key not in self._queue:
            (self._queue.appendleft if isinstance(key, str) else self._queue.append)(key)


@pytest.fixture
def _nodes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rolling, "_wake", NodesFirst._wake)


def work_and_note(cluster: Rolling, turns: int) -> list[str]:
    """What the label of the first node is given meanwhile."""
    given = []
    for _ in range(turns):
        given += [write for write in cluster.work() if write.startswith("label n1")]
        cluster.look("one")
    return given


def ask_for(image: str) -> Callable[[Rolling], None]:
    def ask(cluster: Rolling) -> None:
        rollout = QUICK | {"steps": ONE_CANARY, "failure": {"action": "Pause"}}
        cluster.apply_resource("one", sched=image, rollout=rollout, quarantine={"afterEjections": 1})

    return ask


def undo(cluster: Rolling) -> None:
    cluster.annotate(undo=find_revision(cluster, V1))


@pytest.mark.usefixtures("_nodes_first")
@pytest.mark.parametrize(
    "change", [ask_for("example.com/scx_rusty:3"), ask_for(V1), undo], ids=["third", "back", "undo"]
)
def test_node_whose_quarantine_ends_does_not_get_what_it_ejected(change: Callable[[Rolling], None]) -> None:
    cluster = eject_canary("Pause")
    assert cluster.slots()["n1"] == "none"
    failed = find_revision(cluster, V2)
    change(cluster)
    assert f"label n1 default.{failed}" not in work_and_note(cluster, 8)


def quarantine_stable() -> Rolling:
    """A cluster whose first node is kept without a scheduler for its stable revision."""
    cluster = make_rolling()
    cluster.apply_resource("one", sched=V1, rollout=QUICK, quarantine={"afterEjections": 1})
    cluster.work()
    eject(cluster, "n1")
    cluster.work()
    assert cluster.slots()["n1"] == "none"
    return cluster


@pytest.mark.usefixtures("_nodes_first")
def test_node_in_quarantine_for_the_stable_revision_gets_the_next_one_and_nothing_else() -> None:
    cluster = quarantine_stable()
    stable = find_revision(cluster, V1)
    cluster.apply_resource("one", sched=V2, rollout=QUICK, quarantine={"afterEjections": 1})
    assert f"label n1 default.{stable}" not in work_and_note(cluster, 12)
    assert cluster.images["n1"] == V2


@pytest.mark.usefixtures("_nodes_first")
def test_operator_that_starts_again_in_the_middle_of_a_rollout_keeps_a_quarantine() -> None:
    cluster = quarantine_stable()
    rollout = QUICK | {"steps": ONE_CANARY}
    cluster.apply_resource("one", sched=V2, rollout=rollout, quarantine={"afterEjections": 1})
    cluster.run_until("Paused")
    cluster = Rolling(cluster)
    assert work_and_note(cluster, 4) == []
    assert cluster.slots()["n1"] == "none"


def test_retry_of_the_first_revision_does_not_wait_for_nodes_where_it_works() -> None:
    cluster = Rolling()
    for node in NODES:
        cluster.add_node(node)
    cluster.add_agents(*NODES)
    rollout = QUICK | {"steps": [{"nodes": 2}, {"pause": {}}], "maxUnavailable": 4}
    cluster.apply_resource("one", sched=V1, rollout=rollout)
    cluster.run_until("Paused")
    eject(cluster, "n1")
    work_and_note(cluster, 6)
    retry(cluster)
    work_and_note(cluster, 6)
    assert cluster.rollout["phase"] == "Paused"
