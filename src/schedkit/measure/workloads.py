"""Workloads by name: commands whose numbers are known to be found, where their tool is installed."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from schedkit.errors import UnavailableError, UsageError
from schedkit.measure.metric import Metric, parse_metric


class KnownWorkload(NamedTuple):
    """A command, and the number to look at."""

    about: str
    tool: str  # which must be installed; empty: nothing
    package: str  # Debian's, for the hint
    command: Callable[[int], tuple[str, ...]]  # for so many CPUs
    metric: str
    title: str  # of that number
    better: str


def _own(cpus: int) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", str(Path(__file__).parent / "mixed.py"), str(cpus))


WORKLOADS = {
    "mixed": KnownWorkload(
        "messages between processes while all CPUs compute; needs nothing",
        "",
        "",
        _own,
        r"^round trips per second: ([\d.]+)$",
        "round trips/s",
        "higher",
    ),
    "hackbench": KnownWorkload(
        "many processes that send each other messages",
        "hackbench",
        "rt-tests",
        lambda cpus: ("hackbench", "--groups", str(max(1, cpus)), "--loops", "1000"),
        r"^Time: ([\d.]+)$",
        "seconds",
        "lower",
    ),
    "stress-ng": KnownWorkload(
        "context switches, one worker a CPU, for 5 seconds",
        "stress-ng",
        "stress-ng",
        lambda _cpus: ("stress-ng", "--switch", "0", "--timeout", "5", "--metrics-brief"),
        r"\] +switch +\d+ +[\d.]+ +[\d.]+ +[\d.]+ +([\d.]+)",
        "switches/s",
        "higher",
    ),
    "sysbench": KnownWorkload(
        "threads that wait for each other's locks, 4 a CPU, for 5 seconds",
        "sysbench",
        "sysbench",
        lambda cpus: ("sysbench", f"--threads={4 * cpus}", "--time=5", "threads", "run"),
        r"total number of events: +(\d+)",
        "events",
        "higher",
    ),
    "perf-pipe": KnownWorkload(
        "two processes that wake each other through pipes",
        "perf",
        "linux-perf",
        lambda _cpus: ("perf", "bench", "sched", "pipe", "-l", "200000"),
        r"Total time: ([\d.]+) \[sec\]",
        "seconds",
        "lower",
    ),
    "perf-messaging": KnownWorkload(
        "groups of processes that send each other messages",
        "perf",
        "linux-perf",
        lambda cpus: ("perf", "bench", "sched", "messaging", "-g", str(max(1, cpus)), "-l", "500"),
        r"Total time: ([\d.]+) \[sec\]",
        "seconds",
        "lower",
    ),
}


def find_workload(name: str) -> tuple[tuple[str, ...], Metric]:
    """Its command on this machine, and its number."""
    if name not in WORKLOADS:
        raise UsageError(f"unknown workload {name!r}", hint=f"one of: {', '.join(WORKLOADS)}")
    workload = WORKLOADS[name]
    if workload.tool and not shutil.which(workload.tool):
        raise UnavailableError(
            f"the workload {name} needs {workload.tool}, which is not installed",
            hint=f"install the package {workload.package} (its name on Debian), or take --workload mixed",
        )
    return workload.command(len(os.sched_getaffinity(0))), parse_metric(workload.metric, workload.better)._replace(
        title=workload.title
    )
