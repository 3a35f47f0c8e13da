"""What leases say, and to whom; the election itself is tested against a real API server."""

import re
from datetime import UTC, datetime, timedelta, timezone

import msgspec

from schedkit.sked.kube.lease import Lease, LeaseSpec, Observed, claim, make_identity, observe, released
from schedkit.sked.kube.objects import ObjectMeta, format_micro_time, format_time

NOON = datetime(2026, 1, 2, 12, 0, 0, 42, tzinfo=UTC)
HELD = LeaseSpec(
    holder_identity="go_1",
    lease_duration_seconds=15,
    acquire_time="2026-01-02T10:00:00.000000Z",
    renew_time="2026-01-02T11:59:59.000000Z",
    lease_transitions=3,
)


def lease(spec: LeaseSpec, version: str = "1") -> Lease:
    return Lease(metadata=ObjectMeta(name="l", resource_version=version), spec=spec)


def test_times_are_written_as_kubernetes_writes_them() -> None:
    assert format_micro_time(NOON) == "2026-01-02T12:00:00.000042Z"
    assert format_micro_time(NOON.replace(microsecond=0)) == "2026-01-02T12:00:00.000000Z"
    assert format_time(NOON.astimezone(timezone(timedelta(hours=2)))) == "2026-01-02T12:00:00Z"


def test_taking_a_lease_counts_a_transition_and_renewing_does_not() -> None:
    taken = claim(HELD, "us_2", NOON, 15)
    assert taken == LeaseSpec(
        holder_identity="us_2",
        lease_duration_seconds=15,
        acquire_time="2026-01-02T12:00:00.000042Z",
        renew_time="2026-01-02T12:00:00.000042Z",
        lease_transitions=4,
    )
    renewed = claim(taken, "us_2", NOON + timedelta(seconds=2), 15)
    assert renewed == msgspec.structs.replace(taken, renew_time="2026-01-02T12:00:02.000042Z")


def test_released_lease_is_written_as_client_go_writes_it() -> None:
    assert msgspec.to_builtins(released(HELD, NOON)) == {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "acquireTime": "2026-01-02T12:00:00.000042Z",
        "renewTime": "2026-01-02T12:00:00.000042Z",
        "leaseTransitions": 3,
    }


def test_lease_runs_out_by_our_clock_from_the_last_change_we_saw() -> None:
    seen = observe(None, lease(HELD), 100.0)
    assert seen.is_held(114.9)
    assert not seen.is_held(115.0)
    # The renewal time is the holder's clock, hours ahead or behind: that it changed is all that counts.
    renewed = msgspec.structs.replace(HELD, renew_time="2031-01-01T00:00:00.000000Z")
    again = observe(seen, lease(renewed, "2"), 114.0)
    assert again.is_held(128.9)
    assert not again.is_held(129.0)


def test_looking_again_at_an_unchanged_lease_does_not_prolong_it() -> None:
    seen = observe(observe(None, lease(HELD), 100.0), lease(HELD, "2"), 110.0)
    assert seen == Observed(lease(HELD, "2"), 100.0)


def test_lease_of_nobody_is_free_at_once() -> None:
    assert not Observed(lease(released(HELD, NOON)), 100.0).is_held(100.0)
    assert not Observed(lease(LeaseSpec()), 100.0).is_held(100.0)


def test_identity_is_host_and_uuid_and_never_the_same() -> None:
    assert re.fullmatch(r".+_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", make_identity())
    assert make_identity() != make_identity()
