import pytest

from schedkit.measure.intervals import Interval
from schedkit.measure.metric import parse_metric
from schedkit.measure.model import WALL, Better, RunEnding
from schedkit.measure.summary import Finding, judge, tell_answers
from tests.unit.measure.making import TIME, make_summary


def test_a_slower_one_is_called_slower_and_one_that_is_not_is_not() -> None:
    summary = make_summary({"none": 1.0, "scx_slow": 1.2, "scx_fast": 0.8, "scx_same": 1.0}, runs=20)
    assert [summary.find(number, WALL).finding for number in range(4)] == [
        Finding.BASELINE,
        Finding.WORSE,
        Finding.BETTER,
        Finding.SAME,
    ]
    slow, fast, same = tell_answers(summary)
    assert slow.startswith("scx_slow is slower than none: wall time × 1.")
    assert fast.startswith("scx_fast is faster than none: wall time × 0.")
    assert same.startswith("scx_same: the same as none within 2 %: wall time × ")


def test_where_nothing_is_found_it_says_what_it_would_take() -> None:
    # Blocks in which one is now faster, now slower, by ten percent.
    summary = make_summary({"none": 1.0, "scx_same": 1.0}, runs=8)
    runs = [
        run._replace(values={**run.values, "wall_seconds": 1.0 + 0.1 * ((run.block + run.contender) % 2)})
        for run in summary.runs
    ]
    from schedkit.measure.summary import summarise

    (answer,) = tell_answers(summarise(summary.contenders, runs, summary.quantities, WALL))
    assert answer.startswith("scx_same: no difference to none found with 8 runs; to see 2 % you would need about ")


def test_warm_up_does_not_count() -> None:
    summary = make_summary({"none": 1.0, "scx_slow": 1.2}, runs=8)
    assert len(summary.runs) == 18
    assert summary.find(1, WALL).numbers == 8
    assert sum(summary.count_endings(1).values()) == 8


def test_runs_that_are_no_numbers_are_told_with_their_reason() -> None:
    lost = {5: (RunEnding.EJECTED, "runnable task stall"), 7: (RunEnding.FAILED, "exit code 2")}
    summary = make_summary({"none": 1.0, "scx_slow": 1.2}, lost=lost)
    said = tell_answers(summary)[1:]
    assert len(said) == 2
    assert any(
        "1 of 10 runs ended with the scheduler ejected by the kernel: runnable task stall" in one for one in said
    )
    assert any("1 of 10 runs failed: exit code 2" in one for one in said)


def test_too_few_numbers_are_no_finding() -> None:
    summary = make_summary({"none": 1.0, "scx_slow": 1.2}, runs=5)
    assert summary.find(1, WALL).finding is Finding.TOO_FEW
    assert tell_answers(summary) == ["scx_slow: too few numbers to compare with none (5; 8 are the least)"]


@pytest.mark.parametrize(
    ("interval", "better", "finding"),
    [
        (Interval(1.1, 1.05, 1.2), Better.LOWER, Finding.WORSE),
        (Interval(1.1, 1.05, 1.2), Better.HIGHER, Finding.BETTER),
        (Interval(1.1, 1.05, 1.2), Better.EITHER, Finding.HIGHER),
        (Interval(0.9, 0.8, 0.99), Better.LOWER, Finding.BETTER),
        (Interval(0.9, 0.8, 0.99), Better.HIGHER, Finding.WORSE),
        (Interval(0.9, 0.8, 0.99), Better.EITHER, Finding.LOWER),
        (Interval(1.0, 0.97, 1.01), Better.LOWER, Finding.NOT_DIFFERENT),
        (Interval(1.0, 0.99, 1.01), Better.LOWER, Finding.SAME),
        (Interval(1.0, 1.0, 1.0), Better.LOWER, Finding.SAME),
    ],
)
def test_what_an_interval_tells(interval: Interval, better: Better, finding: Finding) -> None:
    assert judge(interval, better) is finding


def test_a_metric_without_a_direction_is_not_called_better() -> None:
    summary = make_summary({"none": 1.0, "scx_slow": 1.2}, metric=parse_metric("Time: (.*)", None))
    (answer,) = tell_answers(summary)
    assert answer.startswith("scx_slow is higher than none: metric × 1.")
    assert summary.main.better is Better.EITHER
    assert "worse" in tell_answers(make_summary({"none": 1.0, "scx_slow": 1.2}, metric=TIME))[0]
