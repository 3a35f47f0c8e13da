"""What is asked of rollouts and nodes: the right patch, or why there is none."""

import pytest

from schedkit.errors import NotFoundError, SchedkitError, UsageError
from schedkit.sked.plugin.history import NoRolloutError, choose_revision, list_revisions, render_history
from schedkit.sked.plugin.quarantine import put_in, take_out
from schedkit.sked.plugin.steering import NothingToDoError, annotate, promote, refresh, retry, set_paused
from tests.unit.sked_plugin.making import (
    MOMENT,
    condition,
    failed_with,
    make_daemonset,
    make_node,
    make_rollout,
    make_schedext,
)

SLOT, QUARANTINE = "sked.schedkit.io/slot", "sked.schedkit.io/quarantine"
OLD = make_daemonset("web", "2026-01-01T00:00:00Z", claim="")
FIRST = make_daemonset("web-aaaaaaaaaa", "2026-01-01T00:10:00Z", nodes=3)
SECOND = make_daemonset("web-bbbbbbbbbb", "2026-01-01T00:20:00Z", nodes=1)
ALIEN = make_daemonset("web-cccccccccc", "2026-01-01T00:30:00Z", owner="uid-of-another")
ALL = [OLD, SECOND, FIRST, ALIEN]


def test_requests_never_have_the_same_value_twice() -> None:
    first, second = annotate("a", prefix="web-1 "), annotate("a", prefix="web-1 ")
    assert first != second
    assert first["metadata"]["annotations"]["a"].startswith("web-1 2")


def test_pause_and_resume_change_the_spec_only_where_it_differs() -> None:
    running, paused = (make_schedext(make_rollout("Progressing"), paused=paused) for paused in (False, True))
    assert set_paused(running, True)[0] == {"spec": {"paused": True}}
    assert set_paused(paused, False)[0] == {"spec": {"paused": False}}
    assert set_paused(paused, True) == (None, "web is paused already")


@pytest.mark.parametrize("ask", [lambda one: set_paused(one, True), promote, retry])
def test_resource_without_a_rollout_has_nothing_to_steer(ask: object) -> None:
    with pytest.raises(NoRolloutError, match=r"web has no spec\.rollout"):
        ask(make_schedext())  # type: ignore[operator]


def test_promote_is_for_those_who_wait_at_a_pause_step() -> None:
    patch, _ = promote(make_schedext(make_rollout("Paused", step=1)))
    assert list(patch["metadata"]["annotations"]) == ["sked.schedkit.io/promote"]
    with pytest.raises(NothingToDoError, match="does not wait at a pause step: Progressing"):
        promote(make_schedext(make_rollout("Progressing")))
    with pytest.raises(NothingToDoError, match=r"is paused by spec\.paused"):
        promote(make_schedext(make_rollout("Paused"), paused=True))
    with pytest.raises(NothingToDoError, match="stopped as its new revision failed"):
        promote(make_schedext(make_rollout("Paused", failedRevision=failed_with("Ejected"))))


def test_retry_is_for_what_failed() -> None:
    patch, told = retry(make_schedext(make_rollout("RolledBack", failedRevision=failed_with("Ejected"))))
    assert list(patch["metadata"]["annotations"]) == ["sked.schedkit.io/retry"]
    assert told.startswith("web tries web-bbbbbbbbbb again")
    with pytest.raises(NothingToDoError, match="no revision of web has failed"):
        retry(make_schedext(make_rollout("Complete")))


def test_refresh_is_refused_where_sked_would_ignore_it() -> None:
    patch, _ = refresh(make_schedext(conditions=(condition("Verified", "False"),)))
    assert list(patch["metadata"]["annotations"]) == ["sked.schedkit.io/refresh"]
    with pytest.raises(NothingToDoError, match="does not verify images in this cluster"):
        refresh(make_schedext())


def test_history_is_the_resources_own_daemonsets_newest_first_with_their_roles() -> None:
    resource = make_schedext(make_rollout("Paused", failedRevision=failed_with("Ejected")))
    found = list_revisions(resource, ALL)
    assert [(one.name, one.nodes, one.roles) for one in found] == [
        ("web-bbbbbbbbbb", 1, ("update", "failed")),
        ("web-aaaaaaaaaa", 3, ("current",)),
        ("web", 0, ()),
    ]
    assert render_history(found, MOMENT, everywhere=False).splitlines()[1].split() == [
        *("web", "web-bbbbbbbbbb", "example.com/scx_rusty:b", "--fast", "40m", "1", "update,failed")
    ]


@pytest.mark.parametrize(
    ("phase", "revisions", "expected"),
    [
        ("Progressing", {}, "web-aaaaaaaaaa"),
        ("RolledBack", {}, "web-aaaaaaaaaa"),
        ("Complete", {"currentRevision": "web-bbbbbbbbbb"}, "web-aaaaaaaaaa"),
        ("Complete", {"currentRevision": "web-aaaaaaaaaa", "updateRevision": "web-aaaaaaaaaa"}, "web-bbbbbbbbbb"),
    ],
)
def test_undo_goes_to_the_stable_revision_or_to_the_newest_other(
    phase: str, revisions: dict[str, str], expected: str
) -> None:
    resource = make_schedext(make_rollout(phase, **revisions))
    assert choose_revision(resource, list_revisions(resource, ALL), None, None).name == expected


def test_undo_takes_a_revision_by_its_name_or_its_end_and_no_other() -> None:
    resource = make_schedext(make_rollout("Complete"))
    revisions = list_revisions(resource, ALL)
    assert choose_revision(resource, revisions, "aaaaaaaaaa", None).name == "web-aaaaaaaaaa"
    assert choose_revision(resource, revisions, "web", None).name == "web"
    with pytest.raises(NotFoundError, match="web has no revision cccccccccc") as refusal:
        choose_revision(resource, revisions, "cccccccccc", None)
    assert refusal.value.hint == "kept are: web-bbbbbbbbbb, web-aaaaaaaaaa, web"


def test_undo_has_to_know_which_pool() -> None:
    rollouts = make_rollout("Complete"), make_rollout("Complete")
    resource = make_schedext(*rollouts, pools=("large", "small"))
    with pytest.raises(UsageError, match="web has several pools"):
        choose_revision(resource, [], None, None)
    with pytest.raises(NotFoundError, match="web has no pool huge"):
        choose_revision(resource, [], None, "huge")
    with pytest.raises(NotFoundError, match="no revision to go back to"):
        choose_revision(resource, [], None, "small")
    with pytest.raises(NoRolloutError):
        choose_revision(make_schedext(), [], None, None)


def test_quarantine_sets_the_label_and_says_what_it_replaced() -> None:
    change, told = put_in(make_node(slot="default.web", wrote="default.web"))
    assert change == {"metadata": {"labels": {SLOT: "none"}}}
    assert told == "node-1 is to run no scheduler until `kubectl scx lift node-1`"
    _, told = put_in(make_node(slot="web"))
    assert told.endswith("; its slot was reserved by hand for web")
    assert put_in(make_node(slot="none"))[0] is None
    assert put_in(make_node(slot="none", wrote="none", quarantine='{"schedExt":"a/b","since":""}'))[0] is None


def test_quarantine_of_a_node_that_sked_keeps_free_outlives_its_reason() -> None:
    change, _ = put_in(make_node(slot="none", wrote="none"))
    assert change == {"metadata": {"annotations": {SLOT: None}}}, "what sked did not write is a person's"


def test_lift_removes_what_keeps_a_node_free_and_nothing_else() -> None:
    by_hand, _ = take_out(make_node(slot="none", wrote="default.web"))
    assert by_hand == {"metadata": {"labels": {SLOT: None}, "annotations": {QUARANTINE: None}}}
    by_sked, _ = take_out(make_node(slot="none", wrote="none", quarantine="not JSON"))
    assert by_sked == by_hand
    assert take_out(make_node()) == (None, "node-1 is not in quarantine")
    assert take_out(make_node(slot="web")) == (
        None,
        "node-1 is not in quarantine; its slot is reserved by hand for web",
    )
    with pytest.raises(SchedkitError, match="its kernel is unfit"):
        take_out(make_node(slot="none", wrote="none"))
