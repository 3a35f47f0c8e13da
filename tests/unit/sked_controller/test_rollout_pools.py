"""Rollouts of several pools of one resource: each goes for itself."""

from typing import Any

import pytest

from tests.unit.sked_controller.test_rollouts import BAD, QUICK, V1, V2, Rolling


def ask(cluster: Rolling, a: str, b: str, **rollout: Any) -> None:
    images = {"a": a, "b": b}
    pools = [
        {"name": name, "sched": image, "nodeSelector": {"pool": name}, "rollout": QUICK | rollout}
        for name, image in images.items()
    ]
    cluster.apply_resource("one", pools=pools)


def find_rollout(cluster: Rolling, pool: str) -> dict[str, Any]:
    found = {one["name"]: one for one in cluster.get("schedexts", "one")["status"]["pools"]}
    rollout: dict[str, Any] = found[pool].get("rollout", {"phase": ""})
    return rollout


def run_until(cluster: Rolling, **phases: str) -> None:
    for _ in range(40):
        cluster.work()
        if {name: find_rollout(cluster, name)["phase"] for name in phases} == phases:
            return
        cluster.look("one")
    pytest.fail(f"never {phases}: { {name: find_rollout(cluster, name) for name in phases} }")


def make_pools() -> Rolling:
    """A cluster on which two pools have two nodes each, and a first revision."""
    cluster = Rolling()
    for name, pool in {"n1": "a", "n2": "a", "n3": "b", "n4": "b"}.items():
        cluster.add_node(name, {"pool": pool})
    cluster.add_agents("n1", "n2", "n3", "n4")
    ask(cluster, V1, V1)
    run_until(cluster, a="Complete", b="Complete")
    return cluster


def test_pools_roll_each_for_itself() -> None:
    cluster = make_pools()
    ask(cluster, V2, BAD, steps=[{"nodes": 1}])
    run_until(cluster, a="Complete", b="RolledBack")
    assert cluster.images == {"n1": V2, "n2": V2, "n3": V1, "n4": V1}
    assert cluster.condition("one", "Stalled") == ("True", "RolledBack")


def test_undo_of_one_pool_says_nothing_of_the_other() -> None:
    cluster = make_pools()
    first = find_rollout(cluster, "a")["currentRevision"]
    ask(cluster, V2, V2)
    run_until(cluster, a="Complete", b="Complete")
    before = find_rollout(cluster, "b")["message"]
    cluster.annotate(undo=f"{first} now")
    run_until(cluster, a="Complete", b="Complete")
    assert cluster.images == {"n1": V1, "n2": V1, "n3": V2, "n4": V2}
    assert find_rollout(cluster, "b")["message"] == before
    assert find_rollout(cluster, "b")["handled"]["undo"] == f"{first} now"


def test_undo_to_what_no_pool_keeps_says_so() -> None:
    cluster = make_pools()
    cluster.annotate(undo="one-a-0000000000 now")
    cluster.work()
    for pool in "ab":
        assert "names one-a-0000000000, which is not a kept revision" in find_rollout(cluster, pool)["message"]
