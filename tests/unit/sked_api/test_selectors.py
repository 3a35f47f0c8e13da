"""Which nodes a selector selects: Kubernetes' words, read twice, and what it would refuse."""

import itertools

import pytest

from schedkit.sked.api.kubernetes import Affinity, NodeFieldRequirement, NodeSelectorRequirement, NodeSelectorTerm
from schedkit.sked.api.selectors import InvalidSelectorError, Selector, Term, parse_number, parse_selector
from tests.unit.sked_api.worlds import (
    WORLD,
    WORLD_WITH_ODD_NUMBERS,
    affinity,
    expression,
    field,
    make_random,
    meets_all,
    select,
)


@pytest.mark.parametrize("seed", range(10))
def test_matching_agrees_with_kubernetes_words(seed: int) -> None:
    for labels, given in itertools.islice(make_random(seed), 40):
        selector = parse_selector(labels, given)
        for node in WORLD_WITH_ODD_NUMBERS:
            assert selector.matches(*node) == meets_all(labels, given, node)


def test_empty_selector_means_every_node() -> None:
    for nothing in (parse_selector(None, None), parse_selector({}, Affinity())):
        assert nothing == Selector((Term(),))
        assert all(nothing.matches(*node) for node in WORLD)


def test_empty_term_selects_nothing() -> None:
    assert parse_selector({"a": "x"}, affinity(NodeSelectorTerm())) == Selector(())


def test_anchor_is_the_requirement_with_the_fewest_values_that_a_node_must_have() -> None:
    (term,) = select(
        expression("a", "NotIn", "x"),
        expression("b", "In", "x", "y"),
        expression("a", "In", "z"),
        field("NotIn", "one"),
    ).terms
    assert term.anchor is not None
    assert (term.anchor.key, term.anchor.values) == ("a", ("z",))
    (open_term,) = select(expression("a", "Exists"), expression("n", "Gt", "3")).terms
    assert open_term.anchor is None


def test_labels_are_those_that_are_looked_at() -> None:
    assert parse_selector(
        {"a": "x"}, affinity(NodeSelectorTerm(match_expressions=(expression("b", "Exists"),)))
    ).labels == {
        "a",
        "b",
    }
    assert select(field("In", "one")).labels == frozenset()


@pytest.mark.parametrize(
    "requirement",
    [
        expression("a", "In"),
        expression("a", "NotIn"),
        expression("a", "Exists", "x"),
        expression("a", "DoesNotExist", "x"),
        expression("a", "Gt"),
        expression("a", "Lt", "1", "2"),
        expression("a", "Gt", "many"),
        expression("a", "Like", "x"),
        field("In"),
        field("In", "one", "two"),
        field("Exists"),
        field("In", "one", key="metadata.uid"),
    ],
)
def test_invalid_requirement_is_an_error_that_names_it(
    requirement: NodeSelectorRequirement | NodeFieldRequirement,
) -> None:
    with pytest.raises(InvalidSelectorError, match=f'"{requirement.key}"'):
        select(requirement)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7),
        ("007", 7),
        ("-1", -1),
        ("+1", 1),
        ("", None),
        ("x", None),
        ("1_0", None),
        (str(2**63), None),
        ("٣", None),
    ],
)
def test_numbers_are_read_as_kubernetes_reads_them(text: str, number: int | None) -> None:
    assert parse_number(text) == number
