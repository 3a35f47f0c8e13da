"""What a bench speaks of: the schedulers it compares, what it measures, and what became of each run."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple


class Better(StrEnum):
    """Which way is better; EITHER where a number only tells how things differ."""

    LOWER = "lower"
    HIGHER = "higher"
    EITHER = "either"


class Quantity(NamedTuple):
    """Something that is measured in each run."""

    name: str  # in JSON
    title: str  # for people
    unit: str  # s, B, or empty for a count
    better: Better


WALL = Quantity("wall_seconds", "wall time", "s", Better.LOWER)
# What the kernel accounts to the command and to those of its children that it waited for.
USED = (
    WALL,
    Quantity("user_seconds", "user time", "s", Better.LOWER),
    Quantity("system_seconds", "system time", "s", Better.LOWER),
    Quantity("voluntary_switches", "voluntary switches", "", Better.EITHER),
    Quantity("involuntary_switches", "involuntary switches", "", Better.EITHER),
    Quantity("minor_faults", "minor page faults", "", Better.EITHER),
    Quantity("major_faults", "major page faults", "", Better.EITHER),
    Quantity("peak_memory_bytes", "peak memory", "B", Better.EITHER),
)
WAKEUP = (
    Quantity("wakeup_p50_seconds", "wake-up latency p50", "s", Better.LOWER),
    Quantity("wakeup_p99_seconds", "wake-up latency p99", "s", Better.LOWER),
    Quantity("wakeup_max_seconds", "wake-up latency max", "s", Better.LOWER),
)
METRIC = "metric"


class RunEnding(StrEnum):
    """What became of a run; only MEASURED is a number."""

    MEASURED = "measured"
    FAILED = "failed"  # the command: exit code other than 0, or a signal
    NO_METRIC = "no-metric"  # --metric found no number in its output
    EJECTED = "ejected"  # the kernel ejected the scheduler during the run
    DETACHED = "detached"  # the scheduler was gone after the run, and the kernel does not call that a fault
    NOT_ATTACHED = "not-attached"  # the scheduler did not attach before the run
    DISTURBED = "disturbed"  # another scheduler came into the slot
    UNKNOWN = "unknown"  # the kernel's slot could not be read


class Contender(NamedTuple):
    """One of the schedulers that are compared; the kernel's own has a label only."""

    label: str
    scheduler: str | None = None
    image: str | None = None
    digest: str | None = None
    manifest: str | None = None
    args: tuple[str, ...] = ()
    verified: str | None = None
    ops: str | None = None  # once it was attached


class BenchRun(NamedTuple):
    """One run of the command."""

    number: int  # from 1, in the order in which they were made
    block: int  # from 1; 0 and below for warm-up
    contender: int  # its place in the list of contenders
    ending: RunEnding
    started: datetime
    values: Mapping[str, float] = {}  # by Quantity.name; of a failed run too, as far as it got
    why: str = ""
    exit_code: int | None = None  # negative: the signal that ended it
    wakeups: int | None = None  # how many the probe saw

    @property
    def counts(self) -> bool:
        """Whether it is one of the numbers that are compared."""
        return self.block > 0 and self.ending is RunEnding.MEASURED
