"""What a scheduler that the kernel ejected writes about that, read the same way on one machine and in a cluster."""

import re
from collections.abc import Sequence
from typing import NamedTuple

ERROR, ERROR_BPF, ERROR_STALL = 1024, 1025, 1026  # the kernel's exit kinds that are faults begin here
_NO_FAULT = ("unregistered", "disabled by sysrq", "parent scheduler")  # reasons of exit kinds 64 to 68
_OURS = re.compile(r'ejected \S+: kind=(\d+) code=-?\d+ reason="([^"]*)" message="([^"]*)"')
_SCX = re.compile(r"\bEXIT: ([^(]+?)(?: \((.*)\))?$")


class SchedulerExit(NamedTuple):
    """Why the kernel ended a scheduler, as the scheduler repeats it."""

    kind: int
    reason: str  # the kernel's own words: `runnable task stall` …
    message: str = ""

    def __str__(self) -> str:
        return f"{self.reason} (kind {self.kind})" + (f": {self.message}" if self.message else "")


def parse_exit(log: Sequence[str]) -> SchedulerExit | None:
    """The last fault in a log: scx's `EXIT: reason (message)`, or our fixtures' line."""
    for line in reversed(log):
        ours = _OURS.search(line)
        if ours and int(ours[1]) >= ERROR:
            return SchedulerExit(int(ours[1]), ours[2], ours[3])
        scx = _SCX.search(line)
        if scx and not scx[1].lower().startswith(_NO_FAULT):
            return SchedulerExit(find_kind(scx[1]), scx[1], scx[2] or "")
    return None


def find_kind(reason: str) -> int:
    """The exit kind that the kernel's words for it mean; what is not known is an error."""
    if "stall" in reason:
        return ERROR_STALL
    return ERROR_BPF if "scx_bpf_error" in reason else ERROR
