"""What the slot does from one moment to the next."""

import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from schedkit.host.machine import Machine
from schedkit.kernel.changes import Changes
from schedkit.kernel.holder import Holder, read_holder
from schedkit.kernel.state import KernelState, State, read_state
from schedkit.kernel.stats import fetch_stats
from schedkit.unknown import Unknown

TICK_SECONDS = 1.0
_LOOK_AGAIN_SECONDS = 1.0  # an event may be lost


class Sample(NamedTuple):
    """One look. None where there is nothing to tell; Unknown where it could not be read."""

    at: datetime
    kernel: KernelState
    uptime: float | Unknown | None  # seconds since it attached; since its process began, if that was before we looked
    rates: Mapping[str, float] | Unknown | None  # events per second since the last sample
    stats: Mapping[str, object] | Unknown | None


def watch(machine: Machine, *, tick: float = TICK_SECONDS, stats: bool = True) -> Iterator[Sample]:
    """A sample at once, then one every `tick` seconds and at each change, forever."""
    meter = _Meter(machine)
    with Changes(machine.root) as changes:
        while True:
            due = time.monotonic() + tick
            kernel = read_state(machine.root)
            yield meter.sample(kernel, stats=stats)
            while (left := due - time.monotonic()) > 0:
                changes.wait(min(left, _LOOK_AGAIN_SECONDS))
                if identify(read_state(machine.root)) != identify(kernel):
                    break


class _Meter:
    """Remembers what a difference is taken from."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._last: tuple[float, KernelState] | None = None
        self._since: float | Unknown | None = None  # monotonic

    def sample(self, kernel: KernelState, *, stats: bool) -> Sample:
        now = time.monotonic()
        if self._last is None or identify(self._last[1]) != identify(kernel):
            self._since = self._find_beginning(kernel, now)
        uptime = now - self._since if isinstance(self._since, float) else self._since
        rates = self._rate(kernel, now)
        self._last = (now, kernel)
        serving = stats and kernel.state is State.ENABLED
        return Sample(
            at=self._machine.now(),
            kernel=kernel,
            uptime=uptime,
            rates=rates,
            stats=fetch_stats(self._machine.root) if serving else None,
        )

    def _find_beginning(self, kernel: KernelState, now: float) -> float | Unknown | None:
        if isinstance(kernel.state, Unknown):
            return kernel.state
        if kernel.state is not State.ENABLED:
            return None
        if self._last is not None and not isinstance(self._last[1].state, Unknown):
            return now  # we saw it come
        holder = read_holder(self._machine.root)
        if isinstance(holder, Unknown):
            return holder
        if holder is None:
            return Unknown("it attached before we looked, and no process holds it")
        return _read_process_start(self._machine.root, holder)

    def _rate(self, kernel: KernelState, now: float) -> Mapping[str, float] | Unknown | None:
        if kernel.events is None or isinstance(kernel.events, Unknown):
            return kernel.events
        if self._last is None or identify(self._last[1]) != identify(kernel):
            return None
        then, before = self._last
        if before.events is None or isinstance(before.events, Unknown) or now <= then:
            return None
        # A counter may be new, as the set of events varies; it never counts backwards while one scheduler stays.
        return {name: (count - before.events.get(name, count)) / (now - then) for name, count in kernel.events.items()}


def check_supported(kernel: KernelState) -> None:
    """A kernel without sched_ext has no slot, and will have none before the next boot."""
    if kernel.state is not State.UNSUPPORTED:
        return
    from schedkit.host.errors import KernelUnfitError
    from schedkit.kernel.preflight import BOOT_ANOTHER

    raise KernelUnfitError("this kernel has no sched_ext: there is nothing to watch", hint=BOOT_ANOTHER)


def identify(kernel: KernelState) -> tuple[object, object, object]:
    """What is different when a scheduler came or went."""
    return kernel.state, kernel.ops, kernel.enable_seq


def _read_process_start(root: Path, holder: Holder) -> float | Unknown:
    """When a process began, on the clock of time.monotonic: field 22 of its stat, in ticks since boot."""
    import os

    try:
        words = (root / "proc" / str(holder.pid) / "stat").read_text().rpartition(")")[2].split()
        ticks = int(words[19])
    except (OSError, ValueError, IndexError) as error:
        return Unknown(f"when process {holder.pid} began could not be read: {error}")
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - age
