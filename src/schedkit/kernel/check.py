"""One thing that was looked at: what was seen, how bad it is, and what to do."""

from enum import StrEnum
from typing import NamedTuple

# What every scheduler needs. What other checks look at follows from these, or stops some schedulers only.
ESSENTIAL = ("kernel.version", "kernel.sched_ext", "kernel.btf", "kernel.preempt_rt", "kernel.isolcpus")


class Outcome(StrEnum):
    """`error` blocks a scheduler from running, `warning` may, `unknown` could not be found out and blocks nothing.

    `not-applicable` is what there is nothing to look at for, as the slot of a kernel that has none.
    """

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not-applicable"


class Check(NamedTuple):
    """Named as the Go schedctl names it: kernel.version, caps.cap_bpf, runtime.any."""

    name: str
    outcome: Outcome
    seen: str
    fix: str = ""
