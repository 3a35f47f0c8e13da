"""Waiting for a condition, never for a time."""

import time
from collections.abc import Callable
from typing import TypeVar

from lab.errors import LabError

INTERVAL_SECONDS = 0.1
Seen = TypeVar("Seen")


class NotYetError(LabError):
    """Raised by a probe to say what it saw instead of what is waited for."""


def wait_for(what: str, probe: Callable[[], Seen], timeout: float, *, interval: float = INTERVAL_SECONDS) -> Seen:
    """Ask `probe` until it answers something true and return that; the error after `timeout` says what was last seen.

    A probe answers something false or raises NotYetError to be asked again; any other error ends the wait.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            seen = probe()
        except NotYetError as error:
            last = error.message
        else:
            if seen:
                return seen
            last = repr(seen)
        if time.monotonic() >= deadline:
            raise LabError(f"waited {timeout:.0f} s for {what}; last seen: {last}")
        time.sleep(interval)
