"""What leases say, and to whom, and slow servers; elections are tested against a real API server."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from aiohttp import web

from schedkit.sked.kube.lease import (
    Elector,
    LeadershipLostError,
    Lease,
    LeaseSpec,
    ObservedLease,
    claim,
    make_identity,
    observe,
    released,
)
from schedkit.sked.kube.objects import ObjectMeta, format_micro_time, format_time
from tests.unit.sked_kube.tools import ManualClock, fake_client, status, until

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
    assert seen == ObservedLease(lease(HELD, "2"), 100.0)


def test_lease_of_nobody_is_free_at_once() -> None:
    assert not ObservedLease(lease(released(HELD, NOON)), 100.0).is_held(100.0)
    assert not ObservedLease(lease(LeaseSpec()), 100.0).is_held(100.0)


def test_identity_is_host_and_uuid_and_never_the_same() -> None:
    assert re.fullmatch(r".+_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", make_identity())
    assert make_identity() != make_identity()


class LeaseServer:
    """Keeps one lease; `before` is called with each request's method before it is looked at, and may take its time."""

    def __init__(self, spec: LeaseSpec | None = None) -> None:
        self.spec = msgspec.to_builtins(spec) if spec is not None else None
        self.methods: list[str] = []
        self.before: Callable[[str], Awaitable[None]] | None = None

    async def __call__(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read() or b"{}")
        self.methods.append(request.method)
        if self.before is not None:
            await self.before(request.method)
        if request.method == "GET" and self.spec is None:
            return status(404, "NotFound")
        if request.method in ("POST", "PATCH"):
            self.spec = body["spec"]
        return web.json_response({"metadata": {"name": "l", "resourceVersion": "1"}, "spec": self.spec})

    @property
    def holder(self) -> str:
        return str(self.spec["holderIdentity"]) if self.spec else ""


@asynccontextmanager
async def elected(
    server: LeaseServer, clock: ManualClock
) -> AsyncIterator[tuple[Elector, Callable[[], Awaitable[None]]]]:
    """An elector whose naps move the clock, and something to lead that never ends."""

    async def sleep(seconds: float) -> None:
        clock.now += seconds
        await asyncio.sleep(0)

    async def lead() -> None:
        await asyncio.Event().wait()

    async with fake_client(server) as client:
        yield Elector(client, "l", "n", identity="us", clock=clock.time, sleep=sleep), lead


@pytest.mark.parametrize("free", [None, LeaseSpec()], ids=["created", "taken"])
async def test_time_to_renew_counts_from_the_last_renewal_that_was_sent(free: LeaseSpec | None) -> None:
    """Its answer may come seconds later; for everybody else the lease runs since it arrived."""
    server, clock = LeaseServer(free), ManualClock()
    began = clock.now

    async def slow(method: str) -> None:
        if method != "GET":
            clock.now += 9

    server.before = slow
    async with elected(server, clock) as (elector, lead):
        with pytest.raises(LeadershipLostError, match="not renewed in 10 s"):
            await asyncio.wait_for(elector.run(lead), 30)
    claims = [method for method in server.methods if method != "GET"]
    assert claims == ["PATCH" if free else "POST", "PATCH"], "the claim and the release: no renewal is sent too late"
    assert clock.now - 9 - began <= 10, "given up in time, before the release was answered"


async def test_renewals_in_time_go_on() -> None:
    server, clock = LeaseServer(), ManualClock()
    async with elected(server, clock) as (elector, lead):
        running = asyncio.ensure_future(elector.run(lead))
        await until(lambda: server.methods.count("PATCH") >= 20)
        assert elector.holds
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert server.holder == ""


async def test_passing_trouble_of_the_server_is_survived_and_lasting_is_not() -> None:
    class Troubled(LeaseServer):
        refusals = 2

        async def __call__(self, request: web.Request) -> web.Response:
            if request.method == "PATCH" and self.refusals:
                self.refusals -= 1
                return status(409, "Conflict")
            return await super().__call__(request)

    server, clock = Troubled(), ManualClock()
    async with elected(server, clock) as (elector, lead):
        running = asyncio.ensure_future(elector.run(lead))
        await until(lambda: server.methods.count("PATCH") >= 5)
        assert not running.done()
        server.refusals = 1000
        with pytest.raises(LeadershipLostError, match="not renewed in 10 s: patch Lease n/l"):
            await asyncio.wait_for(running, 30)


async def test_leader_that_was_frozen_does_not_hold_the_lease_before_it_looks() -> None:
    server, clock, frozen = LeaseServer(), ManualClock(), asyncio.Event()

    async def sleep(_seconds: float) -> None:
        await frozen.wait()

    async def lead() -> None:
        await asyncio.Event().wait()

    async def slow(method: str) -> None:
        clock.now += 5 if method == "POST" else 0

    server.before = slow
    async with fake_client(server) as client:
        elector = Elector(client, "l", "n", identity="us", clock=clock.time, sleep=sleep)
        assert not elector.holds
        sent = clock.now
        running = asyncio.ensure_future(elector.run(lead))
        await until(lambda: elector.leads)
        assert elector.holds
        clock.now = sent + 14.9
        assert elector.holds
        clock.now = sent + 15
        assert (elector.leads, elector.holds) == (True, False), "others count from when it was sent, not answered"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert not elector.holds


@pytest.mark.parametrize("free", [None, LeaseSpec()], ids=["created", "taken"])
async def test_claim_that_is_under_way_when_the_program_ends_is_released(free: LeaseSpec | None) -> None:
    server, claiming, go = LeaseServer(free), asyncio.Event(), asyncio.Event()

    async def hold(method: str) -> None:
        if method != "GET":
            claiming.set()
            await go.wait()

    server.before = hold
    async with elected(server, ManualClock()) as (elector, lead):
        running = asyncio.ensure_future(elector.run(lead))
        await claiming.wait()
        running.cancel()
        await asyncio.sleep(0.01)
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, 30)
        assert not elector.leads
    claims = [method for method in server.methods if method != "GET"]
    assert claims == ["PATCH" if free else "POST", "PATCH"]
    assert server.holder == ""


async def test_end_does_not_wait_for_a_look_that_is_not_answered() -> None:
    server, looking = LeaseServer(), asyncio.Event()

    async def hang(_method: str) -> None:
        looking.set()
        await asyncio.Event().wait()

    server.before = hang
    async with elected(server, ManualClock()) as (elector, lead):
        running = asyncio.ensure_future(elector.run(lead))
        await looking.wait()
        running.cancel()
        async with asyncio.timeout(2):  # less than it takes to wait for a claim
            await asyncio.gather(running, return_exceptions=True)
