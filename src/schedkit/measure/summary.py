"""What all runs together tell: medians, ratios to the baseline with intervals, and the answer in sentences."""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from schedkit.measure.intervals import (
    LEAST_RUNS,
    SMALL,
    Draws,
    Interval,
    compare,
    count_needed_runs,
    draw_blocks,
    median,
    share_level,
)
from schedkit.measure.model import BenchRun, Better, Contender, Quantity, RunEnding


class Finding(StrEnum):
    """What a comparison with the baseline tells."""

    BASELINE = "baseline"
    BETTER = "better"
    WORSE = "worse"
    HIGHER = "higher"  # the last two where neither is better
    LOWER = "lower"
    SAME = "same"  # a difference of SMALL or more can be ruled out
    NOT_DIFFERENT = "not-different"  # none was found, and there may be one
    TOO_FEW = "too-few"


class Comparison(NamedTuple):
    """One contender and one quantity."""

    contender: int
    quantity: Quantity
    numbers: int  # runs that count
    median: float | None
    interval: Interval | None  # None for the baseline, and where there are too few numbers
    finding: Finding
    needed_runs: int | None = None  # to see a difference of SMALL


class BenchSummary(NamedTuple):
    """All of it; the first contender is the baseline."""

    contenders: tuple[Contender, ...]
    runs: tuple[BenchRun, ...]
    quantities: tuple[Quantity, ...]
    main: Quantity
    level: float  # of each interval, so that all of one quantity together hold 95 %
    comparisons: tuple[Comparison, ...]

    def find(self, contender: int, quantity: Quantity) -> Comparison:
        """One of the comparisons."""
        return next(one for one in self.comparisons if (one.contender, one.quantity) == (contender, quantity))

    def count_endings(self, contender: int) -> Counter[RunEnding]:
        """How its runs ended, those for warm-up left out."""
        return Counter(run.ending for run in self.runs if run.contender == contender and run.block > 0)


def summarise(
    contenders: Sequence[Contender], runs: Sequence[BenchRun], quantities: Sequence[Quantity], main: Quantity
) -> BenchSummary:
    """Pure: from runs to findings."""
    blocks = max((run.block for run in runs), default=0)
    level = share_level(len(contenders) - 1)
    draws = draw_blocks(blocks) if blocks > 0 else []
    values = {
        (contender, quantity.name): _by_block(runs, contender, quantity.name, blocks)
        for contender in range(len(contenders))
        for quantity in quantities
    }
    comparisons = [
        _compare(values, contender, quantity, draws, level)
        for quantity in quantities
        for contender in range(len(contenders))
    ]
    return BenchSummary(tuple(contenders), tuple(runs), tuple(quantities), main, level, tuple(comparisons))


def tell_answers(summary: BenchSummary) -> list[str]:
    """The answer, in sentences: one for each contender but the baseline, and those for runs that are no numbers."""
    answers = [_tell(summary, number) for number in range(1, len(summary.contenders))]
    for number, contender in enumerate(summary.contenders):
        lost = {
            ending: count for ending, count in summary.count_endings(number).items() if ending is not RunEnding.MEASURED
        }
        for ending, count in lost.items():
            why = next(run.why for run in summary.runs if run.contender == number and run.ending is ending)
            of = sum(summary.count_endings(number).values())
            answers.append(f"{contender.label}: {count} of {of} runs {_ENDINGS[ending]}: {why}")
    return answers


_SMALL = f"{SMALL * 100:.0f} %"
_ENDINGS = {
    RunEnding.FAILED: "failed",
    RunEnding.NO_METRIC: "gave no number",
    RunEnding.EJECTED: "ended with the scheduler ejected by the kernel",
    RunEnding.DETACHED: "ended without the scheduler",
    RunEnding.NOT_ATTACHED: "could not begin",
    RunEnding.DISTURBED: "were disturbed",
    RunEnding.UNKNOWN: "could not be confirmed",
}


def _tell(summary: BenchSummary, number: int) -> str:
    one, quantity = summary.find(number, summary.main), summary.main
    label, base = summary.contenders[number].label, summary.contenders[0].label
    if one.finding is Finding.TOO_FEW or one.interval is None:
        numbers = min(one.numbers, summary.find(0, quantity).numbers)
        return f"{label}: too few numbers to compare with {base} ({numbers}; {LEAST_RUNS} are the least)"
    ratio = f"{quantity.title} × {one.interval.ratio:.3f} ({one.interval.low:.3f} to {one.interval.high:.3f})"
    if one.finding is Finding.SAME:
        return f"{label}: the same as {base} within {_SMALL}: {ratio}"
    if one.finding is Finding.NOT_DIFFERENT:
        needed = f"; to see {_SMALL} you would need about {one.needed_runs}" if one.needed_runs else ""
        return f"{label}: no difference to {base} found with {one.numbers} runs{needed}: {ratio}"
    return f"{label} is {_word(one.finding, quantity)} than {base}: {ratio}"


def _word(finding: Finding, quantity: Quantity) -> str:
    if quantity.unit == "s" and finding in (Finding.BETTER, Finding.WORSE):
        return "faster" if finding is Finding.BETTER else "slower"
    return finding.value


def _by_block(runs: Sequence[BenchRun], contender: int, name: str, blocks: int) -> list[float | None]:
    values: list[float | None] = [None] * blocks
    for run in runs:
        if run.counts and run.contender == contender:
            values[run.block - 1] = run.values.get(name)
    return values


def _compare(
    values: Mapping[tuple[int, str], Sequence[float | None]],
    contender: int,
    quantity: Quantity,
    draws: Draws,
    level: float,
) -> Comparison:
    own, base = values[contender, quantity.name], values[0, quantity.name]
    numbers = [value for value in own if value is not None]
    middle = median(numbers) if numbers else None
    if contender == 0:
        return Comparison(contender, quantity, len(numbers), middle, None, Finding.BASELINE)
    interval = compare(base, own, draws, level)
    if interval is None:
        return Comparison(contender, quantity, len(numbers), middle, None, Finding.TOO_FEW)
    needed = count_needed_runs(interval, len(numbers), level)
    return Comparison(contender, quantity, len(numbers), middle, interval, judge(interval, quantity.better), needed)


def judge(interval: Interval, better: Better) -> Finding:
    """What an interval tells of a quantity."""
    if interval.low <= 1 <= interval.high:
        within = interval.low > 1 - SMALL and interval.high < 1 + SMALL
        return Finding.SAME if within else Finding.NOT_DIFFERENT
    higher = interval.low > 1
    if better is Better.EITHER:
        return Finding.HIGHER if higher else Finding.LOWER
    return Finding.BETTER if higher == (better is Better.HIGHER) else Finding.WORSE
