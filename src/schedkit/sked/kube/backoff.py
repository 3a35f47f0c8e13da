"""How long to wait before trying again."""

import random
from collections.abc import Callable


class Backoff:
    """Exponential, bounded, and jittered, so that many clients of one server do not come back in one moment."""

    def __init__(
        self,
        base_seconds: float,
        cap_seconds: float,
        choose: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self.base_seconds = base_seconds
        self.cap_seconds = cap_seconds
        self.choose = choose
        self.failures = 0

    def next_delay(self) -> float:
        """Count one more failure and say how long to wait: somewhere from half the full delay to all of it."""
        full = exponential_delay(self.failures, self.base_seconds, self.cap_seconds)
        self.failures += 1
        return self.choose(full / 2, full)

    def reset(self) -> None:
        """Forget the failures: something worked."""
        self.failures = 0


def exponential_delay(failures: int, base_seconds: float, cap_seconds: float) -> float:
    """Twice as long after each failure, up to a cap."""
    # Beyond 2**64 any base has met any sensible cap, and floats end at 2**1023.
    return min(cap_seconds, base_seconds * 2.0 ** min(failures, 64))
