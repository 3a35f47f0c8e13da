"""Lengths of time: one way to read them, for schedctl's options and for the fields of a SchedExt."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedkit.durations import parse_duration
from schedkit.sked.api import patterns


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("0.5", 0.5), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("2h", 7200), ("1d", 86400), ("1h5s", 3605)],
)
def test_a_length_of_time_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5m", "1.5h", "1m1h", "1h1h", "٣m", "9999999999d", "10 m"])
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        parse_duration(text)


@given(st.from_regex(patterns.DURATION, fullmatch=True))
def test_whatever_the_api_takes_can_be_read(text: str) -> None:
    assert parse_duration(text) >= 0


def test_the_operator_reads_times_without_click() -> None:
    code = "import sys, schedkit.sked.controller.rollout; sys.exit('click' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
