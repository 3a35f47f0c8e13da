"""A rollout: when it goes on, stops or goes back, and with that which revision each node is to have. Pure.

What it goes by is written down before anything is done: the phase, the step and the revision that failed are in the
status, the revision of each node in its label. So whoever goes on after a crash decides the same.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from schedkit.durations import parse_duration
from schedkit.sked.api.rollout_types import COMPLETE, PAUSE, PAUSED, PROGRESSING, ROLLED_BACK, ROLLING_BACK, Rollout
from schedkit.sked.controller.progress import Cause, Progress, Requests
from schedkit.sked.controller.rollout_nodes import Moves, Place, Places, PlaceState

PULL_FAILED = "PullFailed"
NO_ROLLOUT = Rollout()


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


def advance(
    asked: Rollout | None,
    before: Progress,
    target: str,
    places: Sequence[Place],
    requests: Requests,
    now: datetime,
) -> Course:
    """The next stage of a rollout to `target`, and the revision of each node as far as it was noted down before."""
    asked = asked or NO_ROLLOUT
    nodes = Places(asked, target, places, now)
    judge = _Judge(asked, target, nodes, requests, now)
    progress, message = judge.judge(before)
    # What has not been written down yet is not acted upon: a successor would not know of it. Who waits, waits on.
    stays = Moves({}, [], {place.name: place.coming for place in places if place.coming})
    moves = nodes.assign(progress, paused=requests.paused) if progress == before else stays
    moved = [place for place in places if place.revision == target]
    return Course(
        progress,
        message,
        *moves,
        updated=len(moved),
        attached=sum(nodes.is_attached(place, progress) for place in moved),
        failed=len(nodes.find_failed()),
        skipped=sum(place.skipped and not place.quarantined for place in places),
        again=judge.find_next_time(progress),
    )


class _Judge:
    """One look at one rollout."""

    def __init__(self, asked: Rollout, target: str, places: Places, requests: Requests, now: datetime) -> None:
        self._asked = asked
        self._target = target
        self._places = places
        self._requests = requests
        self._now = now

    def judge(self, before: Progress) -> tuple[Progress, str]:
        """How far the rollout is now, and what it does or waits for."""
        progress = self._begin(before)
        if progress.failed and progress.failed.revision == self._target:
            return self._judge_failed(replace(progress, failed=self._complete(progress.failed)))
        if self._target == progress.current:
            return self._judge_settling(progress)
        if progress.phase == ROLLING_BACK:
            return self._judge_retry(progress)
        if self._requests.paused:
            return self._to(progress, PAUSED), "spec.paused is true"
        failed = self._places.find_failed()
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
                had = Counter(place.revision for place in self._places.all if place.revision)
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

    def _complete(self, cause: Cause) -> Cause:
        """Why a revision failed, with what became known since then; never less than was told before."""
        told = (place.message for place in self._places.find_failed() if place.name == cause.node)
        more = (message for message in told if message.startswith(cause.message))
        return replace(cause, message=next(more, cause.message))

    def _judge_failed(self, progress: Progress) -> tuple[Progress, str]:
        cause = progress.failed
        told = f"{cause.revision} failed on {cause.node}: {cause.message}" if cause else ""
        action = self._asked.failure.action if self._asked.failure else None
        # Once on its way back it goes on, whatever the spec says meanwhile.
        if action == PAUSE and progress.phase not in (ROLLING_BACK, ROLLED_BACK):
            return self._to(progress, PAUSED), told
        places = self._places
        left = [place for place in (*places.open, *places.quarantined) if places.is_to_leave(place, progress)]
        back = [place for place in places.all if place.revision == progress.current]
        waiting = list(filter(places.is_awaited, back)) if progress.current else []
        if self._requests.paused and progress.phase != ROLLED_BACK:
            return self._to(progress, ROLLING_BACK), f"spec.paused is true; {told}"
        if left or (waiting and progress.phase != ROLLED_BACK):
            to = f"to {progress.current}" if progress.current else "off the nodes"
            return self._to(progress, ROLLING_BACK), f"{_count(len(left + waiting))} left to bring back {to}; {told}"
        return self._to(progress, ROLLED_BACK), told

    def _judge_retry(self, progress: Progress) -> tuple[Progress, str]:
        """A person wants another try: it begins when no node has what was tried before, or is kept without for it."""
        places = self._places
        tried = [place for place in places.open if places.has_target(place) and places.is_to_leave(place, progress)]
        left = len(tried) + len(places.quarantined)
        if left:
            return progress, f"{_count(left)} left to bring back before another try"
        return self._to(progress, PROGRESSING), "starting another try"

    def _judge_settling(self, progress: Progress) -> tuple[Progress, str]:
        """Nothing new is asked for: nodes that have something else, or nothing, get the stable revision."""
        left = [place for place in self._places.open if place.revision != progress.current]
        if not left:
            return self._to(replace(progress, step=0), COMPLETE), "every node has the stable revision"
        if progress.phase == COMPLETE:
            return progress, f"{_count(len(left))} still without it"  # as one that joined
        return self._to(progress, PROGRESSING), f"{_count(len(left))} left to give {progress.current}"

    def _judge_step(self, progress: Progress) -> tuple[Progress, str]:
        steps, place = self._asked.steps, min(progress.step, len(self._asked.steps))
        if place < len(steps) and steps[place].pause:
            until = self._find_pause_end(progress)
            if self._requests.promote or (until is not None and until <= self._now):
                return self._to(progress, PROGRESSING, place + 1), "continues"
            wait = f"waits until {until:%Y-%m-%dT%H:%M:%SZ}" if until else "waits to be promoted"
            return self._to(progress, PAUSED), f"step {place + 1} of {len(steps)}: {wait}"
        step = steps[place] if place < len(steps) else None
        left = self._places.count_left(step)
        if left is None:
            told = f"step {place + 1} of {len(steps)}: no node has the labels of its nodeSelector"
            return self._to(progress, PROGRESSING), told
        if left == 0 and step is None:
            done = replace(progress, current=self._target, step=0)
            return self._to(done, COMPLETE), "every node has the new revision"
        if left == 0:
            return self._to(progress, PROGRESSING, place + 1), "continues"
        told = f"step {place + 1} of {len(steps)}" if step else "all nodes"
        return self._to(progress, PROGRESSING), f"{told}: {_count(left)} left{self._tell_unknown()}"

    def _tell_unknown(self) -> str:
        """What is waited for that no kernel will tell."""
        moved = filter(self._places.has_target, self._places.open)
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

    def _is_too_much(self, failed: Sequence[Place], progress: Progress) -> bool:
        allowed = (self._asked.failure.max_nodes if self._asked.failure else None) or 0
        if len(failed) > allowed:
            return True
        # All that are waited for have failed, or take up the room: it would never go on.
        steps, places = self._asked.steps, self._places
        left = places.count_left(steps[progress.step] if progress.step < len(steps) else None)
        if left is None:
            return False
        away = sum(not places.has_target(place) for place in failed)
        nothing_works = not any(map(places.has_settled, filter(places.has_target, places.open)))
        is_stuck = left <= away and (left > 0 or nothing_works)
        return is_stuck or sum(not place.skipped for place in failed) >= places.most

    def find_next_time(self, progress: Progress) -> datetime | None:
        """When time alone changes something."""
        places = self._places
        times = [place.failed_at for place in places.open if place.failed_at]
        times += [until for place in places.all if (until := places.find_leaving_end(place))]
        if self._target != progress.current:
            times += [
                place.attached_at + places.least
                for place in places.open
                if places.has_target(place) and place.attached_at and not places.has_settled(place)
            ]
        if progress.phase == ROLLING_BACK:
            times += [until for place in places.all if (until := places.find_patience_end(place))]
        if until := self._find_pause_end(progress):
            times.append(until)
        return min((time for time in times if time > self._now), default=None)


def _failed_with(progress: Progress, revision: str) -> bool:
    return progress.failed is not None and progress.failed.revision == revision


def _is_pausing(asked: Rollout, step: int, phase: str) -> bool:
    return phase == PAUSED and step < len(asked.steps) and asked.steps[step].pause is not None


def _count(nodes: int) -> str:
    return "1 node" if nodes == 1 else f"{nodes} nodes"
