"""A workload that needs nothing: pairs of processes pass a byte to and fro while as many as there are CPUs compute.

How long it takes tells how fast work gets done, the round trips how soon somebody who waits gets a CPU. It must not
import schedkit: it runs without its packages. Usage: mixed.py CPUS [STEPS]
"""

import os
import signal
import sys
import time

STEPS = 10_000_000  # of each that computes: some seconds on a usual CPU


def compute(steps: int) -> None:
    value = 1
    for _ in range(steps):
        value = (value * 1103515245 + 12345) & 0x7FFFFFFF


def answer(source: int, sink: int) -> None:
    """Send back what comes, until nobody is there."""
    while os.write(sink, os.read(source, 1) or b"."):
        pass


def ask(source: int, sink: int, count: int) -> None:
    """Count round trips until SIGTERM, and write the number."""
    trips = 0

    def stop(_number: int, _frame: object) -> None:
        os.write(count, f"{trips}\n".encode())
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    while True:
        os.write(sink, b".")
        os.read(source, 1)
        trips += 1


def fork(work: object, *arguments: int) -> int:
    child = os.fork()
    if not child:
        try:
            assert callable(work)  # noqa: S101
            work(*arguments)
        finally:
            os._exit(0)
    return child


def main() -> None:
    cpus, steps = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else STEPS
    numbers, count = os.pipe()
    asking, answering = [], []
    for _ in range(cpus):
        there, here = os.pipe(), os.pipe()
        answering.append(fork(answer, there[0], here[1]))
        asking.append(fork(ask, here[0], there[1], count))
    begun = time.monotonic()
    computing = [fork(compute, steps) for _ in range(cpus)]
    for child in computing:
        os.waitpid(child, 0)
    seconds = time.monotonic() - begun
    for child in asking:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
    for child in answering:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    os.close(count)
    with os.fdopen(numbers) as lines:
        trips = sum(int(line) for line in lines)
    print(f"seconds: {seconds:.3f}")
    print(f"round trips per second: {trips / seconds:.1f}")


if __name__ == "__main__":
    main()
