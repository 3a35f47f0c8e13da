"""How often two that are the same are found different: python -m bench.same [REPEATS] [--lab].

The same command is run and measured as `schedctl bench` does it, for two contenders that do not differ: 10 runs of
each, in random blocks, again and again. In about one bench of twenty, a difference may be found. With --lab it is
`schedctl bench` itself that switches between two copies of one image, on a real kernel in the lab's machine.
"""

import argparse
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from lab import images
from lab.catalogue import open_store
from lab.disk import DISK
from lab.kernels import OLDEST
from lab.machine import Machine
from lab.rooms import TOOLS
from lab.session import remove_run, run_folder
from schedkit.measure.model import USED, WALL, BenchRun, Contender
from schedkit.measure.plan import make_plan
from schedkit.measure.sampling import Work, find_work, run_once
from schedkit.measure.summary import BenchSummary, Finding, summarise, tell_answers
from tests.e2e.runtimes import REGISTRY
from tests.e2e.schedctl import Schedctl

RUNS = 10
WORK = ("sh", "-c", "true | sort | wc")  # short: what is asked is how runs differ, not how long they take
IMAGE, COPY = "scx_fifo:v1", "scx_fifo_copy:v1"
BOTH = (Contender("one"), Contender("the same"))
NOT_FOUND = (Finding.SAME, Finding.NOT_DIFFERENT)


def compare_with_itself(work: Work, seed: int) -> BenchSummary:
    """One bench of two that are the same."""
    runs = []
    for number, planned in enumerate(make_plan(len(BOTH), RUNS, 1, seed), start=1):
        taken = run_once(work)
        now = datetime.now().astimezone()
        runs.append(BenchRun(number, planned.block, planned.contender, taken.ending, now, taken.values))
    return summarise(BOTH, runs, USED, WALL)


def is_found_same(summary: BenchSummary) -> bool:
    """Whether no difference was found in how long they took."""
    return summary.find(1, WALL).finding in NOT_FOUND


def measure_here(repeats: int) -> Iterator[tuple[bool, str]]:
    """Of each bench on this host, whether no difference was found, and what it says."""
    work = find_work(WORK, os.environ)
    for seed in range(repeats):
        summary = compare_with_itself(work, seed)
        yield is_found_same(summary), tell_answers(summary)[0]


def measure_images(repeats: int) -> Iterator[tuple[bool, str]]:
    """The same of two copies of an image in the lab's machine."""
    both = f"--with {REGISTRY}/{IMAGE} --with {REGISTRY}/{COPY}"
    options = f"{both} --runs {RUNS} --warmup 1 --settle 0 --timeout 120"
    with _start_schedctl() as schedctl:
        for seed in range(repeats):
            result = schedctl.read(f"bench {options} --seed {seed} -- {shlex.join(WORK)}")
            if [one["endings"] for one in result["schedulers"]] != [{"measured": RUNS}] * 2:
                raise RuntimeError(f"not all runs were measured: {result['schedulers']}")
            (wall,) = [one for one in result["comparisons"] if one["ratio"] and one["quantity"] == WALL.name]
            yield Finding(wall["finding"]) in NOT_FOUND, result["answers"][0]


@contextmanager
def _start_schedctl() -> Iterator[Schedctl]:
    store = open_store()
    store.ensure(TOOLS, DISK, OLDEST.artefact)
    folder = run_folder(store, "bench")
    machine = Machine.start(store, folder / "machine")
    try:
        registry = machine.registry
        images.copy(store, IMAGE, source=registry, destination=registry, new_tag=COPY)
        yield Schedctl(Schedctl.install(machine).machine, "containerd")
    finally:
        machine.stop()
        remove_run(store, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description="Bench what is the same.")
    parser.add_argument("repeats", type=int, nargs="?", default=20, help="how many benches (default: %(default)s)")
    parser.add_argument("--lab", action="store_true", help="with two copies of an image, in the lab's machine")
    asked = parser.parse_args()
    benches = (measure_images if asked.lab else measure_here)(asked.repeats)
    print(f"load {os.getloadavg()[0]:.1f}; {asked.repeats} benches of {RUNS} runs with each of two that are the same")
    same = 0
    for number, (is_same, told) in enumerate(benches, start=1):
        same += is_same
        print(f"{number:3}. {told}", flush=True)
    print(f"no difference found in {same} of {asked.repeats}; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
