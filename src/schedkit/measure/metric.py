"""A number out of a command's output."""

import re
from math import isfinite
from typing import NamedTuple

from schedkit.errors import UsageError
from schedkit.measure.model import METRIC, Better, Quantity

_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")


class Metric(NamedTuple):
    """What to look for, and which way is better."""

    pattern: re.Pattern[str]
    better: Better = Better.EITHER
    title: str = "metric"

    @property
    def quantity(self) -> Quantity:
        """This metric, described as the other quantities are."""
        return Quantity(METRIC, self.title, "", self.better)


def parse_metric(pattern: str, better: str | None) -> Metric:
    """Parse --metric and --better."""
    try:
        compiled = re.compile(pattern, re.MULTILINE)
    except re.error as error:
        raise UsageError(
            f"--metric {pattern!r} is not a regular expression: {error}", hint=r"for example: --metric 'Time: ([\d.]+)'"
        ) from error
    if compiled.groups > 1:
        raise UsageError(
            f"--metric {pattern!r} has {compiled.groups} groups", hint="one group, around the number; (?:…) for others"
        )
    return Metric(compiled, Better(better) if better else Better.EITHER)


def find_number(metric: Metric, output: str) -> float | str:
    """The number of the last match, its group if it has one; else why there is none."""
    matches = [match[metric.pattern.groups] or "" for match in metric.pattern.finditer(output)]
    if not matches:
        return f"--metric {metric.pattern.pattern!r} matches nothing in the output"
    text = matches[-1].strip()
    if _THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    try:
        number = float(text)
    except ValueError:
        return f"--metric {metric.pattern.pattern!r} matches {text[:40]!r}, which is not a number"
    if not isfinite(number):
        return f"--metric {metric.pattern.pattern!r} matches {text[:40]!r}, which is not a finite number"
    return number
