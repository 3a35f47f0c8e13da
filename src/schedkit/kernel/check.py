"""One thing that was looked at: what was seen, how bad it is, and what to do."""

from enum import StrEnum
from typing import NamedTuple


class Outcome(StrEnum):
    """`error` blocks a scheduler from running, `warning` may, `unknown` could not be found out and blocks nothing."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    UNKNOWN = "unknown"


class Check(NamedTuple):
    """Named as the original names it: kernel.version, caps.cap_bpf, runtime.any."""

    name: str
    outcome: Outcome
    seen: str
    fix: str = ""
