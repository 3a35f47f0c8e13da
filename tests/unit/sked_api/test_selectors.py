"""The selector algebra against brute force: every node of a small world is asked, and the answers must agree."""

import itertools
import os
import subprocess
import sys

import pytest

from schedkit.sked.api.kubernetes import (
    Affinity,
    NodeFieldRequirement,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from schedkit.sked.api.label_values import parse_number
from schedkit.sked.api.overlaps import SelectorIndex
from schedkit.sked.api.selectors import (
    EVERY_NODE,
    MOST_TERMS,
    NO_NODE,
    InvalidSelectorError,
    Selector,
    SelectorTooComplexError,
    exclude,
    intersects,
    parse_selector,
)
from tests.unit.sked_api.worlds import (
    NAMES,
    WORDS,
    WORLD,
    WORLD_WITH_ODD_NUMBERS,
    affinity,
    expression,
    field,
    make_random,
    meets_all,
    select,
    to_affinity,
)


@pytest.mark.parametrize("seed", range(10))
def test_matching_agrees_with_kubernetes_words(seed: int) -> None:
    for labels, given in itertools.islice(make_random(seed), 40):
        selector = parse_selector(labels, given)
        for node in WORLD_WITH_ODD_NUMBERS:
            assert selector.matches(*node) == meets_all(labels, given, node)


@pytest.mark.parametrize("seed", range(10))
def test_rendered_selector_selects_the_same_nodes(seed: int) -> None:
    for labels, given in itertools.islice(make_random(seed), 40):
        selector = parse_selector(labels, given)
        if selector == NO_NODE:
            assert not any(meets_all(labels, given, node) for node in WORLD)
            continue
        rendered = to_affinity(selector)
        assert parse_selector(None, rendered) == selector
        for node in WORLD_WITH_ODD_NUMBERS:
            assert meets_all({}, rendered, node) == meets_all(labels, given, node)


@pytest.mark.parametrize("seed", range(20))
def test_exclude_leaves_the_nodes_of_one_that_the_other_does_not_select(seed: int) -> None:
    cases = make_random(seed)
    for (labels, given), (other_labels, other_given) in itertools.islice(zip(cases, cases, strict=False), 30):
        one, other = parse_selector(labels, given), parse_selector(other_labels, other_given)
        left = exclude(one, other)
        rendered = to_affinity(left) if left else None
        for node in WORLD:
            expected = meets_all(labels, given, node) and not meets_all(other_labels, other_given, node)
            assert expected == (left is not None and left.matches(*node)), (node, one, other, left)
            assert expected == (left is not None and meets_all({}, rendered, node)), (node, rendered)
        assert left is None or not intersects(left, other)


@pytest.mark.parametrize("seed", range(20))
def test_intersects_says_whether_a_node_can_be_in_both(seed: int) -> None:
    cases = make_random(seed)
    seen = set()
    # Every number that a bound of the random cases can tell apart, and values that none of them names.
    numbers = (None, *(str(number) for number in range(16)), "03", "007", "0000", "word", "00000003")
    world = [
        ({key: value for key, value in (("a", a), ("b", b), ("n", n)) if value is not None}, name)
        for a, b, n, name in itertools.product((*WORDS, "w"), (*WORDS, "w"), numbers, (*NAMES, "four"))
    ]
    for (labels, given), (other_labels, other_given) in itertools.islice(zip(cases, cases, strict=False), 15):
        one, other = parse_selector(labels, given), parse_selector(other_labels, other_given)
        expected = any(one.matches(*node) and other.matches(*node) for node in world)
        assert intersects(one, other) == intersects(other, one) == expected, (one, other)
        seen.add(expected)
    assert seen == {True, False}


@pytest.mark.parametrize("seed", range(5))
def test_no_node_is_selected_by_both_even_when_a_number_is_none(seed: int) -> None:
    cases = make_random(seed)
    for (labels, given), (other_labels, other_given) in itertools.islice(zip(cases, cases, strict=False), 30):
        one, other = parse_selector(labels, given), parse_selector(other_labels, other_given)
        left = exclude(one, other)
        for node in WORLD_WITH_ODD_NUMBERS:
            if left is not None and left.matches(*node):
                assert one.matches(*node)
                assert not other.matches(*node)


def test_empty_selector_means_every_node() -> None:
    assert parse_selector(None, None) == parse_selector({}, Affinity()) == EVERY_NODE
    assert EVERY_NODE.to_node_selector() is None
    assert all(EVERY_NODE.matches(*node) for node in WORLD)


def test_nothing_is_left_of_what_another_selects_wholly() -> None:
    pool = parse_selector({"pool": "fast"}, None)
    assert exclude(pool, EVERY_NODE) is None
    assert exclude(EVERY_NODE, EVERY_NODE) is None
    assert exclude(pool, pool) is None
    assert exclude(pool, select(expression("pool", "Exists"))) is None


def test_nothing_is_taken_by_what_selects_nothing() -> None:
    pool = parse_selector({"pool": "fast"}, None)
    assert exclude(pool, NO_NODE) == pool
    assert not intersects(EVERY_NODE, NO_NODE)


def test_empty_term_selects_nothing() -> None:
    assert parse_selector(None, affinity(NodeSelectorTerm())) == NO_NODE


def test_contradiction_selects_nothing() -> None:
    assert (
        parse_selector({"a": "x"}, affinity(NodeSelectorTerm(match_expressions=(expression("a", "NotIn", "x"),))))
        == NO_NODE
    )
    assert select(expression("n", "Gt", "4"), expression("n", "Lt", "5")) == NO_NODE
    assert select(field("In", "one"), field("In", "two")) == NO_NODE
    assert select(expression("n", "Lt", "0")) == NO_NODE
    with pytest.raises(InvalidSelectorError):
        NO_NODE.to_node_selector()


def test_what_does_not_overlap_stays_as_it_is() -> None:
    one, other = (
        parse_selector({"pool": "fast", "zone": "a"}, None),
        parse_selector({"pool": "slow", "gpu": "yes"}, None),
    )
    assert not intersects(one, other)
    assert exclude(one, other) == one
    word = parse_selector({"n": "many"}, None)
    assert exclude(word, select(expression("n", "Gt", "5"))) == word


def test_all_nodes_without_a_pool_is_one_term() -> None:
    left = exclude(EVERY_NODE, parse_selector({"pool": "fast"}, None))
    assert left is not None
    assert left.to_node_selector() == NodeSelector(
        node_selector_terms=(NodeSelectorTerm(match_expressions=(expression("pool", "NotIn", "fast"),)),)
    )


def test_pools_excluded_one_after_the_other_are_still_one_term() -> None:
    left: Selector | None = EVERY_NODE
    for name in ("fast", "slow", "fast", "odd"):
        assert left is not None
        left = exclude(left, parse_selector({"pool": name}, None))
    assert left is not None
    assert left.to_node_selector() == NodeSelector(
        node_selector_terms=(NodeSelectorTerm(match_expressions=(expression("pool", "NotIn", "fast", "odd", "slow"),)),)
    )


def test_narrower_of_two_bounds_adds_nothing() -> None:
    for wide, narrow in (
        (expression("n", "Gt", "3"), expression("n", "Gt", "5")),
        (expression("n", "Lt", "7"), expression("n", "Lt", "5")),
        (expression("n", "Exists"), expression("n", "Lt", "5")),
    ):
        terms = [NodeSelectorTerm(match_expressions=(item,)) for item in (wide, narrow)]
        assert (
            parse_selector(None, affinity(*terms)) == parse_selector(None, affinity(*reversed(terms))) == select(wide)
        )


def test_number_bounds_turn_around() -> None:
    left = exclude(select(expression("n", "Exists")), select(expression("n", "Gt", "4")))
    assert left is not None
    assert left == select(expression("n", "Lt", "5"))


def test_numbers_between_bounds_are_counted_with_their_leading_zeros() -> None:
    between = [expression("n", "Gt", "6"), expression("n", "Lt", "8")]
    assert select(*between, expression("n", "NotIn", "7")) != NO_NODE, "07 is a 7 too"
    every_seven = ["7".zfill(width) for width in range(1, 64)]
    assert select(*between, expression("n", "NotIn", *every_seven)) == NO_NODE


def test_node_names_are_compared_with_one_value_at_a_time() -> None:
    left = exclude(EVERY_NODE, select(field("In", "one")))
    assert left == select(field("NotIn", "one"))
    assert left is not None
    both = exclude(left, select(field("In", "two")))
    assert both is not None
    assert both.to_node_selector() == NodeSelector(
        node_selector_terms=(NodeSelectorTerm(match_fields=(field("NotIn", "one"), field("NotIn", "two"))),)
    )
    named = exclude(EVERY_NODE, both)
    assert named is not None
    assert named.to_node_selector() == NodeSelector(
        node_selector_terms=(
            NodeSelectorTerm(match_fields=(field("In", "one"),)),
            NodeSelectorTerm(match_fields=(field("In", "two"),)),
        )
    )


def test_order_in_which_a_selector_is_written_does_not_show() -> None:
    terms = [NodeSelectorTerm(match_expressions=(expression(key, "In", "x", "y"),)) for key in "abc"]
    assert len({parse_selector(None, affinity(*order)) for order in itertools.permutations(terms)}) == 1


def test_rendering_is_the_same_in_every_process() -> None:
    program = (
        "from schedkit.sked.api.selectors import *\n"
        "left = EVERY_NODE\n"
        "for i in range(6):\n"
        "    left = exclude(left, parse_selector({'pool': f'p{i}', f'zone{i % 2}': f'z{i}'}, None))\n"
        "print(left.to_node_selector())"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2", "3")
    }
    assert len(told) == 1


def exclude_pairs_of_labels(pairs: int) -> Selector | None:
    """Each pair excluded doubles the terms."""
    left: Selector | None = EVERY_NODE
    for number in range(pairs):
        assert left is not None
        left = exclude(left, parse_selector({f"a{number}": "x", f"b{number}": "x"}, None))
    return left


def test_too_complex_exclusion_is_an_error_with_a_reason() -> None:
    most = exclude_pairs_of_labels(6)
    assert most is not None
    assert len(most.terms) == MOST_TERMS
    with pytest.raises(SelectorTooComplexError, match=f"more than {MOST_TERMS}") as caught:
        exclude_pairs_of_labels(7)
    assert caught.value.reason == "SelectorTooComplex"
    assert caught.value.hint


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


@pytest.mark.parametrize("seed", range(10))
def test_index_finds_what_intersects(seed: int) -> None:
    selectors = [parse_selector(*case) for case in itertools.islice(make_random(seed), 40)]
    index: SelectorIndex[int] = SelectorIndex()
    for name, selector in enumerate(selectors):
        index.put(name, selectors[0])
        index.put(name, selector)
    for name in range(0, 40, 3):
        index.remove(name)
        index.remove(name)
    left = [(name, selector) for name, selector in enumerate(selectors) if name % 3]
    for selector in [*selectors, EVERY_NODE, NO_NODE]:
        expected = [name for name, other in left if intersects(selector, other)]
        assert sorted(index.find_intersecting(selector)) == expected
