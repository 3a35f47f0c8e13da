"""Leader election on a Lease, in the form and the manner of client-go's: each can take over from the other."""

import asyncio
import logging
import math
import random
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from schedkit.errors import SchedkitError
from schedkit.sked.kube.client import Client
from schedkit.sked.kube.errors import ApiAlreadyExistsError, ApiConflictError, ApiNotFoundError
from schedkit.sked.kube.logs import fields
from schedkit.sked.kube.metrics import MetricsRegistry
from schedkit.sked.kube.objects import Model, ObjectMeta, format_micro_time, utc_now
from schedkit.sked.kube.resources import LEASES

JITTER = 1.2  # client-go's: a retry comes after one period and up to 1.2 more
RELEASE_SECONDS = 5.0
CLAIM_SECONDS = 2.0  # that the end waits for the answer to a claim
_logger = logging.getLogger(__name__)


class LeadershipLostError(SchedkitError):
    """Somebody else leads, or might by now; whatever this process was about to write is theirs to write."""

    reason = "LeadershipLost"


# Nothing is left out of what is written: an empty holder is what says that the lease is free.
class LeaseSpec(Model, frozen=True, omit_defaults=False):
    """Who leads, since when, and for how long without a sign."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Model, frozen=True):
    """The object that everyone who wants to lead writes to."""

    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()


@dataclass(frozen=True)
class Timing:
    """How long a lease holds, how long to try to renew it, how often. The defaults are controller-runtime's."""

    lease_seconds: int = 15
    renew_seconds: float = 10.0
    retry_seconds: float = 2.0


@dataclass(frozen=True)
class ObservedLease:
    """A lease and when we first saw it so. Other hosts' clocks are not believed, only that something changed."""

    lease: Lease
    at: float

    def is_held(self, now: float) -> bool:
        """Whether somebody holds it, by our own clock."""
        spec = self.lease.spec
        return bool(spec.holder_identity) and now < self.at + (spec.lease_duration_seconds or 0)


def observe(before: ObservedLease | None, lease: Lease, now: float) -> ObservedLease:
    """What we know after another look: the time counts from the last change."""
    if before is not None and before.lease.spec == lease.spec:
        return ObservedLease(lease, before.at)
    return ObservedLease(lease, now)


def claim(old: LeaseSpec, identity: str, time: datetime, lease_seconds: int) -> LeaseSpec:
    """The lease as ours: renewed when it was already, else taken, which counts as a transition."""
    now = format_micro_time(time)
    ours = old.holder_identity == identity
    transitions = old.lease_transitions or 0
    return LeaseSpec(
        holder_identity=identity,
        lease_duration_seconds=lease_seconds,
        acquire_time=old.acquire_time if ours else now,
        renew_time=now,
        lease_transitions=transitions if ours else transitions + 1,
    )


def released(old: LeaseSpec, time: datetime) -> LeaseSpec:
    """The lease as nobody's, to be taken at once."""
    now = format_micro_time(time)
    return LeaseSpec(
        holder_identity="",
        lease_duration_seconds=1,
        acquire_time=now,
        renew_time=now,
        lease_transitions=old.lease_transitions or 0,
    )


def make_identity() -> str:
    """A name for this process that no other has."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class Elector:
    """Wants to lead, and while it does runs one function."""

    def __init__(
        self,
        client: Client,
        name: str,
        namespace: str,
        *,
        identity: str = "",
        timing: Timing | None = None,
        registry: MetricsRegistry | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utc_now,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.identity = identity or make_identity()
        self.name = name
        self.trouble = ""  # why it neither leads nor knows who does; a check for readiness
        self._client = client
        self._namespace = namespace
        self._timing = timing or Timing()
        self._clock = clock
        self._now = now
        self._sleep = sleep
        self._observed: ObservedLease | None = None
        self._renewed = -math.inf  # when the last claim that succeeded was sent: others saw it later than that
        self._claiming = False  # whether a claim was sent and not answered yet
        self._status = (
            (registry or MetricsRegistry())
            .gauge("leader_election_master_status", "Whether this process leads: 1, or 0.", ("name",))
            .of(name)
        )

    @property
    def holder(self) -> str:
        """Who leads, as far as we have seen."""
        return (self._observed.lease.spec.holder_identity or "") if self._observed else ""

    @property
    def leads(self) -> bool:
        """Whether the lease says that we lead."""
        return self.holder == self.identity

    @property
    def holds(self) -> bool:
        """Whether we lead and nobody else can yet, by our own clock: to be asked before each write."""
        return self.leads and self._clock() < self._renewed + self._timing.lease_seconds

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, lead until that ends, release the lease; losing it cancels `lead` and raises."""
        try:
            await self._acquire()
        except asyncio.CancelledError:
            await self._release()
            raise
        self._status.set(1)
        _logger.info("leading", extra=self._about())
        leading = asyncio.ensure_future(lead())
        renewing = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait({leading, renewing}, return_when=asyncio.FIRST_COMPLETED)
            if leading.done():
                leading.result()
            else:
                renewing.result()
        finally:
            for task in (leading, renewing):
                task.cancel()
            await asyncio.gather(leading, renewing, return_exceptions=True)
            self._status.set(0)
            await self._release()

    async def _acquire(self) -> None:
        _logger.info("waiting to lead", extra=self._about())
        last = ""
        while True:
            try:
                if await self._attempt_to_the_end():
                    self.trouble = ""
                    return
                told, self.trouble = f"{self.holder or 'another manager'} leads", ""
            except SchedkitError as error:
                told = self.trouble = error.message
            if told != last:
                _logger.info("not leading", extra=fields(lease=self.name, why=told))
                last = told
            period = self._timing.retry_seconds
            await self._sleep(period + random.random() * JITTER * period)  # noqa: S311

    async def _attempt_to_the_end(self) -> bool:
        """One attempt; when cancelled amid a claim it waits for the answer, so that a lease that we got is released."""
        attempt = asyncio.ensure_future(self._attempt())
        try:
            return await asyncio.shield(attempt)
        except asyncio.CancelledError:
            if self._claiming:
                await asyncio.wait({attempt}, timeout=CLAIM_SECONDS)
            attempt.cancel()
            await asyncio.gather(attempt, return_exceptions=True)
            raise

    async def _renew(self) -> None:
        """Renew again and again; returns never, raises when the lease is lost or cannot be renewed in time."""
        while True:
            await self._sleep(min(self._timing.retry_seconds, max(0.0, self._time_left())))
            try:
                if self._time_left() <= 0:
                    raise TimeoutError
                async with asyncio.timeout(self._time_left()):
                    if await self._attempt():
                        self.trouble = ""
                        continue
            except SchedkitError as error:
                self.trouble = error.message
            except TimeoutError as error:
                why = f"not renewed in {self._timing.renew_seconds:g} s: {self.trouble or 'no answer'}"
                raise LeadershipLostError(f"the lease {self.name} was {why}") from error
            else:
                raise LeadershipLostError(f"{self.holder} leads now, not {self.identity}")

    def _time_left(self) -> float:
        """How long to try to renew: from the last renewal that was sent and succeeded."""
        return self._renewed + self._timing.renew_seconds - self._clock()

    async def _attempt(self) -> bool:
        """Take or renew the lease, once. False: somebody else has it."""
        if self._observed is not None and self.leads and self._observed.is_held(self._clock()):
            try:
                await self._write(self._claim(self._observed.lease))
            except (ApiConflictError, ApiNotFoundError):
                pass  # it is not as we remember it: look
            else:
                return True
        try:
            lease = await self._client.fetch(LEASES, Lease, self.name, namespace=self._namespace)
        except ApiNotFoundError:
            return await self._create()
        self._observed = observe(self._observed, lease, self._clock())
        if not self.leads and self._observed.is_held(self._clock()):
            return False
        try:
            await self._write(self._claim(lease))
        except ApiConflictError:
            # Somebody wrote between our look and our writing; who, the next look tells.
            if self.leads:
                raise
            return False
        return True

    async def _create(self) -> bool:
        spec = claim(LeaseSpec(), self.identity, self._now(), self._timing.lease_seconds)
        spec = msgspec.structs.replace(spec, lease_transitions=0)  # from nobody is no transition
        body = Lease(metadata=ObjectMeta(name=self.name, namespace=self._namespace), spec=spec)
        try:
            await self._send(self._client.create(LEASES, Lease, body, namespace=self._namespace))
        except ApiAlreadyExistsError:
            return False
        return True

    def _claim(self, lease: Lease) -> Lease:
        return self._change(lease, claim(lease.spec, self.identity, self._now(), self._timing.lease_seconds))

    def _change(self, lease: Lease, spec: LeaseSpec) -> Lease:
        # As a patch, what others keep on the object stays; with its version, it fails if somebody else was faster.
        return Lease(metadata=ObjectMeta(resource_version=lease.metadata.resource_version), spec=spec)

    async def _write(self, patch: Lease) -> None:
        await self._send(self._client.patch(LEASES, Lease, self.name, patch, namespace=self._namespace))

    async def _send(self, claim: Coroutine[Any, Any, Lease]) -> None:
        sent = self._clock()  # what counts for others is when it arrives, which is later
        self._claiming = True
        try:
            lease = await claim
        finally:
            self._claiming = False
        self._observed = ObservedLease(lease, sent)
        self._renewed = sent

    async def _release(self) -> None:
        """Let somebody else lead at once; when that fails, they wait for the lease to run out."""
        if not self.leads:
            return
        self._observed = None
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                # A renewal that was cut off may have arrived: look again rather than trust what we remember.
                lease = await self._client.fetch(LEASES, Lease, self.name, namespace=self._namespace)
                if lease.spec.holder_identity != self.identity:
                    return
                patch = self._change(lease, released(lease.spec, self._now()))
                await self._client.patch(LEASES, Lease, self.name, patch, namespace=self._namespace)
        except (SchedkitError, TimeoutError) as error:
            why = str(error) or "no answer"
            _logger.warning("lease not released", extra=fields(lease=self.name, error=why))
        else:
            _logger.info("lease released", extra=self._about())

    def _about(self) -> dict[str, dict[str, object]]:
        return fields(lease=f"{self._namespace}/{self.name}", identity=self.identity)
