"""Quarantine: a node whose kernel ejected a scheduler too often is left without one until it is lifted."""

from datetime import datetime, timedelta

import msgspec

from schedkit.durations import parse_duration
from schedkit.sked.api.requests import QUARANTINE
from schedkit.sked.api.rollout_types import Quarantine
from schedkit.sked.controller.attachment import parse_time
from schedkit.sked.controller.claims import Identity
from schedkit.sked.controller.failures import shorten
from schedkit.sked.controller.objects import Node
from schedkit.sked.controller.reports import QuarantineNote
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


def write_note(note: QuarantineNote) -> str:
    """A note as the annotation has it."""
    return msgspec.json.encode(note).decode()


class EjectionCounter:
    """When schedulers were ejected, by claim and node, as far back as matters."""

    def __init__(self) -> None:
        self._times: dict[tuple[Identity, str], list[datetime]] = {}

    def count(self, claim: Identity, node: str, asked: Quarantine, now: datetime) -> bool:
        """Take in one more ejection; whether these are too many."""
        within = timedelta(seconds=parse_duration(asked.within)) if asked.within else WITHIN
        key = claim, node
        times = [time for time in self._times.get(key, ()) if now - time <= within] + [now]
        if len(times) < asked.after_ejections:
            self._times[key] = times
            return False
        self._times.pop(key, None)
        return True

    def forget(self, resource: Key) -> None:
        """A resource is gone."""
        for key in [key for key in self._times if key[0][0] == resource]:
            del self._times[key]


def make_note(resource: Key, revision: str, asked: Quarantine, reason: str, now: datetime) -> QuarantineNote:
    """What is to be written on a node that is put in quarantine now."""
    until = format_time(now + timedelta(seconds=parse_duration(asked.for_))) if asked.for_ else None
    return QuarantineNote(str(resource), revision, format_time(now), until, shorten(reason, REASON_LENGTH))
