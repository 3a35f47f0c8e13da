"""A rollout: which revision each node of a claim is to have, and when it goes on, stops or goes back. Pure.

What it goes by is written down before anything is done: the phase, the step and the revision that failed are in the
status, the revision of each node in its label. So whoever goes on after a crash decides the same.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from schedkit.durations import parse_duration
from schedkit.sked.api.rollout_types import (
    COMPLETE,
    PAUSE,
    PAUSED,
    PROGRESSING,
    ROLLED_BACK,
    ROLLING_BACK,
    Rollout,
    RolloutStep,
)

PULL_FAILED = "PullFailed"
MIN_ATTACHED_SECONDS = 60
ATTACH_TIMEOUT_SECONDS = 120
NO_ROLLOUT = Rollout()


class PlaceState(StrEnum):
    """How the revision that a node has fares there."""

    WORKING = "working"  # attached, by the word of the kernel
    STARTING = "starting"
    FAILED = "failed"
    UNKNOWN = "unknown"  # nobody tells what the kernel does


@dataclass(frozen=True)
class Place:
    """One node, as a rollout sees it."""

    name: str
    revision: str = ""  # that it was given; empty: none yet, or the one before is leaving
    state: PlaceState = PlaceState.STARTING
    skipped: bool = False  # NotReady, cordoned, unfit, or somebody else's scheduler is in its kernel
    quarantined: bool = False  # it failed with its revision, and is left alone
    ready: bool = False  # whether its pod says that it is well
    attached_at: datetime | None = None
    given_at: datetime | None = None  # when the pod of its revision was made
    failed_at: datetime | None = None  # when time alone makes it fail
    pulled: bool = True  # whether the new revision's image is there
    unpullable: str = ""  # why it is not, and will not be
    waiting: str = ""  # the revision whose pod is there and waits for the slot
    waits_for: frozenset[str] = frozenset()  # the revisions whose pods are to wait here before it is given to them
    reason: str = ""
    message: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cause:
    """Why a revision counts as failed."""

    revision: str
    node: str
    reason: str
    message: str
    time: datetime


@dataclass(frozen=True)
class Progress:
    """How far a rollout is: all that is remembered of it."""

    current: str = ""  # the stable revision; empty: there was none before
    update: str = ""
    phase: str = COMPLETE
    step: int = 0
    since: datetime | None = None
    failed: Cause | None = None


@dataclass(frozen=True)
class Requests:
    """What people ask for just now."""

    paused: bool = False
    promote: bool = False  # past a pause
    retry: bool = False
    at_once: bool = False  # without the steps, as a person chose the revision
    held: bool = False  # whether the new revision may not be given to more nodes, as its image is not verified


@dataclass(frozen=True)
class Course:
    """What a rollout does next: either it notes down how far it is, or it moves nodes."""

    progress: Progress
    message: str
    revisions: Mapping[str, str]  # by node, what it is to have; empty: nothing for now
    pulls: Sequence[str] = ()  # the nodes to which the new revision's image is to be brought
    coming: Mapping[str, str] = field(default_factory=dict)  # by node, the revision whose pod is to wait there
    updated: int = 0
    attached: int = 0
    failed: int = 0
    skipped: int = 0
    again: datetime | None = None  # when time alone brings it further


class Moves(NamedTuple):
    """Which node gets what."""

    revisions: dict[str, str]
    pulls: list[str]
    coming: dict[str, str]


def advance(
    asked: Rollout | None,
    before: Progress,
    target: str,
    places: Sequence[Place],
    requests: Requests,
    now: datetime,
) -> Course:
    """The next stage of a rollout to `target`, and the revision of each node as far as it was noted down before."""
    plan = _Plan(asked or NO_ROLLOUT, target, places, requests, now)
    progress, message = plan.judge(before)
    # What has not been written down yet is not acted upon: a successor would not know of it.
    moves = plan.assign(progress) if progress == before else Moves({}, [], {})
    moved = [place for place in places if place.revision == target]
    return Course(
        progress,
        message,
        *moves,
        updated=len(moved),
        attached=sum(plan.is_attached(place, progress) for place in moved),
        failed=len(plan.find_failed()),
        skipped=sum(place.skipped and not place.quarantined for place in places),
        again=plan.find_next_time(progress),
    )


def resolve(asked: int | str | None, total: int) -> int:
    """A number of nodes, or a share of them rounded up; at least one."""
    if isinstance(asked, str):
        share = asked.removesuffix("%")
        asked = math.ceil(total * int(share) / 100) if asked.endswith("%") else int(share)
    return max(1, 1 if asked is None else asked)


class _Plan:
    """One look at one rollout."""

    def __init__(self, asked: Rollout, target: str, places: Sequence[Place], requests: Requests, now: datetime) -> None:
        self._asked = asked
        self._target = target
        self._requests = requests
        self._now = now
        self._places = places
        self._open = [place for place in places if not place.skipped]
        self._most = resolve(asked.max_unavailable, len(self._open))
        least = asked.min_attached_seconds
        self._least = timedelta(seconds=MIN_ATTACHED_SECONDS if least is None else least)

    # How far it is

    def judge(self, before: Progress) -> tuple[Progress, str]:
        """How far the rollout is now, and what it does or waits for."""
        progress = self._begin(before)
        if progress.failed and progress.failed.revision == self._target:
            return self._judge_failed(progress)
        if self._target == progress.current:
            return self._judge_settling(progress)
        if progress.phase == ROLLING_BACK:
            return self._judge_retry(progress)
        if self._requests.paused:
            return self._to(progress, PAUSED), "spec.paused is true"
        failed = self.find_failed()
        if failed and self._is_too_much(failed, progress):
            first = min(failed, key=lambda place: place.name)
            reason, message = (PULL_FAILED, first.unpullable) if first.unpullable else (first.reason, first.message)
            cause = Cause(self._target, first.name, reason, message, self._now)
            return self._judge_failed(replace(progress, failed=cause))
        if self._requests.held:
            return self._to(progress, PAUSED), "waits until the image is verified"
        return self._judge_step(progress)

    def _begin(self, before: Progress) -> Progress:
        """The progress, begun again where another revision is asked for than before."""
        progress = before
        if self._target != before.update:
            current = before.current
            if not before.update and not current:
                # Nothing is remembered: what most nodes have already is the stable one.
                had = Counter(place.revision for place in self._places if place.revision)
                current = max(had, key=lambda revision: (had[revision], revision), default="")
            progress = replace(before, current=current, update=self._target, step=0, phase=PROGRESSING, since=self._now)
            # Who goes around a revision that failed has not asked for it again.
            keeps = self._requests.at_once or _failed_with(before, self._target)
            progress = replace(progress, failed=before.failed if keeps else None)
            if self._requests.at_once:
                progress = replace(progress, step=len(self._asked.steps))
        if progress.step > len(self._asked.steps):
            # The steps were changed meanwhile: better wait once more than go to all nodes at once.
            progress = replace(progress, step=0, since=self._now)
        if self._requests.retry and _failed_with(progress, self._target):
            # Where it failed it goes first: what is to be tried is a new start.
            progress = replace(progress, failed=None, step=0, phase=ROLLING_BACK, since=self._now)
        return progress

    def _judge_failed(self, progress: Progress) -> tuple[Progress, str]:
        cause = progress.failed
        told = f"{cause.revision} failed on {cause.node}: {cause.message}" if cause else ""
        action = self._asked.failure.action if self._asked.failure else None
        # Once on its way back it goes on, whatever the spec says meanwhile.
        if action == PAUSE and progress.phase not in (ROLLING_BACK, ROLLED_BACK):
            return self._to(progress, PAUSED), told
        left = [place for place in self._open if self._is_to_leave(place, progress)]
        back = [place for place in self._open if place.revision == progress.current]
        # Who had the stable one and did not work with it before is not waited for: it may never do.
        waiting = [place for place in back if place.state is PlaceState.STARTING] if progress.current else []
        if self._requests.paused and progress.phase != ROLLED_BACK:
            return self._to(progress, ROLLING_BACK), f"spec.paused is true; {told}"
        if left or (waiting and progress.phase != ROLLED_BACK):
            to = f"to {progress.current}" if progress.current else "off the nodes"
            return self._to(progress, ROLLING_BACK), f"{_count(len(left))} left to bring back {to}; {told}"
        return self._to(progress, ROLLED_BACK), told

    def _judge_retry(self, progress: Progress) -> tuple[Progress, str]:
        """A person wants another try: it begins when no node has what was tried before."""
        left = sum(map(self._has_target, self._open))
        if left:
            return progress, f"{_count(left)} left to bring back before another try"
        return self._to(progress, PROGRESSING), "tries again"

    def _judge_settling(self, progress: Progress) -> tuple[Progress, str]:
        """Nothing new is asked for: nodes that have something else, or nothing, get the stable revision."""
        left = [place for place in self._open if place.revision != progress.current]
        if not left:
            return self._to(replace(progress, step=0), COMPLETE), "every node has the stable revision"
        if progress.phase == COMPLETE:
            return progress, f"{_count(len(left))} without it yet"  # as one that joined
        return self._to(progress, PROGRESSING), f"{_count(len(left))} left to give {progress.current}"

    def _judge_step(self, progress: Progress) -> tuple[Progress, str]:
        steps, place = self._asked.steps, min(progress.step, len(self._asked.steps))
        if place < len(steps) and steps[place].pause:
            until = self._find_pause_end(progress)
            if self._requests.promote or (until is not None and until <= self._now):
                return self._to(progress, PROGRESSING, place + 1), "goes on"
            wait = f"waits until {until:%Y-%m-%dT%H:%M:%SZ}" if until else "waits to be promoted"
            return self._to(progress, PAUSED), f"step {place + 1} of {len(steps)}: {wait}"
        step = steps[place] if place < len(steps) else None
        left = self._find_left(step)
        if left is None:
            told = f"step {place + 1} of {len(steps)}: no node has the labels of its nodeSelector"
            return self._to(progress, PROGRESSING), told
        if left == 0 and step is None:
            done = replace(progress, current=self._target, step=0)
            return self._to(done, COMPLETE), "every node has the new revision"
        if left == 0:
            return self._to(progress, PROGRESSING, place + 1), "goes on"
        told = f"step {place + 1} of {len(steps)}" if step else "all nodes"
        return self._to(progress, PROGRESSING), f"{told}: {_count(left)} to go{self._tell_unknown()}"

    def _tell_unknown(self) -> str:
        """What is waited for that no kernel will tell."""
        moved = (place for place in self._open if place.revision == self._target)
        first = next((place for place in moved if place.state is PlaceState.UNKNOWN), None)
        return f"; unknown of {first.name}: {first.message}" if first else ""

    def _find_pause_end(self, progress: Progress) -> datetime | None:
        steps = self._asked.steps
        pause = steps[progress.step].pause if progress.step < len(steps) else None
        duration = pause.duration if pause else None
        return progress.since + timedelta(seconds=parse_duration(duration)) if duration and progress.since else None

    def _to(self, progress: Progress, phase: str, step: int | None = None) -> Progress:
        step = progress.step if step is None else step
        if (progress.phase, progress.step) == (phase, step):
            return progress
        # A pause is counted from the step's begin, whatever was the phase meanwhile.
        since = progress.since if step == progress.step and _is_pausing(self._asked, step, phase) else self._now
        return replace(progress, phase=phase, step=step, since=since)

    def find_failed(self) -> list[Place]:
        """The nodes where the new revision does not work, or to which it cannot be brought."""
        return [
            place
            for place in self._places
            if place.quarantined or not place.skipped
            if (place.state is PlaceState.FAILED if self._has_target(place) else place.unpullable)
        ]

    def _is_too_much(self, failed: Sequence[Place], progress: Progress) -> bool:
        allowed = (self._asked.failure.max_nodes if self._asked.failure else None) or 0
        if len(failed) > allowed:
            return True
        # All that are waited for have failed, or take up the room: it would never go on.
        steps = self._asked.steps
        step = steps[progress.step] if progress.step < len(steps) else None
        left, away = self._find_left(step), sum(not self._has_target(place) for place in failed)
        nothing_works = not any(map(self.has_settled, filter(self._has_target, self._open)))
        if left is None:
            return False
        return (left <= away and (left > 0 or nothing_works)) or sum(not it.skipped for it in failed) >= self._most

    def _find_left(self, step: RolloutStep | None) -> int | None:
        """How many nodes are still to settle, or to fail, before a step is done; None: none of them has its labels."""
        matching = [place for place in self._open if _matches(step, place)]
        if not matching and self._open:
            return None
        settled = sum(map(self._is_done, self._open))
        if step is None or step.nodes is None:
            return len(self._open) - settled
        # Of those that match no more can be had than there are.
        more = sum(not self._has_target(place) for place in matching)
        moved = sum(self._has_target(place) for place in self._open)
        goal = min(resolve(step.nodes, len(self._open)), moved + more)
        return max(0, goal - settled)

    def _has_target(self, place: Place) -> bool:
        return place.revision == self._target

    def _is_done(self, place: Place) -> bool:
        """Whether a node is not waited for: it has settled, or failed where that is allowed."""
        return self._has_target(place) and (place.state is PlaceState.FAILED or self.has_settled(place))

    def is_attached(self, place: Place, progress: Progress) -> bool:
        """Whether a node's kernel has its revision, and for long enough if that is new."""
        return self.has_settled(place) or (place.state is PlaceState.WORKING and place.revision == progress.current)

    def has_settled(self, place: Place) -> bool:
        """Whether a node has had its revision attached for long enough."""
        if place.state is not PlaceState.WORKING or place.attached_at is None:
            return False
        return self._now - place.attached_at >= self._least

    def find_next_time(self, progress: Progress) -> datetime | None:
        """When time alone changes something."""
        times = [place.failed_at for place in self._open if place.failed_at]
        if self._target != progress.current:
            times += [
                place.attached_at + self._least
                for place in self._open
                if place.revision == self._target and place.attached_at and not self.has_settled(place)
            ]
        if until := self._find_pause_end(progress):
            times.append(until)
        return min((time for time in times if time > self._now), default=None)

    # Which node gets what

    def assign(self, progress: Progress) -> Moves:
        """The revision of each node: what it has, or another one, and no more at a time than may be without.

        And the nodes to which an image is to be brought first, and then a pod that waits for the old one to leave:
        those that are next, and as many ahead of them.
        """
        pulls: list[str] = []
        coming: dict[str, str] = {}
        given = {place.name: place.revision or progress.current for place in self._places}
        # Who has none loses nothing by getting another one. Who has one counts when it is taken off; and before that,
        # nodes whose new one has yet to show that it stays count as being without.
        room = self._most - sum(not _has_scheduler(place) for place in self._open)
        settled_room = self._most - sum(not self._is_available(place, progress) for place in self._open)
        for place, revision in self._choose(progress):
            if _has_scheduler(place):
                if revision == self._target != progress.current and not place.pulled:
                    pulls += [place.name] if len(pulls) < 2 * self._most else []
                    continue
                if revision in place.waits_for:
                    if len(coming) < 2 * self._most:
                        coming[place.name] = revision
                    if place.waiting != coming.get(place.name):
                        continue
                available = self._is_available(place, progress)
                if room <= 0 or (available and settled_room <= 0):
                    continue
                room -= 1
                settled_room -= available
            given[place.name] = revision
            coming.pop(place.name, None)  # it has what it waited for
        return Moves(given, pulls, coming)

    def _choose(self, progress: Progress) -> list[tuple[Place, str]]:
        """The nodes that are to have another revision in the end of this step, in the order in which they get it."""
        if progress.phase in (ROLLING_BACK, ROLLED_BACK) or self._target == progress.current:
            if self._requests.paused and progress.phase == ROLLING_BACK:
                return []
            # What failed must not be the one that begins when somebody else's scheduler leaves.
            going = [place for place in self._places if not place.skipped or _is_without(place)]
            newest = sorted(going, key=lambda place: (place.given_at or self._now, place.name), reverse=True)
            return [(place, progress.current) for place in newest if self._is_to_leave(place, progress)]
        if progress.phase == PAUSED:
            return []
        steps = self._asked.steps
        step = steps[progress.step] if progress.step < len(steps) else None
        if step and step.nodes is None:
            return []
        goal = resolve(step.nodes, len(self._open)) if step else len(self._open)
        candidates = sorted(
            (place for place in self._open if not self._has_target(place) and _matches(step, place)),
            key=lambda place: self._rank(place, progress),
        )
        missing = goal - sum(map(self._has_target, self._open))
        return [(place, self._target) for place in candidates[: max(0, missing)]]

    def _is_to_leave(self, place: Place, progress: Progress) -> bool:
        """Whether a node is to have the stable revision instead; without one, nothing but what failed goes."""
        if progress.current:
            return place.revision != progress.current
        return self._has_target(place) and not _has_scheduler(place)

    def _rank(self, place: Place, progress: Progress) -> tuple[object, ...]:
        """Who goes first: what is on its way, then who has an abandoned revision, then whose does not work."""
        return bool(place.revision), place.revision == progress.current, self._is_available(place, progress), place.name

    def _is_available(self, place: Place, progress: Progress) -> bool:
        """Whether a node counts as having its scheduler."""
        if not place.revision:
            return False
        if place.revision == self._target and self._target != progress.current:
            return self.has_settled(place)
        return _has_scheduler(place)


def _has_scheduler(place: Place) -> bool:
    """Whether a node has one now. What nobody judges is taken at its pod's word."""
    if not place.revision:
        return False
    return place.state is PlaceState.WORKING or (place.state is PlaceState.UNKNOWN and place.ready)


def _is_without(place: Place) -> bool:
    """Whether the kernel of a node has not attached its revision, and nobody keeps the node without."""
    return not place.quarantined and place.state in (PlaceState.STARTING, PlaceState.FAILED)


def _matches(step: RolloutStep | None, place: Place) -> bool:
    asked = step.node_selector if step else None
    return all(place.labels.get(key) == value for key, value in (asked or {}).items())


def _failed_with(progress: Progress, revision: str) -> bool:
    return progress.failed is not None and progress.failed.revision == revision


def _is_pausing(asked: Rollout, step: int, phase: str) -> bool:
    return phase == PAUSED and step < len(asked.steps) and asked.steps[step].pause is not None


def _count(nodes: int) -> str:
    return "1 node" if nodes == 1 else f"{nodes} nodes"
