"""Time, as it is passed in: a running event loop is a clock, and so is a test's own."""

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A call to come."""

    def cancel(self) -> None:
        """Never mind."""


class Clock(Protocol):
    """Tells the time in seconds that never jump, and calls back."""

    def time(self) -> float:
        """Seconds since some beginning."""

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call a function at that time."""
