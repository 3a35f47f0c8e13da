"""What a change anywhere in the cluster means for which resource and which node: informers in, keys out."""

from collections.abc import Callable, Iterable
from datetime import datetime

from schedkit.sked.api.requests import QUARANTINE
from schedkit.sked.api.selectors import InvalidSelectorError
from schedkit.sked.api.types import SchedExt
from schedkit.sked.controller.claims import Claim, make_claims
from schedkit.sked.controller.failures import read_node
from schedkit.sked.controller.holders import is_told
from schedkit.sked.controller.informers import Informers
from schedkit.sked.controller.objects import (
    DaemonSet,
    FailedCreate,
    Namespace,
    Node,
    Pod,
)
from schedkit.sked.controller.pulls import PULL
from schedkit.sked.controller.reports import (
    AgentPod,
    NodeReport,
    QuarantineNote,
    same_sight,
)
from schedkit.sked.controller.slots import Assignment, read_next, read_slot
from schedkit.sked.controller.status_writer import read_stages
from schedkit.sked.controller.workloads import ADOPT, CONTROLLER, MAKER, find_resource
from schedkit.sked.controller.world import World
from schedkit.sked.kube.objects import Key

Wake = Callable[[Key], None]


class Wiring:
    """Has resources and nodes woken for whatever a change concerns; what comes in waves wakes them `soon`."""

    def __init__(
        self,
        world: World,
        *,
        wake: Wake,
        wake_soon: Wake,
        wake_node: Callable[[str], None],
        wake_report: Callable[[str], None],
        forget_pod: Callable[[str], None],
        forget_node: Callable[[str], None],
        forget_daemonset: Callable[[str], None],
        forget_resource: Wake,
        ceiling: int,
        now: Callable[[], datetime],
    ) -> None:
        self._world = world
        self._wake = wake
        self._wake_soon = wake_soon
        self._wake_node = wake_node
        self._wake_report = wake_report
        self._forget_pod = forget_pod
        self._forget_node = forget_node
        self._forget_daemonset = forget_daemonset
        self._forget_resource = forget_resource
        self._ceiling = ceiling
        self._now = now

    def connect(self, informers: Informers) -> None:
        """Listen to all informers."""
        informers.resources.on_change(self._see_resource)
        informers.resources.on_unreadable(self._wake)
        informers.daemonsets.on_change(self._see_daemonset)
        informers.pods.on_change(self._see_pod)
        informers.nodes.on_change(self._see_node)
        informers.failed_creates.on_change(self._see_failed_create)
        informers.namespaces.on_change(self._see_namespace)
        informers.reports.on_change(self._see_report)
        informers.agents.on_change(self._see_agent)
        for informer in (*informers.needed, *informers.reporting):
            informer.on_sync_change(self._wake_all)

    def note_refused_node(self, name: str, why: str) -> None:
        """Keep in mind whether a node can be labelled, and have those looked at whom it concerns."""
        if self._world.refused_nodes.get(name, "") == why:
            return
        self._world.refused_nodes.pop(name, None)
        self._world.refused_nodes.update({name: why} if why else {})
        for claim in self._world.decision(name).participants:
            self._wake(claim.owner)
        if self._world.namespaces:
            self._decide(name)  # see World._is_left_to_others

    def note_verified(self, claim: Claim, *, may_run: bool) -> None:
        """Keep in mind whether a claim's image may run: until then it takes no node that somebody else could have."""
        known = self._world.verified
        if known is None or may_run == (claim.identity in known):
            return
        (known.add if may_run else known.discard)(claim.identity)
        self.look_again([claim])

    def wake(self, resource: Key) -> None:
        """Queue a resource."""
        self._wake(resource)

    def note_quarantine(self, node: str, note: QuarantineNote) -> None:
        """Leave a node without a scheduler."""
        self._world.note_quarantine(node, note)
        self._decide(node)

    def look_at(self, node: str) -> None:
        """Decide again of a node, as time has passed."""
        self._decide(node)

    def note_assignment(self, claim: Claim, assignment: Assignment) -> None:
        """Keep in mind which revision each node of a claim is to have, and have the labels follow.

        First on those that get another one: they may be without a scheduler, and who only waits for a node can wait.
        """
        world = self._world
        live = world.workloads.find_live(claim)
        names = world.workloads.assign(claim, assignment)
        if live != assignment.live:  # from which follows which quarantines end
            names += world.find_noted(claim)
        for name in sorted(dict.fromkeys(names), key=lambda name: not _is_moved(world, assignment, name)):
            self._decide(name)

    def look_again(self, claims: Iterable[Claim]) -> None:
        """Decide again of all nodes of some claims."""
        for claim in claims:
            for name in list(self._world.placement.of(claim)):
                self._decide(name)

    def _see_resource(self, old: SchedExt | None, new: SchedExt | None) -> None:
        known = new or old
        if known is None:
            return
        # What is counted of it wakes nobody at once: who wrote it knows.
        is_news = old is None or new is None or not _is_counted(old, new)
        (self._wake if is_news else self._wake_soon)(known.metadata.key)
        if new is None or new.spec.quarantine is None or (old and old.metadata.uid != new.metadata.uid):
            self._world.forget_resource(known.metadata.key)
        if new is None:
            self._forget_resource(known.metadata.key)
            for claim in self._world.placement.claims(known.metadata.key):
                (self._world.verified or set()).discard(claim.identity)
        if old is None or new is None or _claims_differ(old, new):
            self._put_claims(known.metadata.key, new, {found.metadata.uid for found in (old, new) if found})

    def _put_claims(self, key: Key, resource: SchedExt | None, uids: Iterable[str]) -> None:
        world = self._world
        before = world.placement.name_owner(key.name)
        # A suspended one keeps its name: a node that is reserved for it must not go to a namesake.
        world.placement.put_name(key, (resource.metadata.creation_timestamp or "") if resource else None)
        names = world.placement.put(key, self._make_claims(resource))
        world.workloads.forget_assignments(key)
        meant = {before, world.placement.name_owner(key.name)}
        for other in meant - {None, key} if len(meant) > 1 else ():  # somebody else is meant by the name alone
            if other:
                self._wake(other)
                names.update(name for claim in world.placement.claims(other) for name in world.placement.of(claim))
        for daemonset in (found for uid in uids for found in world.daemonsets.find(CONTROLLER, uid)):
            names.update(world.note_stray(daemonset.metadata.key))
            names.update(map(read_node, world.workloads.pods_of(daemonset)))
        for name in names:
            self._decide(name)

    def _see_daemonset(self, old: DaemonSet | None, new: DaemonSet | None) -> None:
        world = self._world
        # What it counts changes with each of its pods.
        wake = self._wake_soon if old and new and _is_same_but_status(old, new) else self._wake
        for version in (old, new):  # one that lost its owner concerns who that was
            if version and (resource := find_resource(version)):
                wake(resource)
        known = new or old
        if known is None:
            return
        if new is None or (old and old.metadata.uid != new.metadata.uid):
            world.workloads.forget_daemonset((old or known).metadata.uid)
            self._forget_daemonset((old or known).metadata.uid)
        if old is None or new is None or _ownership(old) != _ownership(new) or _selection(old) != _selection(new):
            if new:
                world.workloads.note_work(new, world.workloads.pods_of(new))
            names = {read_node(pod) for version in (old, new) if version for pod in world.workloads.pods_of(version)}
            names.update(world.note_stray(known.metadata.key))
            claims = world.placement.named(known.metadata.key)
            if (revised := world.workloads.find_claim(known)) and revised not in claims:
                claims.append(revised)
            for claim in claims:
                self._wake(claim.owner)
                names.update(world.placement.of(claim))
            for name in names:
                self._decide(name)

    def _see_pod(self, old: Pod | None, new: Pod | None) -> None:
        world = self._world
        known = new or old
        if known is None:
            return
        if old and (new is None or new.metadata.uid != old.metadata.uid):
            self._forget_pod(old.metadata.uid)
        if known.metadata.controller is None and (revision := known.metadata.labels.get(PULL)) is not None:
            made_for = world.daemonsets.get(known.metadata.namespace, revision)
            if made_for and (owner := find_resource(made_for)):
                self._wake_soon(owner)
            return
        daemonset = world.workloads.find_daemonset(known)
        if daemonset and (owner := find_resource(daemonset)):
            self._wake_soon(owner)
            # The first pod shows that they can be created; and after the last one that is open again.
            first_or_last = (old is None or new is None) and world.workloads.count_pods(daemonset) <= 1
            worked = world.workloads.note_work(daemonset, [new] if new else ())
            if (first_or_last or worked) and (claim := world.workloads.find_claim(daemonset)):
                world.workloads.note_refusal(daemonset, self._now())
                self.look_again([claim])
        for name in {read_node(version) for version in (old, new) if version}:
            if new is None and (node := world.nodes.get("", name)):
                self._note_held(node)  # who comes next waits for the kernel, too
            self._decide(name)
            for claim in world.placement.on(name) if daemonset is None and new is None else ():
                self._wake_soon(claim.owner)  # who may have waited for it
        if daemonset is None and (maker := known.metadata.controller):  # whose status may count what is left
            for resource in world.resources.find(MAKER, str(Key(known.metadata.namespace, maker.name))):
                self._wake_soon(resource.metadata.key)

    def _see_node(self, old: Node | None, new: Node | None) -> None:
        world = self._world
        known = new or old
        if known is None:
            return
        name = known.metadata.name
        before = {claim.owner for claim in world.placement.on(name)}
        changed = world.placement.see_node(old, new)
        is_other = old is None or new is None or _health(old) != _health(new)
        if new is None:
            world.forget_node(name)
            self._forget_node(name)
        else:
            world.see_quarantine(new)
        if not changed and not is_other and old and new and not self._may_matter(old, new):
            return
        is_lifted = old is not None and new is not None and _quarantine(old) != _quarantine(new)
        if changed or is_other or is_lifted:  # how many nodes there are, and how they are, is in the status
            for owner in before | {claim.owner for claim in world.placement.on(name)}:
                self._wake_soon(owner)
        if is_other and world.is_complete:
            # A claim that has yet to show that its pods can work does so on a node that is ready.
            self.look_again(claim for claim in world.placement.on(name) if not world.workloads.has_worked(claim))
        self._decide(name)

    def _may_matter(self, old: Node, new: Node) -> bool:
        """Whether a change of a node on which the same claims could run may change who has its slot."""
        if (read_slot(old), read_next(old), _quarantine(old)) != (read_slot(new), read_next(new), _quarantine(new)):
            return True
        return old.metadata.labels != new.metadata.labels and self._world.workloads.has_narrowed

    def _see_report(self, old: NodeReport | None, new: NodeReport | None) -> None:
        known = new or old
        if known is None:
            return
        name = known.metadata.name
        if old is None or new is None or not same_sight(old, new):
            self._see_kernel(name)
        self.look_at_report(name)

    def _see_agent(self, old: AgentPod | None, new: AgentPod | None) -> None:
        is_first_or_last = (old is None or new is None) and len(self._world.sight.agents) <= 1
        if is_first_or_last:  # which every status tells
            for key in self._world.resources.all_keys():
                self._wake_soon(key)
        for name in {agent.spec.node_name for agent in (old, new) if agent}:
            self._see_kernel(name)

    def _see_kernel(self, name: str) -> None:
        """Something else is known of a node's kernel: who has the node is told, and who waits for it or is kept off."""
        world = self._world
        if holder := world.find_holder(name):
            self._wake_soon(holder.owner)
        if world.sight.is_waited_for(name) and (node := world.nodes.get("", name)):
            self._note_held(node)
        if world.is_decided(name) or any(claim.resource.spec.skip_unfit_nodes for claim in world.placement.on(name)):
            self._decide(name)

    def _note_held(self, node: Node) -> None:
        now = self._now()
        self._world.note_held(node, self._world.workloads.find_present(node.metadata.name, now), now)

    def look_at_report(self, name: str) -> None:
        """Queue a report that does not name the resource that has its node."""
        report = self._world.sight.reports.get("", name)
        if report and self._world.is_complete and not is_told(self._world, report):
            self._wake_report(name)

    def _see_failed_create(self, old: FailedCreate | None, new: FailedCreate | None) -> None:
        event = new or old
        name = event.involved_object.name if event else ""
        daemonset = self._world.daemonsets.get(event.metadata.namespace, name) if event else None
        if daemonset and (resource := find_resource(daemonset)):
            self._wake(resource)
            self.note_refusal(daemonset)

    def note_refusal(self, daemonset: DaemonSet) -> None:
        """Find out whether a DaemonSet's pods may be created at all, and decide again where that matters."""
        workloads = self._world.workloads
        if workloads.note_refusal(daemonset, self._now()) and (claim := workloads.find_claim(daemonset)):
            self.look_again([claim])

    def _see_namespace(self, old: Namespace | None, new: Namespace | None) -> None:
        known = new or old
        for resource in self._world.resources if known else ():
            if known and resource.metadata.namespace == known.metadata.name:
                self._put_claims(resource.metadata.key, resource, [resource.metadata.uid])
                self._wake(resource.metadata.key)

    def _decide(self, name: str) -> None:
        """Decide of a node, and of those that somebody may take, or may not, because of it."""
        world = self._world
        if not world.is_complete:
            return  # all nodes are looked at when it is
        names = [name]
        while names:
            next_name = names.pop()
            self._decide_one(next_name)
            for claim in world.end_trials(next_name):
                names += world.placement.of(claim)

    def _decide_one(self, name: str) -> None:
        """Decide of a node; where there is or was something to decide, its label is looked at."""
        world = self._world
        was_decided = world.is_decided(name)
        for owner in world.refresh(name):
            self._wake_soon(owner)
        node = world.nodes.get("", name)
        labelled = node is not None and (any(read_slot(node)) or any(read_next(node)))
        if was_decided or labelled or world.is_decided(name):
            self._wake_node(name)
        self.look_at_report(name)

    def _make_claims(self, resource: SchedExt | None) -> tuple[Claim, ...]:
        if resource is None:
            return ()
        is_free = self._world.free_namespaces.get("", resource.metadata.namespace) is not None
        try:
            return make_claims(resource, None if is_free else self._ceiling)
        except InvalidSelectorError:
            return ()  # stored before there was validation: it selects nothing that Kubernetes would take

    def _wake_all(self) -> None:
        """What can be seen at all changed: nothing that was concluded before is certain."""
        world = self._world
        for key in world.resources.all_keys():
            self._wake(key)
        if world.is_complete:
            for node in list(world.nodes):
                self._decide(node.metadata.name)


def _ownership(daemonset: DaemonSet) -> tuple[object, ...]:
    """Whose it is, who may have it, and whether it is going."""
    metadata = daemonset.metadata
    return metadata.uid, metadata.controller, metadata.annotations.get(ADOPT), metadata.deletion_timestamp is None


def _is_same_but_status(old: DaemonSet, new: DaemonSet) -> bool:
    return _ownership(old) == _ownership(new) and old.metadata.generation == new.metadata.generation


def _selection(daemonset: DaemonSet) -> tuple[object, ...]:
    pod = daemonset.spec.template.spec
    return pod.node_selector, pod.affinity


def _is_moved(world: World, assignment: Assignment, name: str) -> bool:
    """Whether a node is to get something else than its label says."""
    return assignment.values.get(name, "") not in ("", world.read_slot(name))


def _quarantine(node: Node) -> str:
    return node.metadata.annotations.get(QUARANTINE, "")


def _health(node: Node) -> tuple[object, ...]:
    return node.is_ready, node.spec.unschedulable, node.status.node_info


def _is_counted(old: SchedExt, new: SchedExt) -> bool:
    """Whether nothing changed but what the status tells of nodes; a rollout acts when its next stage is noted down."""
    asks_the_same = old.metadata.annotations == new.metadata.annotations and not _claims_differ(old, new)
    return asks_the_same and read_stages(old.status) == read_stages(new.status)


def _claims_differ(old: SchedExt, new: SchedExt) -> bool:
    return old.spec != new.spec or old.metadata.uid != new.metadata.uid or _is_going(old) != _is_going(new)


def _is_going(resource: SchedExt) -> bool:
    return resource.metadata.deletion_timestamp is not None
