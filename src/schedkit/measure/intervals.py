"""How sure a difference is: the ratio of two medians, and an interval for it by resampling blocks.

Whole blocks are drawn, so that what changed from block to block (heat, other load) stays on both sides of the ratio.
For two schedulers that are the same, the interval contains 1 in about `level` of all benches; a test tries that.
"""

from collections.abc import Sequence
from math import ceil, inf, log
from random import Random
from statistics import NormalDist
from typing import NamedTuple

DRAWS = 4000
_MOST_DRAWN = 2_000_000  # blocks in all: who has thousands of runs needs fewer draws
_LEAST_DRAWS = 500
LEAST_RUNS = 8  # with fewer, two that are the same were found different in more than 6 of 100 trials
LEVEL = 0.95
POWER = 0.8  # how often a difference shall be found that is there
SMALL = 0.02  # the difference that people ask about
_SEED = 20261116  # the same numbers always give the same interval

Draws = Sequence[Sequence[int]]


class Interval(NamedTuple):
    """A ratio of medians, and where the true one lies."""

    ratio: float
    low: float
    high: float


def median(values: Sequence[float]) -> float:
    """The middle one, or the middle between the two."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def share_level(comparisons: int) -> float:
    """What each of several intervals must hold so that all of them together hold LEVEL (Bonferroni)."""
    return 1 - (1 - LEVEL) / max(1, comparisons)


def draw_blocks(blocks: int, count: int = DRAWS) -> Draws:
    """Blocks drawn with replacement, again and again; made once for all that is compared."""
    random = Random(_SEED)  # noqa: S311 (statistics, not a secret)
    count = min(count, max(_LEAST_DRAWS, _MOST_DRAWN // blocks))
    return [random.choices(range(blocks), k=blocks) for _ in range(count)]


def compare(
    baseline: Sequence[float | None], other: Sequence[float | None], draws: Draws, level: float = LEVEL
) -> Interval | None:
    """The ratio of `other` to `baseline`, both by block; None is a run that gave no number.

    None where there are too few numbers, or where a ratio means nothing.
    """
    base, rest = _present(baseline), _present(other)
    if min(len(base), len(rest)) < LEAST_RUNS or min(base) < 0 or min(rest) < 0 or not median(base):
        return None
    ratios = sorted(ratio for draw in draws if (ratio := _ratio(baseline, other, draw)) is not None)
    if not ratios:
        return None
    tail = (1 - level) / 2
    last = len(ratios) - 1
    return Interval(
        median(rest) / median(base), ratios[round(tail * last)], ratios[min(last, round((1 - tail) * last))]
    )


def count_needed_runs(interval: Interval, runs: int, level: float = LEVEL, difference: float = SMALL) -> int | None:
    """About how many runs it takes to find a difference of `difference` with POWER, from how wide the interval is now.

    The width shrinks with the square root of the number of runs. None where nobody can tell.
    """
    if interval.low <= 0 or interval.high == inf:
        return None
    half = (log(interval.high) - log(interval.low)) / 2
    sure, found = NormalDist().inv_cdf((1 + level) / 2), NormalDist().inv_cdf(POWER)
    needed = runs * (half / log(1 + difference)) ** 2 * ((sure + found) / sure) ** 2
    return max(LEAST_RUNS, _round_up(needed))


def _round_up(number: float) -> int:
    """Round up to two digits: more would pretend to know."""
    whole = ceil(number)
    step = int("1" + "0" * (len(str(whole)) - 2))
    return ceil(whole / step) * step


def _present(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _ratio(baseline: Sequence[float | None], other: Sequence[float | None], draw: Sequence[int]) -> float | None:
    base = [value for block in draw if (value := baseline[block]) is not None]
    rest = [value for block in draw if (value := other[block]) is not None]
    if not base or not rest:
        return None
    below = median(base)
    return median(rest) / below if below else inf
