"""What is known of the cluster: what the informers hold, and what follows from it for each node."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from schedkit.sked.api.kubernetes import Toleration
from schedkit.sked.api.requests import NONE, PENDING
from schedkit.sked.api.selectors import Selector
from schedkit.sked.api.types import SchedExt
from schedkit.sked.controller.claims import Claim, Identity
from schedkit.sked.controller.failures import is_waiting, late_in
from schedkit.sked.controller.objects import DaemonSet, Namespace, Node, Pod
from schedkit.sked.controller.placement import Placement
from schedkit.sked.controller.quarantine import EjectionCounter, is_over, read_quarantine
from schedkit.sked.controller.reports import QuarantineNote
from schedkit.sked.controller.scheduling import could_run
from schedkit.sked.controller.sight import Sight
from schedkit.sked.controller.slots import (
    NOWHERE,
    Decision,
    Occupant,
    Standing,
    decide,
    read_slot,
)
from schedkit.sked.controller.workloads import Workloads, may_touch, parse_nodes, runs_scheduler
from schedkit.sked.kube.informer import Informer
from schedkit.sked.kube.objects import Key
from schedkit.sked.kube.store import Store
from schedkit.sked.kube.watch import Unreadable

NOTHING_TO_DECIDE = Decision(None)
NOTHING = (NOTHING_TO_DECIDE, "")


@dataclass
class World:
    """What the informers know, and the decisions that rest on it. Only the wiring of the informers changes it."""

    resources: Store[SchedExt]
    daemonsets: Store[DaemonSet]
    pods: Store[Pod]
    nodes: Store[Node]
    free_namespaces: Store[Namespace]  # whose resources may have any priority
    sight: Sight
    unreadable: Mapping[Key, Unreadable]  # resources whose newest form is not understood
    informers: Sequence[Informer[Any]]  # without which nothing can be planned
    placement: Placement
    workloads: Workloads
    namespaces: Collection[str] = ()  # whose resources are managed by this operator; empty: all
    refused_nodes: dict[str, str] = field(default_factory=dict)  # which cannot be labelled, in the API server's words
    # The claims whose image may run; None: images are not verified, or only told of.
    verified: set[Identity] | None = None
    quarantines: dict[str, QuarantineNote] = field(default_factory=dict)  # by node, as long as it is not written
    ejections: EjectionCounter = field(default_factory=EjectionCounter)
    _expired: set[tuple[str, str]] = field(default_factory=set)  # quarantines that are over: nodes, and since when
    _decisions: dict[str, tuple[Decision, str]] = field(default_factory=dict)  # of some nodes, and what the label says
    _standings: dict[Identity, Standing] = field(default_factory=dict)
    _strays: dict[Key, tuple[Selector, tuple[Toleration, ...]]] = field(default_factory=dict)
    _trials: dict[Identity, str] = field(default_factory=dict)  # on which node a claim shows that its pods can work
    _tried_on: dict[str, dict[Identity, None]] = field(default_factory=dict)
    _late_trials: set[tuple[Identity, str]] = field(default_factory=set)  # nodes that did not get free in time

    @property
    def is_complete(self) -> bool:
        """Whether everything that a plan rests on has been seen and may be looked at."""
        return all(informer.synced and not informer.denied for informer in self.informers)

    @property
    def denied(self) -> str:
        """What may not be looked at, in the API server's words."""
        return next((informer.denied for informer in self.informers if informer.denied), "")

    def find_holder(self, name: str) -> Claim | None:
        """Who has a node by the plan."""
        if self.is_decided(name):
            return self.decision(name).winner
        return next(iter(self.placement.on(name)), None)

    def read_slot(self, name: str) -> str:
        """What a node's label says."""
        node = self.nodes.get("", name)
        return read_slot(node).value if node else ""

    def note_held(self, node: Node, present: Iterable[Occupant], now: datetime) -> None:
        """Take in whether a node's kernel still has a scheduler though no pod of one is there any more."""
        self.sight.note_held(node, any(not is_waiting(occupant.pod) for occupant in present), now)

    def find_held(self, claim: Claim, now: datetime) -> str:
        """A node of a claim's whose kernel still has a scheduler whose pod is gone, or nothing."""
        return next((name for name in self.placement.of(claim) if self.sight.held_in(name, now) is not None), "")

    def forget_node(self, name: str) -> None:
        """A node is gone."""
        self.refused_nodes.pop(name, None)
        self.quarantines.pop(name, None)
        self.ejections.forget_node(name)
        self._expired = {known for known in self._expired if known[0] != name}
        self.sight.forget_node(name)

    def forget_resource(self, resource: Key) -> None:
        """A resource is gone, or asks for no quarantine: what was counted for it is not kept for another one."""
        self.ejections.forget(resource)
        for name in [name for name, note in self.quarantines.items() if note.sched_ext == str(resource)]:
            del self.quarantines[name]

    def manages(self, resource: Key) -> bool:
        """Whether a resource is this operator's to write for; the others are only looked at."""
        return not self.namespaces or resource.namespace in self.namespaces

    def find_coming(self, node: str) -> str:
        """Whose pod is to wait on a node for the slot, in the words of the label; empty: nobody's."""
        decision = self.decision(node)
        known = self.workloads.find_assignment(decision.winner) if decision.winner and not decision.reserved else None
        return known.coming.get(node, "") if known else ""

    def is_ours_to_fill(self, node: str) -> bool:
        """Whether this operator says whose pod waits on a node: it carries out what has it, or nobody has it."""
        winner = self.decision(node).winner
        return winner is None or self.manages(winner.owner)

    def _find_value(self, claim: Claim, node: str) -> str | None:
        """What a node's label is to say where a claim has it; None: there is one revision only."""
        if not self.workloads.rolls(claim):
            return None
        known = self.workloads.find_assignment(claim)
        return known.values.get(node, "") if known else ""

    def accepts(self, claim: Claim) -> tuple[str, ...]:
        """The values of the label on a node that mean a claim: its own, and the resource's name for people."""
        short = self.find_short_name(claim)
        known = self.workloads.find_assignment(claim)
        return (claim.slot, *short, *(known.slots if known else ()))

    def is_meant(self, claim: Claim, value: str) -> bool:
        """Whether a value of the label on a node means a claim: it accepts it. Asked for each change of a pod."""
        known = self.workloads.find_assignment(claim)
        is_own = value == claim.slot or (known is not None and value in known.slots)
        return is_own or (value == claim.owner.name and value in self.find_short_name(claim))

    def find_short_name(self, claim: Claim) -> tuple[str, ...]:
        """The resource's name, where it is what people may write on a node to mean a claim."""
        name = claim.owner.name
        short = "." not in name and name not in (NONE, PENDING) and self.placement.name_owner(name) == claim.owner
        return (name,) if short else ()

    def is_decided(self, node: str) -> bool:
        """Whether there is something to decide of a node."""
        return node in self._decisions

    def decision(self, node: str) -> Decision:
        """What has been decided of a node that several want, or that a person reserved."""
        return self._decisions.get(node, NOTHING)[0]

    def standing(self, claim: Claim) -> Standing:
        """How a claim stands on the nodes where it has to follow the label."""
        return self._standings.get(claim.identity, NOWHERE)

    def find_undecidable(self, standing: Standing) -> str:
        """Why one of the nodes that a claim waits for cannot be labelled, or nothing."""
        waiting = (*standing.unlabelled, *standing.pending) if self.refused_nodes else ()
        return next((self.refused_nodes[name] for name in waiting if name in self.refused_nodes), "")

    def note_stray(self, daemonset: Key) -> set[str]:
        """Find out whether a scheduler's DaemonSet is there that nobody asks for; the decided nodes that it concerns.

        It is gone in a moment, but for a finalizer or a missing right; and while it is there it starts pods on every
        node whose slot is free.
        """
        seen, before = self.daemonsets.get(*daemonset), self._strays.pop(daemonset, None)
        is_stray = seen is not None and runs_scheduler(seen) and self.workloads.find_claim(seen) is None
        if seen and is_stray and (selector := parse_nodes(seen)):
            self._strays[daemonset] = selector, seen.spec.template.spec.tolerations
        if before is None or before == self._strays.get(daemonset):
            return set()
        decided = ((name, self.nodes.get("", name)) for name in self._decisions)
        return {name for name, node in decided if node and could_run(*before, node)}

    def refresh(self, name: str) -> set[Key]:
        """Decide of a node again; the answer is the resources for which that changed something."""
        before, node = self._decisions.get(name, NOTHING), self.nodes.get("", name)
        if node and name in self.quarantines and self.find_quarantine(node) is None:
            del self.quarantines[name]  # it ended before it was written: its revision is gone, or its time is over
        decision = self._decide(node) if node else NOTHING_TO_DECIDE
        after = (decision, read_slot(node).value if node else "")
        if not decision.contested and not decision.reserved:
            after = NOTHING
        if before == after:
            return set()
        if after == NOTHING:
            self._decisions.pop(name, None)
        else:
            self._decisions[name] = after
        for claim in before[0].participants:
            self._standings[claim.identity].remove(name)
            if not self._standings[claim.identity].contested:
                del self._standings[claim.identity]
        for claim in decision.participants:
            is_exact = self.workloads.rolls(claim) and decision.value
            given = after[1] == decision.value if is_exact else self.is_meant(claim, after[1])
            self._standings.setdefault(claim.identity, Standing()).put(
                name, lost=decision.winner is not claim, given=given, labelled=bool(after[1])
            )
        concerned = [*before[0].participants, *decision.participants]
        return {claim.owner for claim in concerned}

    def _decide(self, node: Node) -> Decision:
        name = node.metadata.name
        claims, slot, workloads = self.placement.on(name), read_slot(node), self.workloads
        occupants = workloads.find_occupants(name)
        strays = any(could_run(*stray, node) for stray in self._strays.values())
        alone = len(claims) < 2 and not strays
        kept_off = [claim for claim in claims if self._is_kept_off(claim, node)]
        simple = alone and not kept_off and not any(map(workloads.rolls, claims))
        if not slot.value and simple and all(occupant.claim in claims for occupant in occupants):
            return NOTHING_TO_DECIDE  # as on nearly every node of nearly every cluster
        able = [claim for claim in claims if self._is_able(claim, node)]
        # On one node they may go on trying beside whoever is there: when it is allowed at last, that is where it shows.
        refused = [claim for claim in claims if workloads.is_refused(claim) and not self._keeps_trying_on(claim, name)]
        if name not in self.refused_nodes:
            refused += [claim for claim in claims if claim not in able and self._is_left_to_others(claim)]
        return decide(
            able,
            refused,
            kept_off,
            slot,
            occupants,
            self.is_meant,
            lambda claim: self._may_take(claim, name),
            lambda claim: workloads.find_main(claim) is not None,
            lambda claim: self._find_value(claim, name),
            strays,
        )

    def _is_able(self, claim: Claim, node: Node) -> bool:
        """Whether nothing that has been seen keeps a claim's pods off a node that it could run on."""
        seen = self.workloads.find_main(claim)
        if self._is_kept_off(claim, node):
            return False
        if seen is None and not self.manages(claim.owner):
            # In a namespace of somebody else's only the label shows that somebody is about to make one.
            return self.is_meant(claim, read_slot(node).value)
        if seen is None:
            return self.verified is None or claim.identity in self.verified
        if not may_touch(seen, claim) or self.workloads.is_refused(claim):
            return False
        narrowed = self.workloads.find_narrowed(seen, claim)
        if narrowed and not narrowed.matches(node.metadata.labels, node.metadata.name):
            return False
        # Where it was given the slot it keeps it: what is in its way may be gone tomorrow, and moving on would not end.
        if self.is_meant(claim, read_slot(node).value):
            return True
        return not self.workloads.finds_no_room(seen, node.metadata.name)

    def find_quarantine(self, node: Node) -> QuarantineNote | None:
        """Why a node is left without a scheduler, where that is about a claim that could run there as it is now."""
        name = node.metadata.name
        note = self.quarantines.get(name) or read_quarantine(node)
        if note is None or (name, note.since) in self._expired:
            return None
        claims = (claim for claim in self.placement.on(name) if str(claim.owner) == note.sched_ext)
        lives = map(self.workloads.find_live, claims)
        concerns = any(not note.revision or live is None or note.revision in live for live in lives)
        return note if concerns else None

    def find_noted(self, claim: Claim) -> list[str]:
        """The nodes of a claim that a quarantine is noted of, whether it holds or not."""
        found = ((name, self.nodes.get("", name)) for name in self.placement.of(claim))
        return [name for name, node in found if node and (name in self.quarantines or read_quarantine(node))]

    def expire_quarantine(self, node: Node, now: datetime) -> bool:
        """Take in that the time of a node's quarantine has run out; whether that is news."""
        note = self.find_quarantine(node)
        if note is None or not is_over(note, now):
            return False
        self._expired.add((node.metadata.name, note.since))
        return True

    def note_quarantine(self, node: str, note: QuarantineNote) -> None:
        """A node is to be left without a scheduler: from now on, and not only when its annotation says so."""
        self.quarantines[node] = note

    def see_quarantine(self, node: Node) -> None:
        """Take in what a node's annotation says: what was to be written is there now, or was taken away."""
        known, written = self.quarantines.get(node.metadata.name), read_quarantine(node)
        if known and written and written.since == known.since:
            del self.quarantines[node.metadata.name]

    def _is_kept_off(self, claim: Claim, node: Node) -> bool:
        """Whether a claim is to be kept off a node: it is in quarantine, or cannot run it; unknown changes nothing."""
        note = self.find_quarantine(node) if node.metadata.annotations or self.quarantines else None
        if note and note.sched_ext == str(claim.owner):
            return True
        if not claim.resource.spec.skip_unfit_nodes:
            return False
        report = self.sight.find_fresh(node)
        return report.is_unfit if report else read_slot(node) == (NONE, NONE)

    def _is_left_to_others(self, claim: Claim) -> bool:
        """Whether another operator may make a claim's DaemonSet at any moment, or nobody ever.

        Two operators that made theirs at the same time would have two schedulers on a node. So each of them says on the
        node first that it takes it, and of two who say so at once the API server refuses one.
        """
        return not self.manages(claim.owner) and self.workloads.find_main(claim) is None

    def find_nodes(self, claim: Claim, seen: DaemonSet) -> Iterator[tuple[str, Node]]:
        """The nodes that are a claim's: those that it could run on, without what others have or deselected."""
        narrowed, lost = self.workloads.find_narrowed(seen, claim), self.standing(claim).lost
        for name in self.placement.of(claim):
            node = self.nodes.get("", name)
            if node and name not in lost and (narrowed is None or narrowed.matches(node.metadata.labels, name)):
                yield name, node

    def _may_take(self, claim: Claim, node: str) -> bool:
        """Whether a claim may take a slot from somebody: it must have shown, on one node, that its pods can work."""
        occupants = self.workloads.find_occupants(node)
        if self.workloads.has_worked(claim) or any(occupant.claim is claim for occupant in occupants):
            return True
        trial = self._trials.get(claim.identity, "")
        if not self._may_try(claim, trial):
            self._forget_trial(claim.identity)
            trial = next((name for name in self.placement.of(claim) if self._may_try(claim, name)), "")
            if trial:
                self._trials[claim.identity] = trial
                self._tried_on.setdefault(trial, {})[claim.identity] = None
        return trial in (node, "")

    def _may_try(self, claim: Claim, name: str) -> bool:
        """Whether a node is one on which a claim would soon have a pod: nobody else keeps it, and it is well."""
        node = self.nodes.get("", name)
        if node is None or not node.is_ready or not self._is_able(claim, node):
            return False
        if (claim.identity, name) in self._late_trials:
            return False
        slot = read_slot(node)
        if slot.reserved and not self.is_meant(claim, slot.reserved):
            return False
        for other in self.placement.on(name):
            if other is claim:
                return True
            if (self.is_meant(other, slot.value) or self.workloads.has_pods(other)) and self._is_able(other, node):
                return False
        return False

    def _forget_trial(self, identity: Identity) -> None:
        tried = self._tried_on.get(self._trials.pop(identity, ""), {})
        tried.pop(identity, None)

    def end_trials(self, name: str) -> list[Claim]:
        """The claims that were to show themselves on a node, and now have to on another one."""
        ended = []
        for identity in list(self._tried_on.get(name, ())):
            claim = self.placement.find(identity)
            if claim is None or not self._may_try(claim, name):
                self._forget_trial(identity)
                ended += [claim] if claim else []
        if not self._tried_on.get(name, True):
            del self._tried_on[name]
        return ended

    def give_up_trial(self, name: str, now: datetime) -> Claim | None:
        """The claim that was to show itself on a node whose pod does not end in time: it has to on another one."""
        winner = self.decision(name).winner
        if winner is None or self.workloads.has_pods(winner) or self._trials.get(winner.identity) != name:
            return None
        others = (occupant.pod for occupant in self.workloads.find_occupants(name) if occupant.claim is not winner)
        if not any(left < 0 for pod in others if (left := late_in(pod, now)) is not None):
            return None
        self._late_trials.add((winner.identity, name))
        return winner

    def _keeps_trying_on(self, claim: Claim, node: str) -> bool:
        """Whether a node is the one on which refused pods may go on being tried: the first that is ready."""
        ready = (name for name in self.placement.of(claim) if (found := self.nodes.get("", name)) and found.is_ready)
        return next(ready, node) == node
