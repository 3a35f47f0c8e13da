"""Progress of long work: one live line on a terminal, a line now and then elsewhere."""

import math
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

HEARTBEAT_SECONDS = 30.0


def format_seconds(seconds: float) -> str:
    """How long something took, as a person says it."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def format_about(seconds: float) -> str:
    """How long something will take, no more exact than anybody can know."""
    return f"{math.ceil(seconds / 5) * 5} s" if seconds <= 60 else f"{math.ceil(seconds / 60)} min"


def format_bytes(count: float) -> str:
    """A size, in MB below one GB and in GB above."""
    return f"{count / 1e6:.0f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"


@dataclass(frozen=True)
class _Step:
    """Something that is under way."""

    title: str
    started: float
    expected: float | None

    def describe(self, now: float) -> str:
        whole = f" of about {format_about(self.expected)}" if self.expected else ""
        return f"{self.title} {format_seconds(now - self.started)}{whole}"


class _Count:
    """How much of a piece of work with many steps is done. `expected` has the seconds of each step by its title."""

    def __init__(self, expected: Mapping[str, float], at_a_time: int, now: float) -> None:
        self._left = dict(expected)
        self._total = len(expected)
        self._at_a_time = at_a_time
        self._started = now

    def finish(self, title: str) -> None:
        self._left.pop(title, None)

    def describe(self, steps: list[_Step], now: float) -> str:
        left = self._left | {
            step.title: max(0.0, self._left[step.title] - (now - step.started))
            for step in steps
            if step.title in self._left
        }
        remaining = max(sum(left.values()) / self._at_a_time, *left.values(), 0.0)
        about = f", about {format_about(remaining)} left" if remaining >= 1 else ""
        return f"{self.done} after {format_seconds(now - self._started)}{about}"

    @property
    def done(self) -> str:
        return f"{self._total - len(self._left)}/{self._total}"


class Progress:
    """Writes to one stream; steps may be under way in several threads. While `quiet`, it writes nothing."""

    def __init__(self, stream: TextIO = sys.stderr, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._clock = clock
        self._lock = threading.RLock()
        self._steps: list[_Step] = []
        self._count: _Count | None = None
        self._ended = threading.Event()
        self._beat: threading.Thread | None = None
        self.quiet = False

    def say(self, text: str) -> None:
        """One finished line."""
        clear = "\r\x1b[K" if self._live else ""
        self._write(f"{clear}lab: {text}\n")

    @contextmanager
    def count(self, expected: Mapping[str, float], *, at_a_time: int) -> Iterator[None]:
        """Say of the steps in this block how many are done and how long the rest will take."""
        self._count = _Count(expected, at_a_time, self._clock())
        try:
            yield
        finally:
            self._count = None

    @contextmanager
    def step(self, title: str, *, expected: float | None = None) -> Iterator[None]:
        """Show that `title` is under way, for how long and of how many seconds, until the block ends."""
        step = _Step(title, self._clock(), expected)
        if not self._count:
            about = f" (about {format_about(expected)})" if expected else ""
            self.say(f"{title}{about} …")
        with self._lock:
            self._steps.append(step)
            self._begin_beating()
        try:
            yield
        finally:
            with self._lock:
                self._steps.remove(step)
                beat = None if self._steps else self._stop_beating()
            if beat:
                beat.join()
        count = ""
        if self._count:
            self._count.finish(title)
            count = f"[{self._count.done}] "
        self.say(f"{count}{title}: {format_seconds(self._clock() - step.started)}")

    def describe(self) -> str:
        """What is under way, in one line."""
        now = self._clock()
        with self._lock:
            steps = list(self._steps)
        under_way = ", ".join(step.describe(now) for step in steps)
        return f"{self._count.describe(steps, now)}: {under_way}" if self._count else under_way

    def _begin_beating(self) -> None:
        if not self._beat:
            self._ended = threading.Event()
            self._beat = threading.Thread(target=self._keep_beating, args=(self._ended,), daemon=True)
            self._beat.start()

    def _stop_beating(self) -> threading.Thread | None:
        self._ended.set()
        beat, self._beat = self._beat, None
        return beat

    def _keep_beating(self, ended: threading.Event) -> None:
        while not ended.wait(1.0 if self._live else HEARTBEAT_SECONDS):
            line = f"  {self.describe()}"
            if self._live:
                self._write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
            else:
                self._write(f"{line}\n")

    def _write(self, text: str) -> None:
        if not self.quiet:
            with self._lock:
                self._stream.write(text)
                self._stream.flush()
