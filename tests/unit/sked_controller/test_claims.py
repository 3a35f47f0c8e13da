"""Who wants which nodes, and who goes first."""

import random
from typing import Any

import pytest

from schedkit.sked.api.selectors import InvalidSelectorError, intersects
from schedkit.sked.controller.claims import Board, Claim, make_claims
from tests.unit.sked_controller.making import make_claim, make_resource, require


def test_rank_is_priority_then_age_then_namespace_and_name() -> None:
    older, newer = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    expected = [
        make_claim("z", created=newer, priority=5),
        make_claim("y", created=older),
        make_claim("a", namespace="a", created=newer),
        make_claim("a", namespace="b", created=newer),
        make_claim("b", namespace="b", created=newer),
        make_claim("b", created=older, priority=-1),
    ]
    shuffled = expected[::-1]
    assert sorted(shuffled, key=lambda claim: claim.rank) == expected


def test_pools_are_ranked_in_their_order() -> None:
    pools = [{"name": name, "nodeSelector": {"pool": name}} for name in ("z", "a")]
    claims = make_claims(make_resource("mixed", pools=pools))
    assert [claim.name for claim in sorted(claims, key=lambda claim: claim.rank)] == ["mixed-z", "mixed-a"]


def test_suspended_resource_claims_nothing() -> None:
    assert make_claims(make_resource(suspend=True)) == ()


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"pool": "not a value"}},
        {"nodeSelector": {"not a key": "value"}},
        {"nodeSelector": {"pool": "x" * 64}},
        {"affinity": require(("pool", "Sometimes", ["x"]))},
        {"affinity": require(("pool", "NotIn", ["not a value"]))},
    ],
)
def test_selector_that_kubernetes_would_refuse_is_refused(spec: dict[str, Any]) -> None:
    with pytest.raises(InvalidSelectorError):
        make_claims(make_resource(**spec))


def make_random_claim(chance: random.Random, name: str) -> tuple[Claim, ...]:
    spec: dict[str, Any] = {"priority": chance.randrange(3)}
    values = ["x", "y", "z"]
    if chance.random() < 0.5:
        spec["nodeSelector"] = {key: chance.choice(values) for key in "ab" if chance.random() < 0.6}
    if chance.random() < 0.6:
        operators: list[tuple[str, list[str]]] = [
            ("In", chance.sample(values, 2)),
            ("NotIn", chance.sample(values, 2)),
            ("Exists", []),
            ("DoesNotExist", []),
        ]
        spec["affinity"] = require(*((key, *chance.choice(operators)) for key in "bc"))
    return make_claims(make_resource(name, **spec))


def test_rivals_and_those_concerned_are_what_comparing_everyone_gives() -> None:
    chance = random.Random(7)  # noqa: S311
    board = Board()
    known: dict[str, tuple[Claim, ...]] = {}

    def find_met(claims: tuple[Claim, ...]) -> set[Claim]:
        others = {other for listed in known.values() for other in listed}
        return {other for claim in claims for other in others if intersects(claim.selector, other.selector)}

    for _ in range(400):
        name = f"r{chance.randrange(25)}"
        before = known.get(name, ())
        after = make_random_claim(chance, name) if chance.random() < 0.8 else ()
        key = make_claim(name).owner
        met = find_met(before)
        known[name] = after
        met |= find_met(after)
        assert board.put(key, after) == {claim.owner for claim in met} - {key}
        assert board.claims(key) == after
        for claim in after:
            expected = sorted(find_met((claim,)) - {claim}, key=lambda other: other.rank)
            assert board.rivals(claim) == expected


def test_claim_is_no_rival_of_what_became_of_it() -> None:
    board = Board()
    old, new = make_claim(), make_claim(priority=10)
    board.put(old.owner, (old,))
    board.put(new.owner, (new,))
    assert board.rivals(old) == []
