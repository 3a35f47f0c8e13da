"""How often two that are the same are found different, with the noise of this machine: python -m bench.same [REPEATS].

The same command is run and measured as `schedctl bench` does it, for two contenders that do not differ: 10 runs of
each, in random blocks, again and again. In about one bench of twenty, a difference may be found.
"""

import os
import sys
from datetime import datetime

from schedkit.measure.model import USED, WALL, BenchRun, Contender
from schedkit.measure.plan import make_plan
from schedkit.measure.sampling import Work, find_work, run_once
from schedkit.measure.summary import BenchSummary, Finding, summarise, tell_answers

RUNS = 10
WORK = ("sh", "-c", "true | sort | wc")  # short: what is asked is how runs differ, not how long they take
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


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    work = find_work(WORK, os.environ)
    print(f"load {os.getloadavg()[0]:.1f}; {repeats} benches of {RUNS} runs with each of two that are the same")
    same = 0
    for repeat in range(repeats):
        summary = compare_with_itself(work, seed=repeat)
        same += is_found_same(summary)
        print(f"{repeat + 1:3}. {tell_answers(summary)[0]}", flush=True)
    print(f"no difference found in {same} of {repeats}; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
