"""One resource or one node at a time: plan, execute, and write the status."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import TypeVar

from schedkit.sked.api.conditions import Reason
from schedkit.sked.api.types import FAILURES_TOLD, NodeFailure, SchedExt
from schedkit.sked.controller.announcements import Announcer
from schedkit.sked.controller.attachment import NodeState
from schedkit.sked.controller.claims import Claim
from schedkit.sked.controller.crash_logs import CrashLogs
from schedkit.sked.controller.daemonsets import differs, read_revision
from schedkit.sked.controller.ejections import find_ejections
from schedkit.sked.controller.execute import Executor
from schedkit.sked.controller.failure_logs import FailureLogs, Unread
from schedkit.sked.controller.health import Health, examine
from schedkit.sked.controller.holders import is_told, make_holder_status
from schedkit.sked.controller.judgements import Change, Judgements
from schedkit.sked.controller.objects import DaemonSet
from schedkit.sked.controller.plan import (
    REVISION,
    UNVERIFIED,
    ClaimPlan,
    ImageJudgements,
    Plan,
    Trouble,
    note_drift,
    plan_resource,
    plan_slot,
)
from schedkit.sked.controller.quarantine import is_of_earlier, make_note
from schedkit.sked.controller.revisions import RevisionCache
from schedkit.sked.controller.rollout_metrics import RolloutMetrics
from schedkit.sked.controller.status import make_blind_status, make_status
from schedkit.sked.controller.status_writer import StatusWriter
from schedkit.sked.controller.steering import Steered, Steering, Steerings
from schedkit.sked.controller.verifier import Verifier
from schedkit.sked.controller.wiring import Wiring
from schedkit.sked.controller.world import World
from schedkit.sked.kube.errors import ApiError, ApiForbiddenError
from schedkit.sked.kube.logs import fields
from schedkit.sked.kube.objects import Key
from schedkit.sked.kube.workers import Result

AT_ONCE = 16  # pods that bring images, made or removed
RETRY_SECONDS = 60.0  # when only somebody else can fix it, and nothing will tell us

Item = TypeVar("Item")
Done = TypeVar("Done")
_logger = logging.getLogger(__name__)


class Reconciler:
    """Brings one resource's DaemonSets and status, or one node's label, to what they should be."""

    def __init__(
        self,
        world: World,
        wiring: Wiring,
        executor: Executor,
        status_writer: StatusWriter,
        crash_logs: CrashLogs,
        revisions: RevisionCache,
        judgements: Judgements,
        announcer: Announcer,
        now: Callable[[], datetime],
        metrics: RolloutMetrics,
        find_pause: Callable[[Key], float],
        verifier: Verifier | None = None,
    ) -> None:
        self._world = world
        self._wiring = wiring
        self._executor = executor
        self._status_writer = status_writer
        self._failure_logs = FailureLogs(world.pods, crash_logs)
        self._revisions = revisions
        self._judgements = judgements
        self._announcer = announcer
        self._untold: dict[Key, list[Change]] = {}  # until the status that shows it is written
        self._now = now
        self._metrics = metrics
        self._find_pause = find_pause  # how long a resource with so many nodes is left alone between two looks
        self._steering = Steering(world)
        self._verifier = verifier  # None: images are used as they are written

    async def reconcile(self, key: Key) -> Result | None:
        """Called for a resource when anything changed that concerns it."""
        if not self._world.manages(key):
            return None
        if unreadable := self._world.unreadable.get(key):
            self._announcer.note_ready(key, await self._status_writer.write_unreadable(unreadable))
            return None  # what it asks for is unknown: its DaemonSets stay as they are
        resource = self._world.resources.get(*key)
        if resource is None or resource.metadata.deletion_timestamp:
            self._forget(key)
            return None  # its DaemonSets go with it, by their owner references
        if not self._world.is_complete:
            if denied := self._world.denied:
                status = make_blind_status(
                    resource, Trouble(ApiForbiddenError.reason, denied), self._status_writer.now()
                )
                self._announcer.note_ready(key, status.conditions)
                await self._status_writer.write(resource, status)
            return None  # being able to look wakes us
        judgements = self._judge(resource)
        plan = plan_resource(
            self._world, resource, self._executor.written, self._revisions.known, self._now(), judgements
        )
        done, trouble = await self._execute(plan)
        if not trouble and any(claim.apply for claim in done.claims):
            return None  # when it comes into sight it wakes us, after those that have no DaemonSet yet
        return await self._write_status(done, trouble)

    def _judge(self, resource: SchedExt) -> ImageJudgements:
        """What is known of the images that a resource asks for."""
        if self._verifier is None:
            return UNVERIFIED
        found, claims = {}, self._world.placement.claims(resource.metadata.key)
        self._verifier.keep(resource.metadata.key, [claim.workload.pool for claim in claims])
        for claim in claims:
            found[claim.identity] = self._verifier.look(claim, resource)
            self._wiring.note_verified(claim, may_run=found[claim.identity].may_run)
        return found

    async def reconcile_node(self, name: str) -> Result | None:
        """Called for a node when its slot may have to be given to somebody else."""
        node = self._world.nodes.get("", name)
        if node is None or not self._world.is_complete:
            return None
        if late := self._world.give_up_trial(name, self._now()):
            self._wiring.look_again([late])
        if not self._world.sight.has_looked:
            return None  # whether the kernel has detached it may soon be known
        if self._world.expire_quarantine(node, self._now()):
            self._wiring.look_at(name)
        now = self._now()
        present = self._world.workloads.find_present(name, now)
        self._world.note_held(node, present, now)
        plan = plan_slot(self._world, node, present, now)
        if plan.write:
            try:
                await self._executor.write_slot(node, plan.value, plan.quarantine, plan.coming)
            except ApiError as error:
                if not error.is_permanent:
                    raise
                if not self._world.refused_nodes:  # said once, not for thousands of nodes
                    _logger.warning("cannot label node", extra=fields(node=name, error=error.message))
                self._wiring.note_refused_node(name, error.message)
                return Result(after_seconds=RETRY_SECONDS)
            self._wiring.note_refused_node(name, "")
        return Result(after_seconds=plan.again_seconds) if plan.again_seconds is not None else None

    async def reconcile_report(self, name: str) -> Result | None:
        """Called for a node's report when it may not say who has the node."""
        report = self._world.sight.reports.get("", name)
        if report is None or not self._world.is_complete:
            return None
        if is_told(self._world, report):
            return None
        try:
            await self._executor.write_holder(report, make_holder_status(self._world, report))
        except ApiError as error:
            if not error.is_permanent:
                raise
            return Result(after_seconds=RETRY_SECONDS)
        return None

    async def _execute(self, plan: Plan) -> tuple[Plan, Trouble | None]:
        """Do what a plan says; the plan as it was carried out, and the first refusal."""
        trouble: Trouble | None = None
        key = plan.resource.metadata.key
        for unwanted in plan.delete:
            try:
                await self._executor.delete(unwanted)
            except ApiError as error:
                trouble = trouble or _explain(key, error)
        claims = []
        for claim in plan.claims:
            try:
                claims.append(await self._execute_claim(claim))
            except ApiError as error:
                refused = _explain(key, error)
                trouble = trouble or refused
                claims.append(replace(claim, apply=None, trouble=refused))
        return replace(plan, claims=tuple(claims)), trouble

    async def _execute_claim(self, plan: ClaimPlan) -> ClaimPlan:
        if plan.seen:
            if plan.unknown:
                self._look_up(plan.seen, plan.unknown)
            self._wiring.note_refusal(plan.seen)
        for pod in plan.evict:
            await self._executor.evict(pod)
        if plan.apply is None:
            return plan
        wanted = plan.apply
        before = self._world.daemonsets.get(*wanted.metadata.key)  # with several revisions not always what was seen
        written = await self._executor.apply(wanted, force=plan.seen is not None)
        if before is None or written.metadata.generation != before.metadata.generation:
            return replace(plan, seen=written)
        # Nothing changed: no event will come, so what was planned is told now.
        is_main = plan.seen is None or plan.seen.metadata.uid == written.metadata.uid
        done = replace(plan, seen=written if is_main else plan.seen, apply=None)
        return note_drift(done, wanted, written) if differs(wanted, written) else done

    def _look_up(self, daemonset: DaemonSet, revisions: Iterable[str]) -> None:
        """Have it found out what pods of a DaemonSet were made of; that wakes us."""
        in_use = {pod.metadata.labels.get(REVISION, "") for pod in self._world.workloads.pods_of(daemonset)}
        self._revisions.keep(daemonset.metadata.uid, in_use)
        for revision in revisions:
            self._revisions.ask(daemonset, revision)

    def _find_template(self, daemonset: DaemonSet, revision: str) -> bytes | None:
        """What pods are made of; None: it is being looked up. What cannot be read is taken to be the newest."""
        key = daemonset.metadata.uid, revision
        if key in self._revisions.known:
            return self._revisions.known[key]
        self._look_up(daemonset, [revision])
        return read_revision(daemonset.spec.template) if key in self._revisions.unreadable else None

    async def _write_status(self, plan: Plan, trouble: Trouble | None) -> Result | None:
        if not self._world.sight.has_looked:
            return None  # being able to look, or not, wakes us: what is unknown for a moment is not told
        now, key = self._now(), plan.resource.metadata.key
        healths = [examine(self._world, self._judgements, claim, now) for claim in plan.claims]
        failures = [failure for health in healths for failure in health.failures]
        completed = self._failure_logs.complete(plan.resource, failures)
        unread = self._failure_logs.find_unread(plan.resource, failures, completed, now)
        told, healths = completed[:FAILURES_TOLD], _put_failures(healths, completed)
        found = (self._world.find_undecidable(claim.standing) for claim in plan.claims)
        undecided = next(filter(None, found), "")
        steered = await self._steer(healths, unread, now)
        status = make_status(plan, healths, told, undecided, self._status_writer.now(), trouble, steered)
        times = [health.again_seconds for health in healths if health.again_seconds is not None]
        judgements = (claim.judgement for claim in plan.claims if claim.judgement)
        times += [found.again_seconds for found in judgements if found.again_seconds is not None]
        times += [found.again_seconds for found in steered.values() if found.again_seconds is not None]
        times += [(until - now).total_seconds() for until in unread.values()]
        self._announcer.count(key, status.nodes)
        self._announcer.note_ready(key, status.conditions)
        rolling = () if plan.resource.spec.suspend else status.pools
        self._metrics.tell(key, plan.resource.status.pools, rolling)
        self._metrics.measure(key, [gap for found in steered.values() for gap in found.gaps])
        changes = self._judgements.take_changes(key)
        self._announcer.measure(key, changes)
        self._count_ejections(plan.resource, healths, changes, unread)
        if changes:
            self._untold.setdefault(key, []).extend(changes)
        pause = self._find_pause(key)  # with thousands of nodes there is always one of which time changes something
        times = [max(time, pause) for time in times]
        later = await self._status_writer.write(plan.resource, status)
        if later is not None:
            times.append(later)
        elif untold := self._untold.pop(key, []):
            self._announce(plan.resource, untold, told)
        waits = trouble or plan.trouble or any(claim.waiting or claim.trouble for claim in plan.claims)
        if waits or any(failure.reason == Reason.FAILED_CREATE for failure in failures):
            times.append(RETRY_SECONDS)
        return Result(after_seconds=min(times)) if times else None

    async def _steer(self, healths: Sequence[Health], unread: Unread, now: datetime) -> Steerings:
        """Decide what rollouts do next; nodes follow as far as it was noted down before."""
        steered = {}
        for health in healths:
            plan, claim = health.plan, health.plan.claim
            verified = plan.judgement is None or plan.judgement.may_run
            # An image that is refused keeps nobody from going back.
            if plan.revisions is None or (plan.trouble and verified):
                continue
            found = self._steering.steer(
                claim,
                plan.revisions,
                health.kernels.judged,
                health.failures,
                now,
                unread=unread,
                quarantined=health.nodes.quarantined,
                verified=verified,
            )
            self._wiring.note_assignment(claim, found.assignment)
            steered[claim.identity] = found
            await self._pull(claim, found)
        return steered

    async def _pull(self, claim: Claim, steered: Steered) -> None:
        """Pull images on nodes first; if that is not allowed, nodes are moved without it."""
        try:
            made = await _do_all(self._executor.pull, steered.pull)
            if self._steering.note_pulls(claim, steered.pull, made, self._now()):
                self._wiring.wake(claim.owner)
            await _do_all(self._executor.evict, steered.drop)
        except ApiError as error:
            if not error.is_permanent:
                raise
            if self._steering.give_up_pulls(claim.owner):
                _logger.warning("cannot pull ahead", extra=fields(resource=claim.owner, error=error.message))
                self._wiring.wake(claim.owner)

    def _count_ejections(
        self, resource: SchedExt, healths: Sequence[Health], changes: Sequence[Change], unread: Unread
    ) -> None:
        """Put nodes in quarantine whose kernels ejected a scheduler too often; not before its log was read."""
        asked, key, now = resource.spec.quarantine, resource.metadata.key, self._now()
        if asked is None:
            return
        for found in find_ejections(self._world, resource, healths, changes, self._find_template, now):
            report = self._world.sight.reports.get("", found.node)
            told = report.status.ejections if report else None
            if told and is_of_earlier(told, resource):
                told = None
            if self._world.ejections.count(found, told, asked, held=found.pod in unread):
                self._wiring.note_quarantine(found.node, make_note(key, found.revision, asked, found.message, now))
            self._wiring.look_at_report(found.node)

    def _announce(self, resource: SchedExt, changes: Sequence[Change], told: Sequence[NodeFailure]) -> None:
        """Tell what changed; of one that was ejected when its log has been read."""
        waiting = {failure.node for failure in told if self._failure_logs.is_unread(resource, failure)}
        held = [change for change in changes if change.node in waiting]
        if held:
            self._untold[resource.metadata.key] = held
        latest = {change.node: change for change in changes if change.node not in waiting}
        ejected = (change for change in changes if change.after.state is NodeState.EJECTED)
        # An ejection is told whatever came after it, as what had waited for the slot.
        hidden = {change.node: change for change in ejected if latest.get(change.node, change) is not change}
        news = [*latest.values(), *hidden.values()]
        self._announcer.announce(resource, news, told, lambda name: self._world.nodes.get("", name))

    def _forget(self, resource: Key) -> None:
        self._untold.pop(resource, None)
        self._judgements.forget_resource(resource)
        self._announcer.forget(resource)
        self._steering.forget(resource)
        self._failure_logs.forget(resource)
        self._world.forget_resource(resource)
        self._metrics.forget(resource)


def _put_failures(healths: Sequence[Health], failures: Sequence[NodeFailure]) -> list[Health]:
    """The health of claims with their failures as they are known now; in the same order."""
    left = iter(failures)
    return [replace(health, failures=tuple(islice(left, len(health.failures)))) for health in healths]


async def _do_all(do: Callable[[Item], Awaitable[Done]], items: Sequence[Item]) -> list[Done]:
    """Do one thing to many objects, some at a time: one after the other, nodes would wait for it."""
    done: list[Done] = []
    for first in range(0, len(items), AT_ONCE):
        done += await asyncio.gather(*map(do, items[first : first + AT_ONCE]))
    return done


def _explain(key: Key, error: ApiError) -> Trouble:
    """A refusal as what the status tells; whatever trying again soon may fix is raised again."""
    if not error.is_permanent:
        raise error
    _logger.warning("cannot write", extra=fields(resource=key, error=error.message))
    return Trouble.from_error(error)
