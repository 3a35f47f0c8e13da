"""Small worlds of nodes, random selectors over them, and Kubernetes' words read as plainly as can be."""

import itertools
import random
from collections.abc import Iterator

from schedkit.sked.api.kubernetes import (
    Affinity,
    NodeAffinity,
    NodeFieldRequirement,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from schedkit.sked.api.selectors import Selector, parse_selector

Node = tuple[dict[str, str], str]

WORDS = (None, "x", "y", "z")
NUMBERS = (None, "0", "3", "03", "5", "6", "7", "007", "12")
NAMES = ("one", "two", "three")


def make_world(numbers: tuple[str | None, ...] = NUMBERS) -> list[Node]:
    nodes = []
    for a, b, number, name in itertools.product(WORDS, WORDS, numbers, NAMES):
        given = {"a": a, "b": b, "n": number}
        nodes.append(({key: value for key, value in given.items() if value is not None}, name))
    return nodes


WORLD = make_world()
WORLD_WITH_ODD_NUMBERS = make_world((*NUMBERS, "many", "3x", "-", ""))


def expression(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


def field(operator: str, *values: str, key: str = "metadata.name") -> NodeFieldRequirement:
    return NodeFieldRequirement(key=key, operator=operator, values=values)


def affinity(*terms: NodeSelectorTerm) -> Affinity:
    required = NodeSelector(node_selector_terms=terms)
    return Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required))


def select(*requirements: NodeSelectorRequirement | NodeFieldRequirement) -> Selector:
    expressions = tuple(item for item in requirements if isinstance(item, NodeSelectorRequirement))
    fields = tuple(item for item in requirements if isinstance(item, NodeFieldRequirement))
    return parse_selector(None, affinity(NodeSelectorTerm(match_expressions=expressions, match_fields=fields)))


def meets(requirement: NodeSelectorRequirement | NodeFieldRequirement, node: Node) -> bool:
    """Kubernetes' words, read once more and as plainly as can be."""
    labels, name = node
    value = name if isinstance(requirement, NodeFieldRequirement) else labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    if value is None or not value.isdigit():
        return False
    bound = int(requirement.values[0])
    return int(value) > bound if requirement.operator == "Gt" else int(value) < bound


def meets_all(node_selector: dict[str, str], given: Affinity | None, node: Node) -> bool:
    if any(node[0].get(key) != value for key, value in node_selector.items()):
        return False
    if given is None or given.node_affinity is None:
        return True
    required = given.node_affinity.required_during_scheduling_ignored_during_execution
    assert required is not None
    return any(
        (term.match_expressions or term.match_fields)
        and all(meets(item, node) for item in term.match_expressions)
        and all(meets(item, node) for item in term.match_fields)
        for term in required.node_selector_terms
    )


def make_requirement(dice: random.Random) -> NodeSelectorRequirement:
    key = dice.choice(["a", "a", "b", "b", "n"])
    pool = ["0", "3", "03", "5", "6", "7", "007", "12"] if key == "n" else ["x", "y", "z"]
    operator = dice.choice(["In", "NotIn", "Exists", "DoesNotExist", *(["Gt", "Lt"] * 2 if key == "n" else [])])
    if operator in ("Exists", "DoesNotExist"):
        return expression(key, operator)
    if operator in ("Gt", "Lt"):
        return expression(key, operator, str(dice.randint(0, 13)))
    return expression(key, operator, *dice.sample(pool, dice.randint(1, 3)))


def make_term(dice: random.Random) -> NodeSelectorTerm:
    fields = [field(dice.choice(["In", "NotIn"]), dice.choice(NAMES)) for _ in range(dice.choice([0, 0, 0, 1, 2]))]
    expressions = [make_requirement(dice) for _ in range(dice.randint(0, 3))]
    return NodeSelectorTerm(match_expressions=tuple(expressions), match_fields=tuple(fields))


def make_random(seed: int) -> Iterator[tuple[dict[str, str], Affinity | None]]:
    dice = random.Random(seed)  # noqa: S311
    while True:
        labels = {key: dice.choice(["x", "y", "z"]) for key in dice.sample(["a", "b"], dice.choice([0, 0, 1, 2]))}
        terms = [make_term(dice) for _ in range(dice.randint(1, 3))]
        yield labels, affinity(*terms) if dice.random() < 0.8 else None
