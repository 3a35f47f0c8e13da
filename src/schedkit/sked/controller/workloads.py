"""The DaemonSets and pods of claims: which is whose, which revision each node is to have, and what they have shown."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import chain

from schedkit.sked.api.names import KIND
from schedkit.sked.api.requests import make_slot
from schedkit.sked.api.selectors import InvalidSelectorError, Selector, parse_selector
from schedkit.sked.controller.claims import Claim, Identity
from schedkit.sked.controller.daemonsets import MANAGED_BY, make_daemonset, name_revision, read_claim, remove_slot
from schedkit.sked.controller.failures import ENDED, is_overdue, is_ready, is_unschedulable
from schedkit.sked.controller.objects import DaemonSet, FailedCreate, Pod
from schedkit.sked.controller.placement import Placement
from schedkit.sked.controller.slots import Assignment, Occupant, read_slot_of
from schedkit.sked.kube.objects import Key
from schedkit.sked.kube.store import Store

ADOPT = "sked.schedkit.io/adopt"  # on a DaemonSet of somebody else's, "true": sked may have it
# Indexes.
CONTROLLER, MAKER, NODE, ABOUT, CLAIMED, TROUBLED = "controller", "maker", "node", "about", "claimed", "troubled"
REFUSED_FOR = timedelta(minutes=10)  # after that, pods that were refused are tried again, on one node


class Workloads:
    """What is known of claims' DaemonSets and their pods."""

    def __init__(
        self, daemonsets: Store[DaemonSet], pods: Store[Pod], failed_creates: Store[FailedCreate], placement: Placement
    ) -> None:
        self._daemonsets = daemonsets
        self._pods = pods
        self._failed_creates = failed_creates
        self._placement = placement
        self._assignments: dict[Identity, Assignment] = {}  # of those with several revisions
        self._work_names: dict[Identity, tuple[Claim, str]] = {}
        self._narrowed: dict[str, tuple[int, Claim, Selector | None]] = {}
        self._refused: set[str] = set()  # DaemonSets none of whose pods may be created
        self._worked: set[str] = set()  # DaemonSets of which a pod has been ready

    def find_claim(self, daemonset: DaemonSet) -> Claim | None:
        """The claim that a DaemonSet is there for."""
        resource, owner = find_resource(daemonset), daemonset.metadata.controller
        name = read_claim(daemonset)
        for claim in self._placement.claims(resource) if resource and owner else ():
            if claim.name == name and owner and claim.resource.metadata.uid == owner.uid:
                return claim
        return None

    def find_daemonset(self, pod: Pod) -> DaemonSet | None:
        """The DaemonSet that made a pod, if it is still known and a resource's."""
        owner = pod.metadata.controller
        daemonset = self._daemonsets.get(pod.metadata.namespace, owner.name) if owner else None
        ours = daemonset and owner and daemonset.metadata.uid == owner.uid and find_resource(daemonset)
        return daemonset if ours else None

    def find_revisions(self, claim: Claim) -> list[DaemonSet]:
        """A claim's DaemonSets, those on their way out left aside."""
        return self._daemonsets.find(CLAIMED, claimed(claim.resource.metadata.uid, claim.name))

    def has_revisions(self, claim: Claim) -> bool:
        """Whether there is a DaemonSet of a claim's besides the plain one, as after its rollout was taken away."""
        return any(seen.metadata.name != claim.name for seen in self.find_revisions(claim))

    def rolls(self, claim: Claim) -> bool:
        """Whether sked itself says on which node which revision of a claim runs."""
        return claim.rollout is not None or self.find_assignment(claim) is not None or self.has_revisions(claim)

    def find_main(self, claim: Claim) -> DaemonSet | None:
        """The DaemonSet by which a claim is judged: its only one, or that of its stable revision."""
        known = self.find_assignment(claim)
        if known and (found := self._daemonsets.get(claim.key.namespace, known.main)):
            return found
        plain = self._daemonsets.get(*claim.key)
        return plain or (next(iter(self.find_revisions(claim)), None) if self.rolls(claim) else None)

    def find_revision(self, claim: Claim, slot: str) -> str:
        """The revision that has a slot of a claim's, which has several."""
        names = (seen.metadata.name for seen in self.find_revisions(claim) if make_slot(seen.metadata.key) == slot)
        return next(names, "")

    def name_work(self, claim: Claim) -> str:
        """What a claim asks for, as the name of a revision."""
        known = self._work_names.get(claim.identity)
        if known is None or known[0] is not claim:
            known = self._work_names[claim.identity] = claim, name_revision(claim, make_daemonset(claim))
        return known[1]

    def find_live(self, claim: Claim) -> Collection[str] | None:
        """The revisions of a claim that its nodes may get now; None: that is not known yet."""
        known = self.find_assignment(claim)
        if known is None and self.rolls(claim):
            return None
        return known.live if known else (self.name_work(claim),)

    def assign(self, claim: Claim, assignment: Assignment) -> list[str]:
        """Take in which revision each node is to have; the nodes of which that says something new."""
        before = self._assignments.get(claim.identity)
        if before == assignment:
            return []
        self._assignments[claim.identity] = assignment
        if before is None:
            return list(self._placement.of(claim))
        given = before.values.items() ^ assignment.values.items()
        coming = before.coming.items() ^ assignment.coming.items()
        names = dict.fromkeys(name for name, _ in chain(given, coming))
        # What is live concerns those alone that are kept without a scheduler: World.find_noted.
        if (before.claim, before.main, before.slots) != (assignment.claim, assignment.main, assignment.slots):
            names |= self._placement.of(claim)
        return list(names)

    def forget_assignments(self, resource: Key) -> None:
        """A resource is gone, or has other pools."""
        known = {claim.identity: claim.name for claim in self._placement.claims(resource)}
        for identity in [identity for identity in self._assignments if identity[0] == resource]:
            if self._assignments[identity].claim != known.get(identity):
                del self._assignments[identity]

    def find_assignment(self, claim: Claim) -> Assignment | None:
        """Which of a claim's revisions each node is to have; None: there is one only, as far as it is known."""
        return self._assignments.get(claim.identity) if self._assignments else None

    def find_occupants(self, node: str) -> list[Occupant]:
        """The schedulers' pods on a node. A label alone makes none of somebody's pod."""
        occupants = []
        for pod in self._pods.find(NODE, node):
            owner = pod.metadata.controller
            if owner is None or owner.kind != "DaemonSet" or pod.status.phase in ENDED or is_unschedulable(pod):
                continue
            seen = self._daemonsets.get(pod.metadata.namespace, owner.name)
            claim = None
            if seen and seen.metadata.uid == owner.uid:  # else it is gone, and its pods are about to be collected
                if not runs_scheduler(seen):
                    continue
                claim = self.find_claim(seen) if not seen.metadata.deletion_timestamp else None
            # Anybody can write an owner that was never there, but only who may do anything to nodes a privileged pod.
            if claim or any(container.security_context.privileged for container in pod.spec.containers):
                occupants.append(Occupant(pod, claim, read_slot_of(pod)))
        return occupants

    def finds_no_room(self, daemonset: DaemonSet, node: str) -> bool:
        """Whether a node does not take the pod that a DaemonSet made for it."""
        pods = self._pods.find(NODE, node)
        return any(is_unschedulable(pod) for pod in pods if _read_owner(pod) == daemonset.metadata.uid)

    def find_present(self, node: str, now: datetime) -> list[Occupant]:
        """Those of them that are really there: not those whose end nobody will ever tell, as their node is dead."""
        return [occupant for occupant in self.find_occupants(node) if not is_overdue(occupant.pod, now)]

    def find_in_the_way(self, claim: Claim) -> list[Pod]:
        """The pods on a claim's nodes that nobody asks for any more, and that have not ended yet."""
        if not self._pods:
            return []
        occupants = (occupant for name in self._placement.of(claim) for occupant in self.find_occupants(name))
        return [occupant.pod for occupant in occupants if occupant.claim is None]

    def count_pods(self, daemonset: DaemonSet) -> int:
        return self._pods.count(CONTROLLER, daemonset.metadata.uid)

    def pods_of(self, daemonset: DaemonSet) -> list[Pod]:
        return self._pods.find(CONTROLLER, daemonset.metadata.uid)

    def find_troubled(self, daemonset: DaemonSet) -> list[Pod]:
        """The pods of a DaemonSet with which something is wrong, or was: mostly few of them."""
        return self._pods.find(TROUBLED, daemonset.metadata.uid)

    def find_pod(self, daemonset: DaemonSet, node: str) -> Pod | None:
        """The pod of a DaemonSet that is on a node, and is to stay."""
        pods = (pod for pod in self._pods.find(NODE, node) if not pod.metadata.deletion_timestamp)
        return next((pod for pod in pods if _read_owner(pod) == daemonset.metadata.uid), None)

    def find_left_over(self, daemonset: Key) -> list[Pod]:
        """The pods of a DaemonSet of this name that is gone: the garbage collector removes them."""
        seen = self._daemonsets.get(*daemonset)
        uid = seen.metadata.uid if seen else ""
        return [pod for pod in self._pods.find(MAKER, str(daemonset)) if _read_owner(pod) != uid]

    def has_pods(self, claim: Claim) -> bool:
        """Whether there is a pod of a claim's, which shows that they can be created."""
        return any(self.count_pods(seen) > 0 for seen in self._find_all(claim))

    def has_worked(self, claim: Claim) -> bool:
        """Whether a pod of a claim's has been ready: they can be created, and their image pulled."""
        return any(seen.metadata.uid in self._worked for seen in self._find_all(claim))

    def _find_all(self, claim: Claim) -> Sequence[DaemonSet]:
        if self.rolls(claim):
            return self.find_revisions(claim)
        seen = self._daemonsets.get(*claim.key)
        return (seen,) if seen else ()

    def note_work(self, daemonset: DaemonSet, pods: Iterable[Pod]) -> bool:
        """Keep in mind whether a pod of a DaemonSet has been ready, until it has none; whether that changed."""
        uid = daemonset.metadata.uid
        worked = self.count_pods(daemonset) > 0 and (uid in self._worked or any(map(is_ready, pods)))
        if worked == (uid in self._worked):
            return False
        (self._worked.add if worked else self._worked.discard)(uid)
        return True

    def refusal(self, daemonset: DaemonSet, now: datetime) -> FailedCreate | None:
        """The newest recent Event that says why pods of a DaemonSet could not be created."""
        events = self._failed_creates.find(ABOUT, about(daemonset.metadata.namespace, daemonset.metadata.uid))
        recent = [event for event in events if _is_recent(event, now)]
        return max(recent, key=lambda event: event.time, default=None)

    def note_refusal(self, daemonset: DaemonSet, now: datetime) -> bool:
        """Find out whether none of a DaemonSet's pods may be created; the answer is whether that changed."""
        uid = daemonset.metadata.uid
        refused = self.refusal(daemonset, now) is not None and not self.count_pods(daemonset)
        if refused == (uid in self._refused):
            return False
        (self._refused.add if refused else self._refused.discard)(uid)
        return True

    def is_refused(self, claim: Claim) -> bool:
        """Whether none of a claim's pods may be created."""
        seen = self.find_main(claim) if self._refused else None
        return seen is not None and seen.metadata.uid in self._refused

    def find_narrowed(self, seen: DaemonSet, claim: Claim) -> Selector | None:
        """The nodes that are left to a DaemonSet whose selection somebody else narrowed; None: nobody did."""
        uid, generation = seen.metadata.uid, seen.metadata.generation
        known = self._narrowed.get(uid)
        if known is None or known[:2] != (generation, claim):
            pod = seen.spec.template.spec
            asked = claim.workload.node_selector, remove_slot(claim.workload.affinity)
            same = (pod.node_selector, remove_slot(pod.affinity)) == asked
            known = generation, claim, None if same else parse_nodes(seen)
            self._narrowed[uid] = known
        return known[2]

    @property
    def has_narrowed(self) -> bool:
        """Whether somebody else narrowed which nodes a DaemonSet selects, by whatever labels."""
        return any(selector for _, _, selector in self._narrowed.values())

    def forget_daemonset(self, uid: str) -> None:
        """A DaemonSet is gone."""
        self._refused.discard(uid)
        self._worked.discard(uid)
        self._narrowed.pop(uid, None)


def about(namespace: str, uid: str) -> str:
    """What an Event is about, for an index: who may write Events in one namespace tells nothing about another."""
    return f"{namespace}/{uid}"


def claimed(uid: str, claim: str) -> str:
    """Whose a DaemonSet is, for an index: a resource's, by its uid, and which of its claims'."""
    return f"{uid}/{claim}"


def find_resource(daemonset: DaemonSet) -> Key | None:
    """The resource whose DaemonSet this is, if it is one's."""
    owner = daemonset.metadata.controller
    return Key(daemonset.metadata.namespace, owner.name) if owner and owner.kind == KIND else None


def runs_scheduler(daemonset: DaemonSet) -> bool:
    """Whether a DaemonSet is a resource's, or was one's and lost its owner."""
    metadata = daemonset.metadata
    is_orphan = metadata.controller is None and MANAGED_BY.items() <= metadata.labels.items()
    return find_resource(daemonset) is not None or (is_orphan and metadata.annotations.get(ADOPT) != "true")


def may_touch(seen: DaemonSet, claim: Claim) -> bool:
    """Whether a DaemonSet is the claim's, or its owner says that it may become that."""
    owner = seen.metadata.controller
    if owner is None:
        return seen.metadata.annotations.get(ADOPT) == "true"
    return owner.uid == claim.resource.metadata.uid


def _read_owner(pod: Pod) -> str:
    """The uid of what made a pod."""
    owner = pod.metadata.controller
    return owner.uid if owner else ""


def parse_nodes(daemonset: DaemonSet) -> Selector | None:
    """The nodes that a DaemonSet selects, whoever has their slot; None where that cannot be understood."""
    pod = daemonset.spec.template.spec
    try:
        return parse_selector(pod.node_selector, remove_slot(pod.affinity))
    except InvalidSelectorError:
        return None


def _is_recent(event: FailedCreate, now: datetime) -> bool:
    """Whether an Event is of these minutes. Whoever wrote it may have written any time, also one that is to come."""
    try:
        return abs(now - datetime.fromisoformat(event.time)) < REFUSED_FOR
    except ValueError:
        return False
