"""The nodes of a selector."""

import random

from schedkit.sked.controller.objects import Node
from schedkit.sked.controller.places import Places
from schedkit.sked.kube.store import Store
from tests.unit.sked_controller.making import make_claim, make_node, require

SELECTORS = [
    make_claim(**spec).selector
    for spec in (
        {},
        {"nodeSelector": {"pool": "a"}},
        {"nodeSelector": {"pool": "a", "zone": "b"}},
        {"affinity": require(("zone", "In", ["a", "b"]))},
        {"affinity": require(("zone", "NotIn", ["a"]))},
        {"affinity": require(("pool", "Exists", []), ("zone", "DoesNotExist", []))},
    )
]


def test_nodes_found_are_those_that_match_through_all_changes() -> None:
    chance = random.Random(3)  # noqa: S311
    nodes: Store[Node] = Store()
    places = Places(nodes)
    for _ in range(300):
        name = f"node-{chance.randrange(12)}"
        labels = {label: chance.choice("abc") for label in ("pool", "zone") if chance.random() < 0.7}
        node = make_node(name, **labels)
        if chance.random() < 0.8:
            places.see(nodes.put(node), node)
        elif old := nodes.remove(node.metadata.key):
            places.see(old, None)
        for selector in SELECTORS:
            expected = {known.metadata.name for known in nodes if selector.matches(known.metadata.labels, "")}
            assert {found.metadata.name for found in places.find(selector)} == expected
