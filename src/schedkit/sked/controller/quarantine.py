"""Quarantine: a node whose kernel ejected a scheduler too often is left without one until it is lifted."""

from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from schedkit.durations import parse_duration
from schedkit.sked.api.requests import QUARANTINE
from schedkit.sked.api.rollout_types import Quarantine
from schedkit.sked.api.types import SchedExt
from schedkit.sked.controller.attachment import parse_time
from schedkit.sked.controller.failures import shorten
from schedkit.sked.controller.objects import Node
from schedkit.sked.controller.reports import Ejections, QuarantineNote
from schedkit.sked.kube.objects import Key, format_time

WITHIN = timedelta(minutes=10)
REASON_LENGTH = 500


def is_over(note: QuarantineNote, now: datetime) -> bool:
    """Whether its time has run out."""
    until = parse_time(note.until)
    return until is not None and until <= now


def read_quarantine(node: Node) -> QuarantineNote | None:
    """What a node's annotation says; what cannot be understood keeps nothing off it."""
    text = node.metadata.annotations.get(QUARANTINE, "")
    try:
        return msgspec.json.decode(text, type=QuarantineNote) if text else None
    except msgspec.DecodeError:
        return None


def is_of_earlier(told: Ejections, resource: SchedExt) -> bool:
    """Whether what a report says was counted of a resource that had the name before."""
    last, made = parse_time(told.last), parse_time(resource.metadata.creation_timestamp)
    return last is not None and made is not None and last < made


def write_note(note: QuarantineNote) -> str:
    """A note as the annotation has it."""
    return msgspec.json.encode(note).decode()


class EjectionCounter:
    """Counts ejections by node. What it counted goes into reports, so that a successor goes on from there."""

    def __init__(self) -> None:
        self._counted: dict[str, Ejections] = {}

    def find(self, node: str) -> Ejections | None:
        """What was counted on a node since this program started."""
        return self._counted.get(node)

    def count(self, ejection: "NodeEjection", told: Ejections | None, asked: Quarantine, *, held: bool = False) -> bool:
        """Take in an ejection, unless it was counted before; whether these are too many.

        `told` is what the node's report says. While it is `held`, the last one too many is left for another look.
        """
        known = self._counted.get(ejection.node) or told
        if known is None or known.sched_ext != ejection.resource:
            known = Ejections(ejection.resource)
        if ejection.time == known.last:  # whatever is the revision by now
            return False
        counted = known.times if known.revision == ejection.revision else ()
        within = timedelta(seconds=parse_duration(asked.within)) if asked.within else WITHIN
        times = (*(time for time in counted if _is_within(time, ejection.time, within)), ejection.time)
        are_too_many = len(times) >= asked.after_ejections
        if are_too_many and held:
            return False
        self._counted[ejection.node] = Ejections(
            ejection.resource, ejection.revision, ejection.time, () if are_too_many else times
        )
        return are_too_many

    def forget_node(self, node: str) -> None:
        """A node is gone."""
        self._counted.pop(node, None)

    def forget(self, resource: Key) -> None:
        """A resource is gone."""
        for node in [node for node, known in self._counted.items() if known.sched_ext == str(resource)]:
            del self._counted[node]


class NodeEjection(NamedTuple):
    """A kernel ejected a scheduler."""

    node: str
    resource: str  # namespace/name
    revision: str
    time: str  # by the node's clock
    pod: str = ""
    message: str = ""  # what the kernel said


def _is_within(earlier: str, later: str, period: timedelta) -> bool:
    """Whether two moments, told by one clock, lie within a period; a clock may be set back."""
    began, ended = parse_time(earlier), parse_time(later)
    return began is not None and ended is not None and abs(ended - began) <= period


def make_note(resource: Key, revision: str, asked: Quarantine, reason: str, now: datetime) -> QuarantineNote:
    """What is to be written on a node that is put in quarantine now."""
    until = format_time(now + timedelta(seconds=parse_duration(asked.for_))) if asked.for_ else None
    return QuarantineNote(str(resource), revision, format_time(now), until, shorten(reason, REASON_LENGTH))
