"""When a resource is looked at after a change: each look counts all of its nodes, so with many of them less often."""

from collections.abc import Callable

from schedkit.sked.kube.clock import Clock
from schedkit.sked.kube.objects import Key
from schedkit.sked.kube.queue import Queue

SOON_SECONDS = 0.1  # what pods, nodes and reports change is looked at together: they come in waves
NODES_A_SECOND = 1000.0
WAVE_FACTOR = 2.0  # so many times longer while changes keep coming: who carries out what is decided is busy then
QUIET_SECONDS = 0.5  # without another change: a wave is over
AT_ONCE = 1e-6  # takes the place of the time that is set for later


class Pacer:
    """Queues resources after changes: when a pause that grows with their nodes is over, or sooner when a wave is."""

    def __init__(self, queue: Queue[Key], count_nodes: Callable[[Key], int], clock: Clock) -> None:
        self._queue = queue
        self._count_nodes = count_nodes
        self._clock = clock
        self._changed: dict[Key, float] = {}  # resources that are watched for the end of a wave; their last change
        self._sooner: dict[Key, float] = {}  # when they were last queued before their pause was over

    def find_pause(self, key: Key) -> float:
        """How long a resource with so many nodes is left alone between two looks."""
        shortest = self._find_shortest(key)
        return WAVE_FACTOR * shortest if key in self._changed else shortest

    def wake(self, key: Key) -> None:
        """Queue a resource, as something of it has changed."""
        shortest = self._find_shortest(key)
        if shortest <= QUIET_SECONDS:
            self._queue.add_after(key, shortest)
            return
        is_watched = key in self._changed
        self._changed[key] = self._clock.time()
        self._queue.add_after(key, WAVE_FACTOR * shortest)
        if not is_watched:
            self._look(key)

    def forget(self, key: Key) -> None:
        """A resource is gone."""
        self._changed.pop(key, None)
        self._sooner.pop(key, None)

    def _find_shortest(self, key: Key) -> float:
        return max(SOON_SECONDS, self._count_nodes(key) / NODES_A_SECOND)

    def _look(self, key: Key) -> None:
        """Queue a resource if its wave is over, or have that looked at again when it could be."""
        changed, now = self._changed.get(key), self._clock.time()
        if changed is None:
            return
        when = changed + QUIET_SECONDS
        if key in self._sooner:
            when = max(when, self._sooner[key] + self._find_shortest(key))
        if now < when:
            self._clock.call_at(when, lambda: self._look(key))
            return
        del self._changed[key]
        self._sooner[key] = now
        self._queue.add_after(key, AT_ONCE)
