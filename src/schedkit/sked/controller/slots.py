"""One node, one decision: who is to have the slot of its kernel, and the next step on the way there.

The decision is one label on the node, and it is written only where there is something to decide. An annotation of the
same name holds what sked wrote last: a label that says something else was set by a person, and is respected.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from schedkit.sked.api.requests import NEXT, NONE, PENDING, SLOT, make_slot
from schedkit.sked.controller.claims import Claim
from schedkit.sked.controller.failures import has_begun, is_running
from schedkit.sked.controller.objects import Node, Pod
from schedkit.sked.kube.objects import Key


class Slot(NamedTuple):
    """What a node says of its slot; empty where it says nothing."""

    value: str
    written: str  # what sked wrote last

    @property
    def reserved(self) -> str:
        """The value, when a person set it."""
        return self.value if self.value != self.written else ""


class Occupant(NamedTuple):
    """A scheduler's pod on a node."""

    pod: Pod
    claim: Claim | None  # none: what it was made for is no longer asked for
    slot: str = ""  # what the label says where its DaemonSet has the slot


@dataclass(frozen=True)
class Decision:
    """Who is to have a node's slot."""

    winner: Claim | None
    contested: bool = False  # whether it takes a label to say so
    reserved: str = ""  # what a person wrote
    participants: tuple[Claim, ...] = ()  # whose DaemonSets have to follow the label
    value: str = ""  # what the label is to say in the end; empty: whatever it says now

    @property
    def keeps_off(self) -> bool:
        """Whether nobody is to have it, as the kernel cannot run what those who want it ask for."""
        return self.contested and self.winner is None and not self.reserved


@dataclass(frozen=True)
class Assignment:
    """Which of a claim's revisions each of its nodes is to have, in the words of the label."""

    claim: str  # its name
    main: str  # the revision by which the claim is judged: the stable one, or the first
    slots: frozenset[str]  # of all its revisions
    live: frozenset[str]  # those that nodes may get now
    values: Mapping[str, str]  # by node; a node that is not in it keeps what it has
    coming: Mapping[str, str] = field(default_factory=dict)  # by node: whose pod is to wait there for the slot


@dataclass(frozen=True)
class Standing:
    """How a claim stands on the nodes where it follows the label; dicts as sets that keep their order."""

    contested: dict[str, None] = field(default_factory=dict)  # all of them
    lost: dict[str, None] = field(default_factory=dict)  # that somebody else is to have, or nobody
    pending: dict[str, None] = field(default_factory=dict)  # that are to be its own, and are not yet
    unlabelled: dict[str, None] = field(default_factory=dict)

    def put(self, node: str, *, lost: bool, given: bool, labelled: bool) -> None:
        """Take in how it stands on one node."""
        self.remove(node)
        self.contested[node] = None
        if lost:
            self.lost[node] = None
        elif not given:
            self.pending[node] = None
        if not labelled:
            self.unlabelled[node] = None

    def remove(self, node: str) -> None:
        """The node is no longer one of these."""
        for names in (self.contested, self.lost, self.pending, self.unlabelled):
            names.pop(node, None)


NOWHERE = Standing()


def read_slot(node: Node) -> Slot:
    """What a node's label and annotation say."""
    value = node.metadata.labels.get(SLOT)
    # An empty value keeps all that follow the label off the node, as the word for it does.
    return Slot(NONE if value == "" else value or "", node.metadata.annotations.get(SLOT, ""))


def read_slot_of(pod: Pod) -> str:
    """What the label says where the DaemonSet of a pod has the slot."""
    owner = pod.metadata.controller
    return make_slot(Key(pod.metadata.namespace, owner.name)) if owner else ""


def read_next(node: Node) -> Slot:
    """What a node's label and annotation say of who waits there for the slot."""
    return Slot(node.metadata.labels.get(NEXT, ""), node.metadata.annotations.get(NEXT, ""))


def find_given(node: Node, holder: Pod | None, waiter: Pod | None) -> str:
    """The slot that counts on a node: what its label says, or what is to be next, once that runs in its place.

    Where both run, as after a reboot, only one of them can be attached, and what the label says is to be that.
    """
    took_over = waiter is not None and is_running(waiter) and not (holder and is_running(holder))
    return read_next(node).value if took_over else read_slot(node).value


def decide(
    able: Sequence[Claim],
    refused: Sequence[Claim],
    kept_off: Sequence[Claim],
    slot: Slot,
    occupants: Sequence[Occupant],
    is_meant: Callable[[Claim, str], bool],
    may_take: Callable[[Claim], bool],
    has_daemonset: Callable[[Claim], bool],
    find_value: Callable[[Claim], str | None],
    strays: bool = False,
) -> Decision:
    """Who is to have a slot: of those that could run there, the strongest first.

    The pods of `refused` cannot be created now; they would be there all at once as soon as they can. `kept_off` do
    not want the node as long as its kernel is unfit.

    `is_meant` says whether a value of the label means a claim; `may_take`, whether one may take a slot that it does
    not have yet; `strays`, whether a DaemonSet that nobody asks for would start a pod where the slot is free.
    `find_value` gives what the label says where a claim with several revisions has the slot; None: it has one only.
    """
    present = [occupant.claim for occupant in occupants if occupant.claim]
    participants = tuple(dict.fromkeys((*able, *refused, *kept_off, *present)))
    if reserved := slot.reserved:
        meant = next((claim for claim in (*able, *kept_off) if is_meant(claim, reserved)), None)
        others = any(claim is not meant for claim in participants)
        return Decision(meant, others, reserved, participants if others else ())
    if not able:
        return Decision(None, True, "", participants) if kept_off else Decision(None)
    winner = next((claim for claim in able if is_meant(claim, slot.value) or may_take(claim)), able[0])
    if (value := find_value(winner)) is not None:
        return Decision(winner, True, "", participants, value)
    # Pods that nobody asks for any more are waited for before there is a DaemonSet; they alone make no conflict.
    waits = not slot.value and not has_daemonset(winner)
    strangers = [occupant for occupant in occupants if occupant.claim is not winner]
    alone = len(able) + len(refused) + len(kept_off) < 2 and (waits or not strays)
    if alone and not any(stranger.claim or not waits for stranger in strangers):
        return Decision(winner)
    return Decision(winner, True, "", participants, winner.slot)


def next_value(decision: Decision, slot: Slot, occupants: Sequence[Occupant], *, held: bool = False) -> str:
    """What the label is to say now: the winner's name once nobody else is there, and until then that it is pending.

    `held`: the kernel has yet to detach what was attached.
    """
    if decision.reserved:
        return slot.value
    if decision.keeps_off:
        return NONE
    if not decision.contested or decision.winner is None:
        return ""
    mine = decision.value or slot.value
    if slot.value == mine or (not occupants and not held):
        return mine
    # Two that are there already gain nothing from one more restart.
    there = (occupant.pod for occupant in occupants if occupant.claim is decision.winner and occupant.slot == mine)
    # One that has ended, as it met the other, would be started again too late.
    return mine if any(is_running(pod) or not has_begun(pod) for pod in there) else PENDING
