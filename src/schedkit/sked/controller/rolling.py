"""Claims with a rollout: their revisions as DaemonSets, and what is asked for and remembered of them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from schedkit.sked.api.requests import PROMOTE, REQUEST_LENGTH, RETRY, UNDO, make_slot
from schedkit.sked.api.rollout_types import FailedRevision, RolloutRequests, RolloutStatus
from schedkit.sked.api.types import SchedExt
from schedkit.sked.controller.attachment import parse_time
from schedkit.sked.controller.claims import Claim
from schedkit.sked.controller.daemonsets import (
    differs,
    find_waiter,
    make_daemonset,
    make_waiter,
    name_revision,
    same_work,
)
from schedkit.sked.controller.failures import shorten
from schedkit.sked.controller.objects import DaemonSet, InitContainer
from schedkit.sked.controller.progress import Cause, Progress, Requests
from schedkit.sked.controller.slots import read_slot
from schedkit.sked.controller.verification import ImageJudgement, fit, keep_containers
from schedkit.sked.controller.world import World
from schedkit.sked.kube.objects import Key, format_time

ASKED = (PROMOTE, RETRY, UNDO)
MESSAGE_LENGTH = 1024
HISTORY_LIMIT = 5
NOTHING_HANDLED = RolloutRequests()


@dataclass(frozen=True)
class RevisionPlan:
    """The revisions of a claim, and what is to be done to their DaemonSets."""

    seen: tuple[DaemonSet, ...] = ()
    target: str = ""  # the one that is asked for; empty: not known
    by_spec: str = ""  # the one that the spec asks for; empty: not known
    chosen: bool = False  # whether a person chose another
    apply: DaemonSet | None = None
    prune: tuple[DaemonSet, ...] = ()

    def find(self, name: str) -> DaemonSet | None:
        """A revision's DaemonSet."""
        return next((seen for seen in self.seen if seen.metadata.name == name), None)


def plan_revisions(
    world: World, claim: Claim, judgement: ImageJudgement | None, written: Mapping[str, tuple[int, DaemonSet]]
) -> RevisionPlan:
    """The revisions of a claim that has a rollout, and which of their DaemonSets is to be written next."""
    resource = find_newest(world, claim)
    known = read_status(resource, claim)
    seen = tuple(world.workloads.find_revisions(claim))
    wanted = fit(make_daemonset(claim), judgement, None, ())
    by_spec = _find_by_spec(claim, known, seen, wanted)
    target = _find_chosen(resource, known, seen, by_spec) or by_spec
    chosen = target != by_spec
    revisions = RevisionPlan(seen, target, by_spec, chosen)
    if not target:
        return revisions
    current = known.current_revision if known else ""
    if wanted is not None and revisions.find(target) is None:
        image = world.sight.find_agent_image()
        waiter = make_waiter(image, claim.workload.resources) if image else None
        made = _make(world, claim, target, current, waiter)
        return replace(revisions, apply=fit(made, judgement, None, ()))
    if known is None:
        return revisions  # what is there stays as it is until it is noted down which one is stable
    # Who is not stable gives up free nodes before somebody else takes them.
    for found in sorted(seen, key=lambda item: item.metadata.name == current):
        name = found.metadata.name
        made = _make(world, claim, name, current, _update_waiter(world, found))
        is_asked_for = name == target and not chosen and wanted is not None
        asked = fit(made, judgement, None, ()) if is_asked_for else _keep_work(made, found)
        left_so = written.get(found.metadata.uid) == (found.metadata.generation, asked)
        if asked and differs(asked, found) and not left_so:
            return replace(revisions, apply=asked)
    return replace(revisions, prune=_find_old(world, claim, known, revisions))


def find_newest(world: World, claim: Claim) -> SchedExt:
    """A claim's resource with its newest status and annotations: a claim is made again only for another spec."""
    return world.resources.get(*claim.owner) or claim.resource


def read_status(resource: SchedExt, claim: Claim) -> RolloutStatus | None:
    """What was noted down of a claim's rollout."""
    return next((pool.rollout for pool in resource.status.pools if pool.name == claim.workload.pool), None)


def read_progress(known: RolloutStatus | None, revisions: RevisionPlan) -> Progress:
    """How far a rollout was when it was last noted down; a stable revision that somebody deleted is none any more."""
    if known is None:
        return Progress()
    current = known.current_revision if revisions.find(known.current_revision) else ""
    failed, since = known.failed_revision, parse_time(known.since)
    time = parse_time(failed.time) if failed else None
    return Progress(
        current,
        known.update_revision,
        known.phase,
        known.step,
        since,
        Cause(failed.revision, failed.node, failed.reason, failed.message, time) if failed and time else None,
    )


def read_requests(resource: SchedExt, known: RolloutStatus | None, revisions: RevisionPlan) -> Requests:
    """What people ask for that has not been carried out yet."""
    handled = (known.handled if known else None) or NOTHING_HANDLED
    asked = read_asked(resource)
    return Requests(
        resource.spec.paused,
        promote=asked.promote != handled.promote,
        retry=asked.retry != handled.retry,
        at_once=revisions.chosen,
    )


def read_asked(resource: SchedExt) -> RolloutRequests:
    """The values of the annotations by which people ask for something."""
    found = resource.metadata.annotations
    promote, retry, undo = (found.get(name, "")[:REQUEST_LENGTH] for name in ASKED)
    return RolloutRequests(promote=promote, retry=retry, undo=undo)


def tell_progress(progress: Progress, message: str) -> RolloutStatus:
    """A rollout's progress as the status has it."""
    cause = progress.failed
    return RolloutStatus(
        phase=progress.phase,
        step=progress.step,
        message=shorten(message, MESSAGE_LENGTH),
        since=format_time(progress.since) if progress.since else None,
        current_revision=progress.current,
        update_revision=progress.update,
        failed_revision=FailedRevision(
            revision=cause.revision,
            node=cause.node,
            reason=cause.reason,
            message=shorten(cause.message, MESSAGE_LENGTH),
            time=format_time(cause.time),
        )
        if cause
        else None,
    )


def _find_by_spec(
    claim: Claim, known: RolloutStatus | None, seen: Sequence[DaemonSet], wanted: DaemonSet | None
) -> str:
    """The revision that the spec asks for."""
    if wanted is None:  # as its image is not verified: what was asked for before stays
        before = (known.undone_revision or known.update_revision) if known else ""
        return before if any(found.metadata.name == before for found in seen) else ""
    same = next((found.metadata.name for found in seen if same_work(wanted, found)), "")
    return same or name_revision(claim, wanted)


def _find_chosen(resource: SchedExt, known: RolloutStatus | None, seen: Sequence[DaemonSet], by_spec: str) -> str:
    """The revision that a person chose since the spec last asked for another one; empty: none."""
    names = {found.metadata.name for found in seen}
    handled = (known.handled if known else None) or NOTHING_HANDLED
    undo = read_asked(resource).undo
    asked = undo.partition(" ")[0]
    if undo != handled.undo and asked in names:
        return asked
    holds = known is not None and known.undone_revision == by_spec != ""
    return known.update_revision if known and holds and known.update_revision in names else ""


def _make(world: World, claim: Claim, name: str, current: str, waiter: InitContainer | None) -> DaemonSet:
    """The DaemonSet of a revision. Where no slot is given yet, the stable one runs."""
    own = make_slot(Key(claim.key.namespace, name))
    slots = (own, *world.find_short_name(claim)) if name == current else (own,)
    return make_daemonset(claim, slots, name=name, takes_free=name == current, waiter=waiter)


def _update_waiter(world: World, found: DaemonSet) -> InitContainer | None:
    """What a revision's pods wait with: of an image that an agent still has, or else of the newest.

    After an upgrade of sked a node that joins may not get the old one any more. Pods that are there stay as they are:
    so one that is older than its rollout gets it too, for when nodes come back to it. Where the newest takes
    credentials, which the pods of schedulers do not have, nothing waits any more.
    """
    waiter, sight = find_waiter(found), world.sight
    before = waiter.image if waiter else ""
    image = before if before and sight.has_agent_of(before) else sight.find_agent_image()
    if image is None:  # which one it would be is not known
        image = before
    return make_waiter(image, found.spec.template.spec.containers[0].resources) if image else None


def _keep_work(made: DaemonSet, found: DaemonSet) -> DaemonSet | None:
    """Where to run as the spec says, what to run as this revision has it."""
    kept = keep_containers(made, found)
    if kept is None:
        return None
    there, template = found.spec.template.spec, kept.spec.template
    pod = msgspec.structs.replace(
        template.spec, priority_class_name=there.priority_class_name, image_pull_secrets=there.image_pull_secrets
    )
    spec = msgspec.structs.replace(kept.spec, template=msgspec.structs.replace(template, spec=pod))
    return msgspec.structs.replace(kept, spec=spec)


def _find_old(world: World, claim: Claim, known: RolloutStatus, revisions: RevisionPlan) -> tuple[DaemonSet, ...]:
    """The revisions that no node has and that are not worth keeping."""
    asked = claim.rollout.revision_history_limit if claim.rollout else None
    limit = HISTORY_LIMIT if asked is None else asked
    used = {known.current_revision, known.update_revision, revisions.target}
    idle = [seen for seen in revisions.seen if seen.metadata.name not in used and not world.workloads.count_pods(seen)]
    if len(idle) <= limit:
        return ()
    nodes = (world.nodes.get("", name) for name in world.placement.of(claim))
    given = {read_slot(node).value for node in nodes if node}
    idle = [seen for seen in idle if make_slot(seen.metadata.key) not in given]
    newest = sorted(idle, key=lambda seen: seen.metadata.creation_timestamp or "", reverse=True)
    return tuple(newest[limit:])


def note_asked(
    status: RolloutStatus,
    resource: SchedExt,
    before: RolloutStatus | None,
    revisions: RevisionPlan,
    kept: Collection[str],
) -> RolloutStatus:
    """A rollout's status that remembers what people asked for, and for which spec they chose a revision.

    `kept` are the revisions of all pools: what is another pool's is carried out there.
    """
    asked = read_asked(resource)
    handled = (before.handled if before else None) or NOTHING_HANDLED
    if resource.spec.paused:  # it is carried out when it goes on
        asked = msgspec.structs.replace(asked, promote=handled.promote)
    unknown = asked.undo.partition(" ")[0]
    if asked.undo not in ("", handled.undo) and unknown not in kept:
        asked = msgspec.structs.replace(asked, undo=handled.undo)
        message = f"{UNDO} names {unknown}, which is not a kept revision; {status.message}"
        status = msgspec.structs.replace(status, message=shorten(message, MESSAGE_LENGTH))
    undone = revisions.by_spec if revisions.chosen else ""
    return msgspec.structs.replace(status, undone_revision=undone, handled=asked)
