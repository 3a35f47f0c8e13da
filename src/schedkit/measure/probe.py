"""How late a timer wakes a process up: the program of a process of its own that runs beside the command.

It must not import schedkit: it runs without its packages. It says `ready`, measures until SIGTERM, and answers in JSON.
"""

import json
import math
import signal
import sys
import time

PERIOD_NS = 2_000_000  # 500 wake-ups a second: what this costs is little beside what it shows
STEPS = 100  # of the histogram in a factor of e: about 1 % each


class LatenessHistogram:
    """Counts by size, in constant memory however long it runs; the largest is kept exactly."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.total = 0
        self.largest = 0

    def add(self, nanoseconds: int) -> None:
        step = int(math.log(max(1, nanoseconds)) * STEPS)
        self.counts[step] = self.counts.get(step, 0) + 1
        self.total += 1
        self.largest = max(self.largest, nanoseconds)

    def find(self, share: float) -> float:
        """The value, in nanoseconds, which that share of all does not exceed."""
        left = math.ceil(share * self.total)
        for step in sorted(self.counts):
            left -= self.counts[step]
            if left <= 0:
                return min(self.largest, math.exp((step + 0.5) / STEPS))
        return float(self.largest)


def measure(histogram: LatenessHistogram) -> None:
    """Sleep until a moment, and note how late it is; from Python 3.11 on, sleep is the kernel's clock_nanosleep."""
    clock, sleep, seconds = time.monotonic_ns, time.sleep, PERIOD_NS / 1e9
    while True:
        due = clock() + PERIOD_NS
        sleep(seconds)
        histogram.add(max(0, clock() - due))


def main() -> None:
    with open("/proc/self/timerslack_ns", "w") as slack:  # noqa: PTH123  (pathlib would double what is imported)
        slack.write("1")  # else the kernel may wake us 50 µs later, to save power

    def stop(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    histogram = LatenessHistogram()
    try:
        signal.signal(signal.SIGTERM, stop)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        measure(histogram)
    except KeyboardInterrupt:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    values = {
        "wakeup_p50_seconds": histogram.find(0.5) / 1e9,
        "wakeup_p99_seconds": histogram.find(0.99) / 1e9,
        "wakeup_max_seconds": histogram.largest / 1e9,
    }
    sys.stdout.write(json.dumps({"wakeups": histogram.total, "values": values if histogram.total else {}}))


if __name__ == "__main__":
    main()
