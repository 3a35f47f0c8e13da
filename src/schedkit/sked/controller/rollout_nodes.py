"""The nodes of a rollout: how each fares, and which of them get another revision next. Pure."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from schedkit.sked.api.rollout_types import PAUSED, ROLLED_BACK, ROLLING_BACK, Rollout, RolloutStep
from schedkit.sked.controller.progress import Progress

MIN_ATTACHED_SECONDS = 60
ATTACH_TIMEOUT_SECONDS = 120
NO_LABELS: Mapping[str, str] = MappingProxyType({})


class PlaceState(StrEnum):
    """How the revision that a node has fares there."""

    WORKING = "working"  # attached, by the word of the kernel
    STARTING = "starting"
    FAILED = "failed"
    UNKNOWN = "unknown"  # nobody tells what the kernel does


class Place(NamedTuple):
    """One node, as a rollout sees it; thousands are made at each look."""

    name: str
    revision: str = ""  # that it was given; empty: none yet, or the one before is leaving
    state: PlaceState = PlaceState.STARTING
    skipped: bool = False  # NotReady, cordoned, unfit, or somebody else's scheduler is in its kernel
    leaving_until: datetime | None = None  # until when that is taken for what its earlier revision had attached
    quarantined: bool = False  # it failed with its revision, and is left alone
    ready: bool = False  # whether its pod says that it is well
    held: bool = False  # whether its pod is to stay for a moment, until its log has been read
    attached_at: datetime | None = None
    given_at: datetime | None = None  # when the pod of its revision was made
    failed_at: datetime | None = None  # when time alone makes it fail
    pulled: bool = True  # whether the new revision's image is there
    unpullable: str = ""  # why it is not, and will not be
    coming: str = ""  # the revision whose pod is to be there, and to wait
    arrived: bool = False  # whether the pod of the new revision has come after it, and waits or has waited
    waiting: str = ""  # the revision whose pod is there and waits for the slot
    waits_for: frozenset[str] = frozenset()  # the revisions whose pods are to wait here before it is given to them
    reason: str = ""
    message: str = ""
    labels: Mapping[str, str] = NO_LABELS


class Moves(NamedTuple):
    """Which node gets what."""

    revisions: dict[str, str]
    pulls: list[str]
    coming: dict[str, str]


def resolve(asked: int | str | None, total: int) -> int:
    """A number of nodes, or a share of them rounded up; at least one."""
    if isinstance(asked, str):
        share = asked.removesuffix("%")
        asked = math.ceil(total * int(share) / 100) if asked.endswith("%") else int(share)
    return max(1, 1 if asked is None else asked)


def read_timeout(asked: Rollout | None) -> timedelta:
    """How long a node has to attach what it was given."""
    seconds = asked.attach_timeout_seconds if asked else None
    return timedelta(seconds=ATTACH_TIMEOUT_SECONDS if seconds is None else seconds)


class Places:
    """All nodes of a rollout to `target`, at one look."""

    def __init__(self, asked: Rollout, target: str, places: Sequence[Place], now: datetime) -> None:
        self._steps = asked.steps
        self._target = target
        self._now = now
        self.all = places
        self.open = [place for place in places if not place.skipped]  # that can be moved now
        # Those that are kept without for the new revision: that ends with another try, and on the way back.
        self.quarantined = [place for place in places if place.quarantined and place.revision == target]
        self.most = resolve(asked.max_unavailable, len(self.open))  # that may be without a scheduler at a time
        least = asked.min_attached_seconds
        self.least = timedelta(seconds=MIN_ATTACHED_SECONDS if least is None else least)
        self._timeout = read_timeout(asked)
        self._is_blind = all(place.state is PlaceState.UNKNOWN for place in places)  # as where no agent runs

    def has_target(self, place: Place) -> bool:
        """Whether a node was given the revision that the rollout is to bring to all."""
        return place.revision == self._target

    def has_settled(self, place: Place) -> bool:
        """Whether a node has had its revision attached for long enough."""
        if place.state is not PlaceState.WORKING or place.attached_at is None:
            return False
        return self._now - place.attached_at >= self.least

    def find_failed(self) -> list[Place]:
        """The nodes where the new revision does not work, or to which it cannot be brought."""
        return [
            place
            for place in self.all
            if place.quarantined or not place.skipped
            if (place.state is PlaceState.FAILED if self.has_target(place) else place.unpullable)
        ]

    def count_left(self, step: RolloutStep | None) -> int | None:
        """How many nodes are still to settle, or to fail, before a step is done; None: none of them has its labels."""
        matching = [place for place in self.open if _matches(step, place)]
        if not matching and self.open:
            return None
        settled = sum(map(self._is_done, self.open))
        if step is None or step.nodes is None:
            return len(self.open) - settled
        # Of those that match no more can be had than there are.
        more = sum(not self.has_target(place) for place in matching)
        moved = sum(self.has_target(place) for place in self.open)
        goal = min(resolve(step.nodes, len(self.open)), moved + more)
        return max(0, goal - settled)

    def _is_done(self, place: Place) -> bool:
        """Whether a node is not waited for: it has settled, or failed where that is allowed."""
        return self.has_target(place) and (place.state is PlaceState.FAILED or self.has_settled(place))

    def is_attached(self, place: Place, progress: Progress) -> bool:
        """Whether a node's kernel has its revision, and for long enough if that is new."""
        return self.has_settled(place) or (place.state is PlaceState.WORKING and place.revision == progress.current)

    def is_to_leave(self, place: Place, progress: Progress) -> bool:
        """Whether a node is to have the stable revision instead; without one, nothing but what failed goes."""
        if progress.current:
            return place.revision != progress.current
        return self.has_target(place) and not _has_scheduler(place)

    def find_patience_end(self, place: Place) -> datetime | None:
        """Until when a node that was brought back is waited for even though it failed, is skipped or nobody can tell.

        What was ejected may attach once more before its pod is gone, and the kernel refuses the next one until then.
        """
        if place.state is PlaceState.WORKING or place.quarantined or (self._is_blind and place.ready):
            return None
        if place.given_at is None or place.given_at > self._now:  # by a node's clock, which is wrong then
            return None
        until = place.given_at + self._timeout
        return until if until > self._now else None

    def find_leaving_end(self, place: Place) -> datetime | None:
        """Until when a node counts that is skipped, as its report shows what left, or is about to: that may be late."""
        until = place.leaving_until if place.skipped else None
        return until if until and until > self._now else None

    def is_awaited(self, place: Place) -> bool:
        """Whether a node that was brought back may yet attach what it has; not one that has not worked for long."""
        is_starting = place.state is PlaceState.STARTING and not place.skipped
        return is_starting or self.find_patience_end(place) is not None

    def assign(self, progress: Progress, *, paused: bool) -> Moves:
        """The revision of each node: what it has, or another one, and no more at a time than may be without.

        And the nodes to which an image is to be brought first, and then a pod that waits for the old one to leave:
        those that are next, and as many ahead of them.
        """
        pulls: list[str] = []
        pulled = 0  # nodes that have the image, and have to wait for their turn
        coming: dict[str, str] = {}
        given = {place.name: place.revision or progress.current for place in self.all}
        # Whose quarantine ends now, as its revision is none that nodes may get, must not get what failed that way.
        is_back = progress.phase in (ROLLING_BACK, ROLLED_BACK)
        live = {progress.current} if is_back else {progress.current, progress.update}
        ended = (place.name for place in self.all if place.quarantined and place.revision not in live)
        given |= dict.fromkeys(ended, progress.current)
        # Who has none loses nothing by getting another one. Who has one counts when it is taken off; and before that,
        # nodes whose new one has yet to show that it stays count as being without.
        leaving = sum(self.find_leaving_end(place) is not None for place in self.all)
        room = self.most - leaving - sum(not _has_scheduler(place) for place in self.open)
        settled_room = self.most - leaving - sum(not self._is_available(place, progress) for place in self.open)
        for place, revision in self._choose(progress, paused=paused):
            if place.held:
                continue
            if _has_scheduler(place):
                if revision == self._target != progress.current and not place.pulled:
                    pulls += [place.name] if len(pulls) + pulled < 2 * self.most else []
                    continue
                if revision in place.waits_for:
                    if len(coming) < 2 * self.most:
                        coming[place.name] = revision
                    else:
                        pulled += 1
                    if place.waiting != coming.get(place.name):
                        continue
                elif revision == place.coming and len(coming) < 2 * self.most:
                    coming[place.name] = revision  # it does not come in time, and is not taken back to be tried again
                available = self._is_available(place, progress)
                if room <= 0 or (available and settled_room <= 0):
                    continue
                room -= 1
                settled_room -= available
            given[place.name] = revision
            coming.pop(place.name, None)  # it has what it waited for
        return Moves(given, pulls, coming)

    def _choose(self, progress: Progress, *, paused: bool) -> list[tuple[Place, str]]:
        """The nodes that are to have another revision in the end of this step, in the order in which they get it."""
        if progress.phase in (ROLLING_BACK, ROLLED_BACK) or self._target == progress.current:
            if paused and progress.phase == ROLLING_BACK:
                return []
            # What failed must not be the one that begins when somebody else's scheduler leaves.
            going = [place for place in self.all if not place.skipped or _is_without(place)]
            newest = sorted(going, key=lambda place: (place.given_at or self._now, place.name), reverse=True)
            return [(place, progress.current) for place in newest if self.is_to_leave(place, progress)]
        if progress.phase == PAUSED:
            return []
        steps = self._steps
        step = steps[progress.step] if progress.step < len(steps) else None
        if step and step.nodes is None:
            return []
        goal = resolve(step.nodes, len(self.open)) if step else len(self.open)
        candidates = sorted(
            (place for place in self.open if not self.has_target(place) and _matches(step, place)),
            key=lambda place: self._rank(place, progress),
        )
        missing = goal - sum(map(self.has_target, self.open))
        return [(place, self._target) for place in candidates[: max(0, missing)]]

    def _rank(self, place: Place, progress: Progress) -> tuple[object, ...]:
        """Who goes first: what is on its way, then who has an abandoned revision, then whose does not work.

        Of the others, those for which most has been done: a pod that waits, or an image, is not taken back for another.
        """
        is_ready = place.coming != self._target, not place.pulled
        is_well = self._is_available(place, progress)
        return bool(place.revision), place.revision == progress.current, is_well, *is_ready, place.name

    def _is_available(self, place: Place, progress: Progress) -> bool:
        """Whether a node counts as having its scheduler."""
        if not place.revision:
            return False
        if place.revision == self._target and self._target != progress.current:
            return self.has_settled(place)
        return _has_scheduler(place)


def _matches(step: RolloutStep | None, place: Place) -> bool:
    asked = step.node_selector if step else None
    return all(place.labels.get(key) == value for key, value in (asked or {}).items())


def _has_scheduler(place: Place) -> bool:
    """Whether a node has one now. What nobody judges is taken at its pod's word."""
    if not place.revision:
        return False
    return place.state is PlaceState.WORKING or (place.state is PlaceState.UNKNOWN and place.ready)


def _is_without(place: Place) -> bool:
    """Whether the kernel of a node has not attached its revision, and nobody keeps the node without."""
    return not place.quarantined and place.state in (PlaceState.STARTING, PlaceState.FAILED)
