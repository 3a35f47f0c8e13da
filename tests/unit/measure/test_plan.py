from collections import Counter

from hypothesis import given
from hypothesis import strategies as some

from schedkit.measure.plan import PlannedRun, make_plan

sizes = {"contenders": some.integers(1, 8), "runs": some.integers(1, 30), "warmup": some.integers(0, 5)}


@given(**sizes, seed=some.integers())
def test_each_block_has_each_scheduler_once(contenders: int, runs: int, warmup: int, seed: int) -> None:
    plan = make_plan(contenders, runs, warmup, seed)
    assert Counter(plan) == {
        PlannedRun(block, one): 1 for block in range(1 - warmup, runs + 1) for one in range(contenders)
    }
    assert [one.block for one in plan] == sorted(one.block for one in plan)


@given(**sizes, seed=some.integers())
def test_the_same_seed_gives_the_same_order(contenders: int, runs: int, warmup: int, seed: int) -> None:
    assert make_plan(contenders, runs, warmup, seed) == make_plan(contenders, runs, warmup, seed)


def test_the_order_is_the_same_with_every_version_of_python() -> None:
    """A seed in somebody's report must mean the same years later."""
    assert [one.contender for one in make_plan(3, 4, 0, seed=7)] == [2, 0, 1, 2, 0, 1, 1, 2, 0, 2, 0, 1]


def test_no_place_in_a_block_is_anybodys() -> None:
    """Over many blocks each scheduler is first, second and last about as often."""
    plan = make_plan(3, 3000, 0, seed=1)
    places = Counter((index % 3, one.contender) for index, one in enumerate(plan))
    assert all(abs(count - 1000) < 120 for count in places.values())  # 120: more than four standard deviations
