"""What a resource tells of itself."""

from typing import Any

import msgspec
import pytest

from schedkit.sked.api.types import NodeFailure, SchedExtStatus
from schedkit.sked.controller.claims import Claim
from schedkit.sked.controller.daemonsets import make_daemonset
from schedkit.sked.controller.objects import DaemonSet, SchedExt
from schedkit.sked.controller.status import Outcome, Trouble, make_blind_status, make_status, make_unreadable_status
from tests.unit.sked_controller.making import as_returned, make_claim

NOW, LATER = "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"
ONE = make_claim()
PULL = NodeFailure(node="node-1", pod="pod", reason="PullFailed", message="not found")
CRASH = NodeFailure(node="node-2", pod="pod", reason="CrashLooping", message="the scheduler ended with status 1")
UNKNOWN = "whether the kernels attached it is unknown: no node reports"


def see(claim: Claim = ONE, ready: int = 3, desired: int = 3, **more: int) -> DaemonSet:
    counts = {
        "observedGeneration": 1,
        "desiredNumberScheduled": desired,
        "currentNumberScheduled": desired,
        "numberReady": ready,
        "updatedNumberScheduled": desired,
        "numberUnavailable": desired - ready,
    }
    return as_returned(make_daemonset(claim, None), **(counts | more))


def tell(status: SchedExtStatus, type: str) -> tuple[str, str, str]:
    found = next(condition for condition in status.conditions if condition.type == type)
    return found.status, found.reason, found.message


def status_of(
    *outcomes: Outcome,
    resource: SchedExt = ONE.resource,
    failures: tuple[NodeFailure, ...] = (),
    leaving: int = 0,
    trouble: Trouble | None = None,
) -> SchedExtStatus:
    return make_status(resource, outcomes, failures, leaving, NOW, trouble)


RUNS = Outcome(ONE, see(), True)
FOREIGN = Trouble("ForeignDaemonSet", "it is there already")


@pytest.mark.parametrize(
    ("given", "ready", "progressing"),
    [
        (
            {"outcomes": [RUNS]},
            ("True", "Ready", f"3 of 3 pods are ready; {UNKNOWN}"),
            ("False", "Settled", "everything asked for has been carried out"),
        ),
        (
            {"outcomes": [Outcome(ONE, see(ready=0, desired=0), True)]},
            ("True", "NoNodes", "no node is selected"),
            ("False", "Settled", "everything asked for has been carried out"),
        ),
        (
            {"outcomes": [Outcome(ONE, see(ready=1), True)]},
            ("False", "Progressing", "1 of 3 pods are ready"),
            ("True", "RollingOut", "3 of 3 nodes have the newest pod, 1 pods are ready"),
        ),
        (
            {"outcomes": [Outcome(ONE, see(updatedNumberScheduled=2), True)]},
            ("False", "Progressing", "3 of 3 pods are ready"),
            ("True", "RollingOut", "2 of 3 nodes have the newest pod, 3 pods are ready"),
        ),
        (
            {"outcomes": [Outcome(ONE, see(observedGeneration=0), True)]},
            ("False", "Progressing", "3 of 3 pods are ready"),
            ("True", "RollingOut", "3 of 3 nodes have the newest pod, 3 pods are ready"),
        ),
        (
            {"outcomes": [Outcome(ONE, see(numberMisscheduled=1), True)]},
            ("False", "Progressing", "3 of 3 pods are ready"),
            ("True", "RollingOut", "3 of 3 nodes have the newest pod, 3 pods are ready"),
        ),
        (
            {"outcomes": [RUNS], "leaving": 2},
            ("False", "Progressing", "3 of 3 pods are ready"),
            ("True", "Removing", "2 pods are still on their nodes"),
        ),
        (
            {"outcomes": [Outcome(ONE, None, False, waiting="waits until default/x has left node n")]},
            ("False", "Progressing", "0 of 0 pods are ready"),
            ("True", "WaitingForNodes", "waits until default/x has left node n"),
        ),
        (
            {"outcomes": [Outcome(ONE, None, False, nothing_left=True)]},
            ("False", "Conflicted", "stronger resources have every node that this one selects"),
            ("False", "Settled", "everything asked for has been carried out"),
        ),
        (
            {"outcomes": [Outcome(ONE, None, False, trouble=FOREIGN)], "trouble": FOREIGN},
            ("False", "ForeignDaemonSet", "it is there already"),
            ("True", "RollingOut", "0 of 0 nodes have the newest pod, 0 pods are ready"),
        ),
        (
            {"outcomes": [Outcome(ONE, see(ready=1), True)], "failures": (PULL, CRASH)},
            ("False", "PullFailed", "2 nodes fail, first node-1: not found"),
            ("True", "RollingOut", "3 of 3 nodes have the newest pod, 1 pods are ready"),
        ),
    ],
)
def test_ready_and_progressing(
    given: dict[str, Any], ready: tuple[str, str, str], progressing: tuple[str, str, str]
) -> None:
    status = status_of(*given.pop("outcomes"), **given)
    assert tell(status, "Ready") == ready
    assert tell(status, "Progressing") == progressing
    assert status.summary == ready[1]


@pytest.mark.parametrize(
    ("failures", "trouble", "degraded"),
    [
        ((), None, ("False", "NoFailures", "no node fails")),
        ((PULL,), None, ("True", "PullFailed", "the scheduler does not run on 1 nodes")),
        ((PULL, CRASH), None, ("True", "SeveralFailures", "the scheduler does not run on 2 nodes")),
        ((PULL,), Trouble("Forbidden", "may not"), ("True", "Forbidden", "may not")),
    ],
)
def test_degraded(failures: tuple[NodeFailure, ...], trouble: Trouble | None, degraded: tuple[str, str, str]) -> None:
    assert tell(status_of(RUNS, failures=failures, trouble=trouble), "Degraded") == degraded


def test_conflicted_names_winners_before_losers() -> None:
    winner, loser = make_claim("strong", priority=5), make_claim("weak", priority=-5)
    none = tell(status_of(RUNS), "Conflicted")
    first = status_of(Outcome(ONE, see(), True, losers=(loser,)))
    both = status_of(Outcome(ONE, see(), True, winners=(winner,), losers=(loser,)))
    assert none == ("False", "NoOverlap", "no other resource selects its nodes")
    told = "has the nodes that are selected too by default/weak (priority -5)"
    assert tell(first, "Conflicted") == ("True", "GoesFirst", told)
    told = "yields the nodes that it selects too to default/strong (priority 5)"
    assert tell(both, "Conflicted") == ("True", "Yields", told)
    assert both.pools[0].excluded_by == ("default/strong",)


@pytest.mark.parametrize(
    ("leaving", "trouble", "ready"),
    [
        (0, None, ("True", "Suspended", "suspended: no scheduler is run")),
        (2, None, ("False", "Suspending", "2 pods are still on their nodes")),
        (2, Trouble("Forbidden", "may not delete"), ("False", "Forbidden", "may not delete")),
    ],
)
def test_suspended(leaving: int, trouble: Trouble | None, ready: tuple[str, str, str]) -> None:
    spec = msgspec.structs.replace(ONE.resource.spec, suspend=True)
    resource = msgspec.structs.replace(ONE.resource, spec=spec)
    status = status_of(resource=resource, leaving=leaving, trouble=trouble)
    assert tell(status, "Ready") == ready
    assert tell(status, "Suspended") == ("True", "Asked", "spec.suspend is true")
    assert tell(status_of(RUNS), "Suspended") == ("False", "NotAsked", "spec.suspend is not true")


def test_unchanged_world_gives_an_equal_status_at_any_time() -> None:
    outcomes = [Outcome(ONE, see(ready=1), True)]
    first = make_status(ONE.resource, outcomes, (PULL,), 0, NOW)
    stored = msgspec.json.decode(msgspec.json.encode(first), type=SchedExtStatus)
    again = make_status(msgspec.structs.replace(ONE.resource, status=stored), outcomes, (PULL,), 0, LATER)
    assert again == stored


def test_only_what_changed_its_status_has_a_new_time() -> None:
    first = make_status(ONE.resource, [Outcome(ONE, see(ready=1), True)], (), 0, NOW)
    second = make_status(msgspec.structs.replace(ONE.resource, status=first), [RUNS], (), 0, LATER)
    times = {condition.type: condition.last_transition_time for condition in second.conditions}
    changed = dict.fromkeys(("Ready", "Progressing"), LATER)
    assert times == dict.fromkeys(("Degraded", "Conflicted", "Suspended"), NOW) | changed


def test_status_of_what_may_not_be_seen_is_unknown_and_stays_the_same() -> None:
    seen = make_status(ONE.resource, [RUNS], (), 0, NOW)
    denied = Trouble("Forbidden", 'cannot list resource "daemonsets"')
    blind = make_blind_status(msgspec.structs.replace(ONE.resource, status=seen), denied, LATER)
    told = (denied.reason, denied.message)
    assert tell(blind, "Ready") == tell(blind, "Progressing") == tell(blind, "Conflicted") == ("Unknown", *told)
    assert tell(blind, "Degraded") == ("True", *told)
    assert tell(blind, "Suspended") == ("False", "NotAsked", "spec.suspend is not true")
    assert (blind.summary, blind.scheduler, blind.nodes, blind.pools) == ("Forbidden", "scx_rusty", None, ())
    stored = msgspec.json.decode(msgspec.json.encode(blind), type=SchedExtStatus)
    assert make_blind_status(msgspec.structs.replace(ONE.resource, status=stored), denied, "later still") == stored


def test_status_of_what_is_not_understood_says_where_and_stays_the_same() -> None:
    unreadable = make_unreadable_status(7, SchedExtStatus(), "Expected `int` - at `priority`", NOW)
    told = "spec does not fit its definition: Expected `int` - at `priority`; its DaemonSets are left as they are"
    assert tell(unreadable, "Ready") == ("False", "Unreadable", told)
    assert tell(unreadable, "Degraded") == ("True", "Unreadable", told)
    assert {tell(unreadable, kind)[0] for kind in ("Progressing", "Conflicted", "Suspended")} == {"Unknown"}
    assert (unreadable.summary, unreadable.observed_generation) == ("Unreadable", 7)
    stored = msgspec.json.decode(msgspec.json.encode(unreadable), type=SchedExtStatus)
    assert make_unreadable_status(7, stored, "Expected `int` - at `priority`", LATER) == stored


def test_failures_are_capped_and_counted() -> None:
    many = tuple(msgspec.structs.replace(PULL, node=f"node-{number:03}") for number in range(50))
    status = status_of(Outcome(ONE, see(ready=0, desired=50), True), failures=many)
    assert status.failures == many[:10]
    assert status.failure_count == 50


def test_counts_and_images_of_pools_are_put_together() -> None:
    other = make_claim("two", sched="example.com/scx_lavd@sha256:0")
    status = status_of(Outcome(ONE, see(), True), Outcome(other, see(other, ready=1, desired=2), True))
    assert status.scheduler == "scx_rusty,scx_lavd"
    assert status.image == "example.com/scx_rusty:1,example.com/scx_lavd@sha256:0"
    assert status.nodes is not None
    assert (status.nodes.desired, status.nodes.ready, status.nodes.unavailable) == (5, 4, 1)
    assert status.observed_generation == 1
