"""Who wants which nodes, and who goes first."""

import pytest

from schedkit.sked.api.patterns import DNS_SUBDOMAIN, LABEL_VALUE, matches
from schedkit.sked.api.requests import make_slot
from schedkit.sked.api.selectors import InvalidSelectorError
from schedkit.sked.controller.claims import make_claims
from schedkit.sked.kube.objects import Key
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


@pytest.mark.parametrize(("ceiling", "priority"), [(None, 7), (0, 0), (9, 7)])
def test_ceiling_cuts_a_priority_and_raises_none(ceiling: int | None, priority: int) -> None:
    (high,) = make_claims(make_resource(priority=7), ceiling)
    (low,) = make_claims(make_resource(priority=-3), ceiling)
    assert (high.priority, low.priority) == (priority, -3)


def test_selector_that_kubernetes_would_refuse_is_refused() -> None:
    with pytest.raises(InvalidSelectorError):
        make_claims(make_resource(affinity=require(("pool", "Sometimes", ["x"]))))


def test_slot_names_one_daemonset_and_fits_a_label() -> None:
    assert make_slot(Key("default", "web")) == "default.web"
    long = [make_slot(Key("n" * 63, f"{'x' * 200}{end}")) for end in "ab"]
    assert len(set(long)) == 2
    assert all(len(slot) == 63 and matches(LABEL_VALUE, slot) for slot in long)
    assert make_slot(Key("a", "b.c")) != make_slot(Key("a", "b-c"))
    assert not any(matches(DNS_SUBDOMAIN, slot) for slot in long), "no resource can be called so"
