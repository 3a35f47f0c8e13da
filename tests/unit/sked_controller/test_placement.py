"""Which claims could run on which node: the index agrees with asking everyone, whatever changes."""

import random
from typing import Any

import msgspec

from schedkit.sked.controller.claims import Claim, make_claims
from schedkit.sked.controller.objects import Node
from schedkit.sked.controller.placement import Placement
from schedkit.sked.kube.objects import Key
from schedkit.sked.kube.store import Store
from tests.unit.sked_controller.making import make_resource, require

SPECS: list[dict[str, Any]] = [
    {},
    {"nodeSelector": {"pool": "a"}},
    {"nodeSelector": {"pool": "b", "zone": "1"}},
    {"affinity": require(("pool", "In", ["a", "b"]))},
    {"affinity": require(("pool", "NotIn", ["a"]))},
    {"affinity": require(("zone", "Exists", []))},
    {"affinity": require(("zone", "Gt", ["1"]))},
    {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
    {"suspend": True},
    {"pools": [{"name": "x", "nodeSelector": {"pool": "a"}}, {"name": "y", "nodeSelector": {"pool": "b"}}]},
]


def make_node(dice: random.Random, name: str) -> Node:
    labels = {key: value for key in ("pool", "zone", "unread") if (value := dice.choice([None, "a", "b", "1", "2"]))}
    taints = [{"key": "gpu", "effect": "NoSchedule"}] if dice.random() < 0.3 else []
    return msgspec.convert({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}}, Node)


class Both:
    """A placement and what it should say, found by asking every claim about every node."""

    def __init__(self) -> None:
        self.store: Store[Node] = Store()
        self.placement = Placement(self.store)
        self.claims: dict[Key, tuple[Claim, ...]] = {}

    def put_node(self, node: Node | None, name: str) -> bool:
        old = self.store.put(node) if node else self.store.remove(Key("", name))
        return self.placement.see_node(old, node)

    def put_claims(self, key: Key, claims: tuple[Claim, ...]) -> set[str]:
        self.claims[key] = claims
        return self.placement.put(key, claims)

    def expected(self) -> dict[str, list[Claim]]:
        everyone = [claim for claims in self.claims.values() for claim in claims]
        return {
            node.metadata.name: sorted((claim for claim in everyone if claim.could_run_on(node)), key=lambda c: c.rank)
            for node in self.store
        }

    def check(self) -> dict[str, list[Claim]]:
        expected = self.expected()
        assert {name: list(self.placement.on(name)) for name in expected} == expected
        for claim in (claim for claims in self.claims.values() for claim in claims):
            assert set(self.placement.of(claim)) == {name for name, found in expected.items() if claim in found}
        return expected


def test_index_says_what_asking_everyone_gives_through_all_changes() -> None:
    dice = random.Random(3)  # noqa: S311
    both = Both()
    for _ in range(800):
        before = both.expected()
        if dice.random() < 0.5:
            name = f"n{dice.randrange(8)}"
            changed = both.put_node(make_node(dice, name) if dice.random() < 0.8 else None, name)
            after = both.check()
            assert changed == (before.get(name, []) != after.get(name, []))
        else:
            key = Key("default", f"r{dice.randrange(5)}")
            resource = make_resource(key.name, priority=dice.randrange(3), **dice.choice(SPECS))
            concerned = both.put_claims(key, make_claims(resource) if dice.random() < 0.8 else ())
            after = both.check()
            assert {name for name in after if before[name] != after[name]} <= concerned


def test_label_that_no_selector_reads_is_not_looked_at() -> None:
    both = Both()
    both.put_claims(Key("default", "one"), make_claims(make_resource(nodeSelector={"pool": "a"})))
    old = msgspec.convert({"metadata": {"name": "n", "labels": {"pool": "a"}}}, Node)
    both.put_node(old, "n")
    asked: list[str] = []
    both.placement._find_claims = lambda node: asked.append(node.metadata.name) or iter(())  # type: ignore[method-assign,func-returns-value]
    new = msgspec.convert({"metadata": {"name": "n", "labels": {"pool": "a", "other": "1"}}}, Node)
    assert not both.put_node(new, "n")
    assert asked == []


def test_oldest_of_a_name_is_meant_by_it_also_while_it_claims_nothing() -> None:
    placement = Placement(Store())
    young, old = Key("a", "web"), Key("b", "web")
    placement.put_name(young, "2026-01-02T00:00:00Z")
    assert placement.name_owner("web") == young
    placement.put_name(old, "2026-01-01T00:00:00Z")
    assert placement.name_owner("web") == old
    placement.put(old, ())  # suspended
    assert placement.name_owner("web") == old
    placement.put_name(old, None)
    assert placement.name_owner("web") == young
    placement.put_name(young, None)
    assert placement.name_owner("web") is None
