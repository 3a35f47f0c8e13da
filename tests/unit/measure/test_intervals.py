"""The statistics keep what they promise, on numbers whose truth is known."""

from collections.abc import Callable
from random import Random

import pytest

from schedkit.measure.intervals import (
    LEVEL,
    Interval,
    compare,
    count_needed_runs,
    draw_blocks,
    median,
    share_level,
)

Noise = Callable[[Random, int], float]  # the number of a block


def steady(random: Random, _block: int) -> float:
    return random.lognormvariate(0, 0.03)


def spiky(random: Random, _block: int) -> float:
    """As on a machine where something else runs now and then."""
    return 1 + abs(random.gauss(0, 0.02)) + (random.random() < 0.15) * random.expovariate(5)


def drifting(random: Random, block: int) -> float:
    """As on a machine that gets warm: a percent slower from block to block."""
    return (1 + 0.01 * block) * random.lognormvariate(0, 0.02)


def two_speeds(random: Random, _block: int) -> float:
    """As with a command that meets a warm cache every other time."""
    return (1.1 if random.random() < 0.5 else 1.0) * random.lognormvariate(0, 0.01)


def find(noise: Noise, runs: int, times: int, factor: float, level: float = LEVEL) -> list[Interval]:
    """Intervals of many benches in which the second is `factor` times the first."""
    random, draws, found = Random(16), draw_blocks(runs, 500), []  # noqa: S311
    for _ in range(times):
        base = [noise(random, block) for block in range(runs)]
        other = [factor * noise(random, block) for block in range(runs)]
        interval = compare(base, other, draws, level)
        assert interval is not None
        found.append(interval)
    return found


@pytest.mark.parametrize("noise", [steady, spiky, drifting, two_speeds])
@pytest.mark.parametrize("runs", [8, 10, 20])
def test_two_that_are_the_same_are_found_different_in_about_one_of_twenty(noise: Noise, runs: int) -> None:
    contain = sum(one.low <= 1 <= one.high for one in find(noise, runs, 200, 1.0))
    assert contain >= 0.91 * 200  # 95 % of 200, less about three standard deviations


@pytest.mark.parametrize("noise", [steady, spiky, drifting])
def test_ten_percent_are_found_with_ten_runs(noise: Noise) -> None:
    found = find(noise, 10, 100, 1.1)
    assert sum(one.low > 1 for one in found) >= 90
    assert median([one.ratio for one in found]) == pytest.approx(1.1, abs=0.01)


def test_drift_hides_nothing_as_whole_blocks_are_drawn() -> None:
    """Over 30 blocks of one percent each, numbers grow by a third: five percent between two are found all the same."""
    assert sum(one.low > 1 for one in find(drifting, 30, 50, 1.05)) >= 40


def test_so_many_runs_as_it_says_do_find_two_percent() -> None:
    needed = [count_needed_runs(one, 10) for one in find(steady, 10, 100, 1.0)]
    typical = round(median([one for one in needed if one is not None]))
    found = sum(one.low > 1 for one in find(steady, typical, 60, 1.02))
    assert 0.6 <= found / 60 <= 0.97  # 80 % is what it aims at, from an interval that is itself uncertain


def test_several_comparisons_share_the_level() -> None:
    assert share_level(1) == LEVEL
    assert share_level(5) == pytest.approx(0.99)
    alone, shared = (find(steady, 10, 20, 1.0, level) for level in (LEVEL, share_level(5)))
    assert all(wide.low <= narrow.low <= narrow.high <= wide.high for narrow, wide in zip(alone, shared, strict=True))


def test_the_same_numbers_give_the_same_interval() -> None:
    base, other = [1.0, 1.1, 1.2, 1.0, 1.3, 1.1, 1.0, 1.2], [1.5, 1.4, 1.6, 1.5, 1.7, 1.5, 1.6, 1.5]
    assert compare(base, other, draw_blocks(8)) == compare(base, other, draw_blocks(8))


def test_runs_that_gave_no_number_are_left_out() -> None:
    base: list[float | None] = [1.0, 1.1, 0.9, 1.0, 1.1, 0.9, None, 1.0, 1.0]
    other: list[float | None] = [2.0, 2.2, None, 2.1, 1.9, 2.0, 2.1, 2.0, 2.0]
    interval = compare(base, other, draw_blocks(9))
    assert interval is not None
    assert interval.ratio == 2.0
    assert 1.7 < interval.low <= interval.high < 2.4


@pytest.mark.parametrize(
    ("base", "other"),
    [([1.0] * 7, [2.0] * 7), ([1.0] * 8, [2.0, *[None] * 7]), ([0.0] * 8, [1.0] * 8), ([-1.0] * 8, [1.0] * 8)],
    ids=["seven", "one", "zero", "negative"],
)
def test_no_interval_where_none_can_be_told(base: list[float | None], other: list[float | None]) -> None:
    assert compare(base, other, draw_blocks(len(base), 50)) is None


def test_numbers_that_never_vary_leave_no_doubt() -> None:
    interval = compare([2.0] * 10, [3.0] * 10, draw_blocks(10, 50))
    assert interval == Interval(1.5, 1.5, 1.5)
    assert interval is not None
    assert count_needed_runs(interval, 10) == 8


def test_how_many_are_needed_grows_with_the_square_of_the_width() -> None:
    assert count_needed_runs(Interval(1.0, 0.9, 1.1), 10) == 530
    assert count_needed_runs(Interval(1.0, 0.95, 1.05), 10) == 140
    assert count_needed_runs(Interval(1.0, 0.0, 1.1), 10) is None
