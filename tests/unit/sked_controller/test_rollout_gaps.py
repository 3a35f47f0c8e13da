"""How long nodes are without a scheduler when they get another revision, in the status and as a metric."""

from tests.unit.sked_controller.test_kernels import stamp
from tests.unit.sked_controller.test_rollout_trouble import eject, put_container, put_slot
from tests.unit.sked_controller.test_rollouts import BAD, V2, Rolling, make_rolling

GAP = {"medianMilliseconds": 750, "worstMilliseconds": 900}  # of the four nodes
MINUTES = 300_000  # milliseconds: a back-off after a crash


def rolled_out() -> Rolling:
    cluster = make_rolling()
    cluster.ask(V2)
    cluster.run_until("Complete")
    return cluster


def count(cluster: Rolling) -> int:
    found = cluster.metric('sked_rollout_gap_seconds_count{namespace="default",name="one"}')
    return int(found[0].split()[-1]) if found else 0


def attach_after_crash(cluster: Rolling, node: str) -> None:
    """Have a node's scheduler crash, and attach again after its back-off."""
    eject(cluster, node)
    cluster.work()
    put_container(cluster, node, state={"running": {"startedAt": stamp(cluster.now)}})
    seq = cluster.find_report(node)["slot"]["enableSeq"] + 1
    slot = {"state": "enabled", "ops": "scx_rusty", "enableSeq": seq, "since": stamp(cluster.now)}
    put_slot(cluster, node, **slot, gapMilliseconds=MINUTES)
    cluster.work()


def test_attachment_after_a_crash_is_not_the_gap_of_a_rollout() -> None:
    cluster = rolled_out()
    assert (count(cluster), cluster.rollout["gap"]) == (4, GAP)
    attach_after_crash(cluster, "n4")
    assert (count(cluster), cluster.rollout["gap"]) == (4, GAP)


def test_operator_that_starts_again_does_not_take_a_crash_for_the_gap() -> None:
    cluster = rolled_out()
    attach_after_crash(cluster, "n4")
    cluster = Rolling(cluster)
    cluster.work()
    cluster.look("one")
    cluster.work()
    assert count(cluster) == 0, "what an earlier one counted is not counted again"
    assert cluster.rollout["gap"] == {"medianMilliseconds": 800, "worstMilliseconds": 900}, "of the other three"


def test_way_back_counts_as_a_node_gets_another_revision() -> None:
    cluster = make_rolling()
    cluster.ask(BAD, steps=[{"nodes": 1}])
    cluster.run_until("RolledBack")
    assert count(cluster) == 1


def test_first_revision_is_not_counted() -> None:
    assert count(make_rolling()) == 0
