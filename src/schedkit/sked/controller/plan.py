"""What is to be done for one resource, and for one node: pure functions of what is known, to values that say it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from schedkit.errors import SchedkitError
from schedkit.sked.api.conditions import Reason
from schedkit.sked.api.names import KIND
from schedkit.sked.api.requests import NONE, QUARANTINE
from schedkit.sked.api.selectors import InvalidSelectorError
from schedkit.sked.api.types import ON_DELETE, SchedExt
from schedkit.sked.controller.attachment import parse_time
from schedkit.sked.controller.claims import Claim, Identity, make_claims
from schedkit.sked.controller.daemonsets import (
    differs,
    follows_slot,
    make_daemonset,
    read_claim,
    read_revision,
    remove_slot,
    same_pods,
    same_work,
)
from schedkit.sked.controller.failures import is_overdue, is_ready, late_in, overdue_in, read_node
from schedkit.sked.controller.objects import DaemonSet, Node, Pod
from schedkit.sked.controller.quarantine import read_quarantine, write_note
from schedkit.sked.controller.rolling import RevisionPlan, plan_revisions
from schedkit.sked.controller.rollout_nodes import resolve
from schedkit.sked.controller.slots import NOWHERE, Occupant, Slot, Standing, next_value, read_next, read_slot
from schedkit.sked.controller.verification import ImageJudgement, fit, is_carried_out, is_held, is_same_image
from schedkit.sked.controller.workloads import ADOPT, CONTROLLER, may_touch
from schedkit.sked.controller.world import World
from schedkit.sked.kube.objects import Key

REVISION = "controller-revision-hash"  # on a pod: which of its DaemonSet's templates it was made of
Written = Mapping[str, tuple[int, DaemonSet]]  # by DaemonSet: what was written, and left a difference
Revisions = Mapping[tuple[str, str], bytes]  # by DaemonSet and hash: what its pods are made of
ImageJudgements = Mapping[Identity, ImageJudgement]  # by claim: what is known of its image, where images are verified
UNVERIFIED: ImageJudgements = {}


@dataclass(frozen=True)
class Trouble:
    """Why the operator could not do its part."""

    reason: str
    message: str

    @classmethod
    def from_error(cls, error: SchedkitError) -> "Trouble":
        return cls(error.reason, error.message)


@dataclass(frozen=True)
class ClaimPlan:
    """What is to be done for one claim, and what stands in its way."""

    claim: Claim
    seen: DaemonSet | None = None
    standing: Standing = NOWHERE
    apply: DaemonSet | None = None
    evict: tuple[Pod, ...] = ()
    unknown: tuple[str, ...] = ()  # hashes of revisions that must be looked up before the rest can be told
    held: bool = False  # whether Kubernetes is told not to replace pods, as these run the digest that is wanted
    old_pods: int = 0  # that are of an older spec, where sked itself replaces them
    waiting: str = ""  # for what, before the DaemonSet can be written
    judgement: ImageJudgement | None = None  # of its image; None: none is asked for
    verifying: str = ""  # why the spec is not carried out yet, where it is not known whether its image may run
    revisions: RevisionPlan | None = None  # None: it has no rollout
    drifted: bool = False  # whether fields that others own make the DaemonSet run something else than asked for
    narrowed: bool = False  # whether fields that others own make it run elsewhere than asked for
    trouble: Trouble | None = None


@dataclass(frozen=True)
class Plan:
    """What is to be done for one resource."""

    resource: SchedExt
    claims: tuple[ClaimPlan, ...] = ()
    delete: tuple[DaemonSet, ...] = ()
    leaving: int = 0  # pods of DaemonSets that are no longer wanted
    trouble: Trouble | None = None


@dataclass(frozen=True)
class SlotPlan:
    """What the label of one node is to say."""

    value: str = ""  # empty: there is to be none
    coming: str = ""  # what the label of who waits for the slot is to say
    quarantine: str = ""  # what the annotation of that name is to say
    write: bool = False
    again_seconds: float | None = None  # when only time brings it further


def plan_resource(
    world: World,
    resource: SchedExt,
    written: Written,
    revisions: Revisions,
    now: datetime,
    judgements: ImageJudgements = UNVERIFIED,
) -> Plan:
    """What is to be done for a resource whose every part is in sight."""
    claims = world.placement.claims(resource.metadata.key)
    wanted = {claim.name for claim in claims}
    unwanted = [
        seen for seen in world.daemonsets.find(CONTROLLER, resource.metadata.uid) if read_claim(seen) not in wanted
    ]
    plans = tuple(plan_claim(world, claim, written, revisions, now, judgements.get(claim.identity)) for claim in claims)
    pruned = [seen for plan in plans if plan.revisions for seen in plan.revisions.prune]
    namespace = resource.metadata.namespace
    had = {pool.daemon_set for pool in resource.status.pools if pool.daemon_set} | {resource.metadata.name}
    left_over = sum(len(world.workloads.find_left_over(Key(namespace, name))) for name in had | wanted)
    return Plan(
        resource,
        plans,
        tuple(seen for seen in (*unwanted, *pruned) if not seen.metadata.deletion_timestamp),
        sum(len(world.workloads.pods_of(seen)) for seen in unwanted) + left_over,
        None if claims else _find_fault(resource),
    )


def plan_claim(
    world: World,
    claim: Claim,
    written: Written,
    revisions: Revisions,
    now: datetime,
    judgement: ImageJudgement | None = None,
) -> ClaimPlan:
    """What is to be done for one claim."""
    seen = world.daemonsets.get(*claim.key)
    standing = world.standing(claim)
    base = ClaimPlan(claim, seen, standing, judgement=judgement)
    if claim.rollout or world.workloads.has_revisions(claim):
        return _plan_rollout(world, base, written)
    if seen and not may_touch(seen, claim):
        if _is_of_namesake(seen, claim):
            waiting = f"waits until the DaemonSet {claim.name} of the resource that had this name before is gone"
            return replace(base, seen=None, waiting=waiting)
        return replace(base, seen=None, trouble=_foreign(seen))
    if seen and seen.metadata.deletion_timestamp:
        return replace(base, waiting=f"waits until the DaemonSet {claim.name} is deleted, to create it again")
    pods = world.workloads.pods_of(seen) if seen else []
    plain = fit(make_daemonset(claim), judgement, seen, pods)
    base = _note_unverified(base)
    if plain is None:
        return base
    # Once it follows the slot it goes on doing so until its pods change anyway: going back would restart them.
    stays = seen is not None and follows_slot(seen) and same_pods(plain, seen)
    wanted: DaemonSet | None = plain
    if standing.contested or stays:
        wanted = fit(make_daemonset(claim, world.accepts(claim)), judgement, seen, pods)
    if wanted is None:
        return base
    if seen and not differs(wanted, seen):
        return _plan_pods(base, world, seen, revisions)
    if seen and written.get(seen.metadata.uid) == (seen.metadata.generation, wanted):
        return note_drift(_plan_pods(base, world, seen, revisions), wanted, seen)
    if standing.unlabelled and (seen is None or _select(seen) != _select(wanted)):
        return replace(base, waiting=_explain_gate(world, standing))
    unwanted = world.workloads.find_in_the_way(claim) if seen is None else ()
    if in_the_way := [pod for pod in unwanted if not is_overdue(pod, now)]:
        first = min(in_the_way, key=read_node)
        waiting = f"waits until {first.metadata.key} has left node {read_node(first)}"
        return replace(base, waiting=waiting)
    if seen is None and (held := world.find_held(claim, now)):
        return replace(base, waiting=f"waits until the kernel of node {held} has detached the scheduler before")
    return replace(base, apply=wanted)


def _plan_rollout(world: World, base: ClaimPlan, written: Written) -> ClaimPlan:
    """What is to be done for a claim with several revisions. One that had them goes on having them."""
    plain = world.daemonsets.get(*base.claim.key)
    if plain and not may_touch(plain, base.claim) and not _is_of_namesake(plain, base.claim):
        return replace(base, seen=None, trouble=_foreign(plain))
    revisions = plan_revisions(world, base.claim, base.judgement, written)
    base = replace(base, seen=world.workloads.find_main(base.claim), revisions=revisions, apply=revisions.apply)
    return _note_unverified(base)


def _note_unverified(base: ClaimPlan) -> ClaimPlan:
    """The plan, knowing what keeps the image that is asked for from being used."""
    judgement = base.judgement
    if judgement is None or judgement.may_run:
        return base
    failure = judgement.failure
    if failure and failure.refused:
        return replace(base, trouble=Trouble(failure.reason, failure.message))
    if is_carried_out(make_daemonset(base.claim), judgement, base.seen):
        return base
    return replace(base, verifying=failure.message if failure else f"{judgement.reference} is being verified")


def note_drift(plan: ClaimPlan, wanted: DaemonSet, seen: DaemonSet) -> ClaimPlan:
    """The plan, knowing what others made of the DaemonSet that it could not put right."""
    elsewhere = _select(seen) != _select(wanted)
    return replace(plan, narrowed=elsewhere, drifted=not elsewhere or not same_work(wanted, seen))


def plan_slot(world: World, node: Node, present: Sequence[Occupant], now: datetime) -> SlotPlan:
    """What the label of a node is to say; `present` are the schedulers' pods that are there."""
    name = node.metadata.name
    slot, decision = read_slot(node), world.decision(name)
    # Pods tell that a process ended; only the kernel says that it has detached a scheduler.
    held_in = world.sight.held_in(name, now)
    value = next_value(decision, slot, present, held=held_in is not None)
    times = (time for occupant in present for time in (late_in(occupant.pod, now), overdue_in(occupant.pod, now)))
    note = world.find_quarantine(node)
    until = parse_time(note.until) if note else None
    waits = (*times, held_in, (until - now).total_seconds() if until else None)
    going = [seconds for seconds in waits if seconds is not None and seconds > 0]
    quarantine = write_note(note) if note else ""
    # Nobody waits where another one is leaving already.
    coming = world.find_coming(name) if value == slot.value else ""
    said = read_next(node)
    fills = world.is_ours_to_fill(name)
    if not fills:
        coming = said.written
    elif said.reserved and not coming:
        coming = NONE  # what a person wrote here has to become ours before it can be taken away
    comes_as_said = not fills or said == Slot(coming, coming)
    noted = node.metadata.annotations.get(QUARANTINE, "") == quarantine
    as_it_is = slot == Slot(value, value) and noted and comes_as_said
    write = not as_it_is and _is_ours_to_label(world, name, slot)
    if decision.reserved:  # what a person wrote stays; who waited for the slot does not get it
        is_over = note is None and read_quarantine(node) is not None
        value, write = "", not comes_as_said or (is_over and _is_ours_to_label(world, name, slot))
    return SlotPlan(value, coming, quarantine, write, min(going, default=None))


def _is_ours_to_label(world: World, name: str, slot: Slot) -> bool:
    """Whether a node's label concerns a resource that this operator writes for."""
    if not world.namespaces:
        return True
    concerned = world.decision(name).participants or world.placement.on(name)
    return any(world.manages(claim.owner) for claim in concerned) or slot.written.partition(".")[0] in world.namespaces


def _plan_pods(base: ClaimPlan, world: World, seen: DaemonSet, revisions: Revisions) -> ClaimPlan:
    """Replace pods of an older spec, where Kubernetes is told not to do it."""
    strategy = base.claim.resource.spec.update_strategy
    held = base.judgement is not None and is_held(seen, strategy)
    if not follows_slot(seen) and not held:
        return base
    base = replace(base, held=held)
    uid, newest = seen.metadata.uid, read_revision(seen.spec.template)
    pods = world.workloads.pods_of(seen)
    hashes = {pod.metadata.labels.get(REVISION, "") for pod in pods}
    unknown = tuple(sorted(found for found in hashes if (uid, found) not in revisions))
    if all(revisions.get((uid, found), newest) == newest for found in hashes):
        return replace(base, unknown=unknown)
    pods = [pod for pod in pods if not pod.metadata.deletion_timestamp]
    # Of a pod whose revision is not known nothing is known to be wrong.
    old = [
        pod for pod in pods if _is_old(base, pod, revisions.get((uid, pod.metadata.labels.get(REVISION, ""))), newest)
    ]
    if strategy and strategy.type == ON_DELETE:
        return replace(base, unknown=unknown, old_pods=len(old))  # they wait for somebody to delete them
    expected = {name: node for name, node in world.find_nodes(base.claim, seen) if name not in base.standing.pending}
    rolling = strategy.rolling_update if strategy else None
    most = resolve(rolling.max_unavailable if rolling else None, len(expected))
    working = {read_node(pod) for pod in pods if is_ready(pod)}
    # A node that is not ready runs nothing either way: waiting for it would end every rollout.
    down = sum(node.is_ready for name, node in expected.items() if name not in working)
    unready = [pod for pod in old if not is_ready(pod)]
    ready = [pod for pod in old if is_ready(pod)]
    chosen = (*unready, *sorted(ready, key=read_node)[: max(0, most - down)])
    return replace(base, unknown=unknown, evict=chosen, old_pods=len(old))


def _is_old(base: ClaimPlan, pod: Pod, made_of: bytes | None, newest: bytes) -> bool:
    """Whether a pod is known to be of another spec, and not only of one that writes its image in another way."""
    if made_of is None or made_of == newest:
        return False
    return base.judgement is None or not is_same_image(pod, made_of, newest)


def _explain_gate(world: World, standing: Standing) -> str:
    first, more = min(standing.unlabelled), len(standing.unlabelled) - 1
    several = f"{first} and {more} more" if more else first
    if why := world.find_undecidable(standing):
        return f"other resources want node {several} too, and sked cannot label it: {why}"
    return f"waits until it is decided who gets node {several}"


def _select(daemonset: DaemonSet) -> tuple[object, ...]:
    """What decides on which nodes it runs, but for the slot."""
    pod = daemonset.spec.template.spec
    return pod.node_selector, remove_slot(pod.affinity), pod.tolerations


def _is_of_namesake(seen: DaemonSet, claim: Claim) -> bool:
    """Whether it belongs to a deleted resource of the same name, and so is about to be deleted too."""
    owner = seen.metadata.controller
    return owner is not None and (owner.kind, owner.name) == (KIND, claim.resource.metadata.name)


def _foreign(seen: DaemonSet) -> Trouble:
    owner = seen.metadata.controller
    whose = f"belongs to {owner.kind} {owner.name}" if owner else "has no owner"
    adopt = "" if owner else f"; annotate it with {ADOPT}=true to hand it over"
    return Trouble(Reason.FOREIGN_DAEMON_SET, f"DaemonSet {seen.metadata.name} is there already and {whose}{adopt}")


def _find_fault(resource: SchedExt) -> Trouble | None:
    """What is wrong with a resource that was stored before there was validation; it claims nothing."""
    try:
        make_claims(resource)
    except InvalidSelectorError as error:
        return Trouble.from_error(error)
    return None
