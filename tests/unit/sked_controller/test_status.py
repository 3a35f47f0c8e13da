"""What a resource tells of itself."""

from typing import Any

import msgspec
import pytest

from schedkit.sked.api.conditions import CONDITION_TYPES, VERIFIED
from schedkit.sked.api.types import NodeCounts, NodeFailure, SchedExt, SchedExtStatus
from schedkit.sked.controller.claims import Claim, make_claims
from schedkit.sked.controller.daemonsets import make_daemonset
from schedkit.sked.controller.health import Health, Kernels
from schedkit.sked.controller.plan import ClaimPlan, Plan, Trouble
from schedkit.sked.controller.slots import Standing
from schedkit.sked.controller.status import make_blind_status, make_status, make_unreadable_status, shorten_status
from schedkit.sked.kube.objects import Key
from tests.unit.sked_controller.making import as_returned, make_claim, make_resource

NOW, LATER = "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"
ONE = make_claim()
PULL = NodeFailure(node="node-1", pod="pod", reason="PullFailed", message="not found")
CRASH = NodeFailure(node="node-2", pod="pod", reason="CrashLooping", message="the scheduler ended with status 1")
CREATE = NodeFailure(node="", reason="FailedCreate", message="violates PodSecurity")
UNKNOWN = "whether the kernels attached it is unknown: no agent runs in the cluster"
FOREIGN = Trouble("ForeignDaemonSet", "it is there already")
ALWAYS = tuple(kind for kind in CONDITION_TYPES if kind != VERIFIED)  # that one only where images are verified


def see(ready: int = 3, desired: int = 3, claim: Claim = ONE, settled: bool | None = None, **more: Any) -> Health:
    """One claim with so many nodes."""
    counts = {name: more.pop(name) for name in NodeCounts.__struct_fields__ if name in more}
    nodes = NodeCounts(
        **({"desired": desired, "scheduled": desired, "ready": ready, "updated": desired, "unknown": desired} | counts),
        unavailable=desired - ready,
    )
    parts = {name: more.pop(name) for name in ("waiting", "trouble", "standing", "drifted") if name in more}
    plan = ClaimPlan(claim, as_returned(make_daemonset(claim)), **parts)
    kernels = more.pop("kernels", Kernels("no agent runs in the cluster"))
    return Health(plan, nodes, kernels, ready == desired if settled is None else settled, **more)


def tell(status: SchedExtStatus, type: str) -> tuple[str, str, str]:
    found = next(condition for condition in status.conditions if condition.type == type)
    return found.status, found.reason, found.message


def status_of(
    *healths: Health,
    resource: SchedExt = ONE.resource,
    leaving: int = 0,
    trouble: Trouble | None = None,
    undecided: str = "",
    now: str = NOW,
) -> SchedExtStatus:
    failures = [failure for health in healths for failure in health.failures]
    plan = Plan(resource, tuple(health.plan for health in healths), leaving=leaving)
    return make_status(plan, healths, failures, undecided, now, trouble)


def standing(**names: list[str]) -> Standing:
    found = {part: dict.fromkeys(listed) for part, listed in names.items()}
    return Standing(**({"contested": dict.fromkeys(name for listed in names.values() for name in listed)} | found))


RUNS = see()
DONE = ("False", "Settled", "everything asked for has been carried out")


@pytest.mark.parametrize(
    ("given", "ready", "progressing"),
    [
        pytest.param({"healths": [RUNS]}, ("True", "Ready", f"3 of 3 pods are ready; {UNKNOWN}"), DONE, id="runs"),
        pytest.param({"healths": [see(0, 0)]}, ("True", "NoNodes", "no node is selected"), DONE, id="no nodes"),
        pytest.param(
            {"healths": [see(2, 3, settled=True, not_ready=1)]},
            ("True", "Ready", f"2 of 3 pods are ready, 1 node NotReady or cordoned; {UNKNOWN}"),
            DONE,
            id="a node is down",
        ),
        pytest.param(
            {"healths": [see(1)]},
            ("False", "Progressing", "1 of 3 pods are ready"),
            ("True", "RollingOut", "3 of 3 nodes have the newest pod, 1 pods are ready"),
            id="not all ready",
        ),
        pytest.param(
            {"healths": [see(3, settled=False, updated=2)]},
            ("False", "Progressing", "3 of 3 pods are ready"),
            ("True", "RollingOut", "2 of 3 nodes have the newest pod, 3 pods are ready"),
            id="not all of the newest spec",
        ),
        pytest.param(
            {"healths": [RUNS], "leaving": 2},
            ("False", "Progressing", "3 of 3 pods are ready"),
            ("True", "Removing", "2 pods are still on their nodes"),
            id="a pool leaves",
        ),
        pytest.param(
            {"healths": [see(0, 0, settled=False, waiting="waits until default/x has left node n")]},
            ("False", "Progressing", "0 of 0 pods are ready"),
            ("True", "WaitingForNodes", "waits until default/x has left node n"),
            id="waits for a pod",
        ),
        pytest.param(
            {"healths": [see(2, 4, settled=False, standing=standing(pending=["b", "a"]))]},
            ("False", "Progressing", "2 of 4 pods are ready"),
            ("True", "WaitingForNodes", "waits until another scheduler has left node a and 1 more"),
            id="waits for slots",
        ),
        pytest.param(
            {"healths": [see(0, 0, yielded=3)]},
            ("False", "Conflicted", "others have every node that this one selects"),
            DONE,
            id="nothing left",
        ),
        pytest.param(
            {"healths": [see(0, 0, settled=False, trouble=FOREIGN)]},
            ("False", "ForeignDaemonSet", "it is there already"),
            ("True", "RollingOut", "0 of 0 nodes have the newest pod, 0 pods are ready"),
            id="somebody else's DaemonSet",
        ),
        pytest.param(
            {"healths": [see(1, failures=(PULL, CRASH), failed=2)]},
            ("False", "PullFailed", "2 nodes fail, first node-1: not found"),
            ("True", "RollingOut", "3 of 3 nodes have the newest pod, 1 pods are ready"),
            id="fails",
        ),
    ],
)
def test_ready_and_progressing(
    given: dict[str, Any], ready: tuple[str, str, str], progressing: tuple[str, str, str]
) -> None:
    status = status_of(*given.pop("healths"), **given)
    assert tell(status, "Ready") == ready
    assert tell(status, "Progressing") == progressing
    assert tell(status, "Reconciling") == progressing
    assert status.summary == ready[1]
    assert tuple(condition.type for condition in status.conditions) == ALWAYS


@pytest.mark.parametrize(
    ("health", "trouble", "degraded", "stalled"),
    [
        (RUNS, None, ("False", "NoFailures", "no node fails"), "False"),
        (
            see(failures=(PULL,), failed=1),
            None,
            ("True", "PullFailed", "the scheduler does not run on 1 node"),
            "False",
        ),
        (
            see(failures=(PULL, CRASH), failed=2),
            None,
            ("True", "SeveralFailures", "the scheduler does not run on 2 nodes"),
            "False",
        ),
        (
            see(failures=(CREATE,), failed=3),
            None,
            ("True", "FailedCreate", "the scheduler does not run on 3 nodes"),
            "True",
        ),
        (see(failures=(PULL,), failed=1), Trouble("Forbidden", "may not"), ("True", "Forbidden", "may not"), "True"),
        (
            see(drifted=True),
            None,
            (
                "True",
                "ModifiedByOthers",
                "someone else added fields to DaemonSet one; its pods may differ from spec",
            ),
            "False",
        ),
    ],
)
def test_degraded_and_stalled(
    health: Health, trouble: Trouble | None, degraded: tuple[str, str, str], stalled: str
) -> None:
    status = status_of(health, trouble=trouble)
    assert tell(status, "Degraded") == degraded
    assert tell(status, "Stalled")[0] == stalled


def test_conflicted_is_for_who_yields_nodes() -> None:
    winners = tuple(Key("default", f"strong-{number}") for number in range(12))
    lost = standing(lost=["a", "b"])
    none = status_of(RUNS)
    both = status_of(see(yielded=12, winners=winners, standing=lost))
    assert tell(none, "Conflicted") == ("False", "NoOverlap", "no other resource has nodes that this one selects")
    told = "yields 12 nodes to default/strong-0, default/strong-1, default/strong-2 and 9 more"
    assert tell(both, "Conflicted") == ("True", "Yields", told)
    assert both.pools[0].excluded_by == tuple(map(str, winners[:10]))
    (cut,) = make_claims(make_resource(priority=7), 0)
    limited = status_of(see(yielded=1, winners=winners[:1], standing=lost, claim=cut))
    told = "yields 1 node to default/strong-0; its priority 7 is limited to 0"
    assert (tell(limited, "Conflicted"), limited.priority) == (("True", "Yields", told), 0)
    reserved = status_of(see(reserved=1, standing=lost))
    assert tell(reserved, "Conflicted") == ("False", "Reserved", "1 node reserved by the slot label")


def test_nodes_that_cannot_be_labelled_are_told() -> None:
    waiting = "other resources want node a too, and sked cannot label nodes: no"
    health = see(0, 0, settled=False, waiting=waiting, standing=standing(unlabelled=["a", "b"]))
    status = status_of(health, undecided="no")
    assert tell(status, "Ready") == ("False", "NodesNotWritable", waiting)
    message = "other resources select 2 nodes too, first a, and sked cannot label nodes"
    assert tell(status, "Conflicted") == ("True", "Undecided", message)


@pytest.mark.parametrize("reason", ["no letters: 1", "", "x" * 10])
def test_reason_is_always_one_that_the_definition_allows(reason: str) -> None:
    failure = msgspec.structs.replace(PULL, reason=reason, message="m" * 5000)
    status = status_of(see(1, failures=(failure,), failed=1))
    _, told, message = tell(status, "Ready")
    assert told == (reason if reason == "x" * 10 else "Other")
    assert len(message) == 1024
    short = shorten_status(status)
    assert all(len(condition.message) <= 200 for condition in short.conditions)
    assert (short.failures, short.pools) == ((), ())


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
    health = see(1, failures=(PULL,), failed=1)
    stored = msgspec.json.decode(msgspec.json.encode(status_of(health)), type=SchedExtStatus)
    again = status_of(health, resource=msgspec.structs.replace(ONE.resource, status=stored), now=LATER)
    assert again == stored


def test_only_what_changed_its_status_has_a_new_time() -> None:
    first = status_of(see(1))
    second = status_of(RUNS, resource=msgspec.structs.replace(ONE.resource, status=first), now=LATER)
    times = {condition.type: condition.last_transition_time for condition in second.conditions}
    changed = dict.fromkeys(("Ready", "Reconciling", "Progressing"), LATER)
    assert times == dict.fromkeys(ALWAYS, NOW) | changed


def test_status_of_what_may_not_be_seen_is_unknown_and_stays_the_same() -> None:
    seen = status_of(RUNS)
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
    status = status_of(see(0, 50, failures=many, failed=50))
    assert status.failures == many[:10]
    assert status.failure_count == 50


def test_counts_and_images_of_pools_are_put_together() -> None:
    other = make_claim("two", sched="example.com/scx_lavd@sha256:0")
    status = status_of(RUNS, see(1, 2, claim=other))
    assert status.scheduler == "scx_rusty,scx_lavd"
    assert status.image == "example.com/scx_rusty:1,example.com/scx_lavd@sha256:0"
    assert status.nodes is not None
    assert (status.nodes.desired, status.nodes.ready, status.nodes.unavailable) == (5, 4, 1)
    assert status.observed_generation == 1
