"""Plots of a bench as SVG: strips of all runs, intervals of ratios, and the order in which they were made."""

from collections.abc import Callable, Sequence
from html import escape
from math import floor, log10
from typing import NamedTuple

from schedkit.measure.model import BenchRun, Quantity
from schedkit.measure.summary import BenchSummary
from schedkit.schedctl.bench_result import format_value

WIDTH = 860
LEFT = 200  # for the labels
RIGHT = 24
ROW = 34
AXIS = 30
ORDER_HEIGHT = 220
COLOURS = 6  # classes c0 … of the page's style; who has more schedulers tells them apart by their labels
LONGEST_LABEL = 26
_SMALL = 0.02


class Scale(NamedTuple):
    """Maps values to columns of a line."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        return round(self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start), 1)


def make_scale(values: Sequence[float], start: float, end: float) -> Scale:
    """All values with some room around them, also where they are all the same."""
    low, high = min(values), max(values)
    room = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
    return Scale(low - room, high + room, start, end)


def choose_ticks(scale: Scale, wanted: int = 5) -> list[float]:
    """Round numbers inside of a scale: steps of 1, 2 or 5."""
    rough = (scale.high - scale.low) / wanted
    power = 10.0 ** floor(log10(rough))
    step = next(one * power for one in (1, 2, 5, 10) if one * power >= rough)
    first = floor(scale.low / step) + 1
    return [number * step for number in range(first, first + 2 * wanted) if number * step < scale.high]


def plot_strip(summary: BenchSummary, quantity: Quantity) -> str:
    """Each run a dot, each scheduler a row, its median a line; empty where nothing was measured."""
    runs = _find_numbers(summary, quantity)
    if not runs:
        return ""
    scale = make_scale([run.values[quantity.name] for run in runs], LEFT, WIDTH - RIGHT)
    parts = [_axis(scale, len(summary.contenders) * ROW, lambda value: format_value(value, quantity))]
    for number, contender in enumerate(summary.contenders):
        middle = number * ROW + ROW / 2
        parts.append(_label(contender.label, middle))
        for count, run in enumerate(one for one in runs if one.contender == number):
            shift = (count % 3 - 1) * 5  # so that dots of the same value are seen side by side
            parts.append(_dot(scale.place(run.values[quantity.name]), middle + shift, run, quantity))
        median = summary.find(number, quantity).median
        if median is not None:
            place = scale.place(median)
            parts.append(f'<line class="median" x1="{place}" x2="{place}" y1="{middle - 13}" y2="{middle + 13}"/>')
    return _frame(f"{quantity.title} of each run", len(summary.contenders) * ROW + AXIS, parts)


def plot_intervals(summary: BenchSummary) -> str:
    """The ratio of each scheduler to the baseline, with its interval; empty where there is none."""
    found = [one for one in summary.comparisons if one.quantity == summary.main and one.interval]
    edges = [edge for one in found if one.interval for edge in one.interval]
    if not edges:
        return ""
    scale = make_scale([*edges, 1 - _SMALL, 1 + _SMALL], LEFT, WIDTH - RIGHT)
    height = len(found) * ROW
    left, right = scale.place(1 - _SMALL), scale.place(1 + _SMALL)
    parts = [
        f'<rect class="small" x="{left}" y="0" width="{round(right - left, 1)}" height="{height}"/>',
        _axis(scale, height, lambda value: f"× {value:.4g}"),
        f'<line class="one" x1="{scale.place(1)}" x2="{scale.place(1)}" y1="0" y2="{height}"/>',
    ]
    for row, one in enumerate(found):
        if one.interval is None:
            continue
        middle, colour = row * ROW + ROW / 2, f"c{one.contender % COLOURS}"
        told = f"× {one.interval.ratio:.3f} ({one.interval.low:.3f} to {one.interval.high:.3f}): {one.finding.value}"
        ends = f'x1="{scale.place(one.interval.low)}" x2="{scale.place(one.interval.high)}"'
        parts += [
            _label(summary.contenders[one.contender].label, middle),
            f'<line class="interval {colour}" {ends} y1="{middle}" y2="{middle}"/>',
            f'<circle class="{colour}" cx="{scale.place(one.interval.ratio)}" cy="{middle}" r="5">'
            f"<title>{escape(told)}</title></circle>",
        ]
    base = summary.contenders[0].label
    return _frame(f"{summary.main.title}: ratio to {base}", height + AXIS, parts)


def plot_order(summary: BenchSummary) -> str:
    """The main quantity of each run in the order in which they were made: a slope is heat, or other load."""
    runs = _find_numbers(summary, summary.main)
    if not runs:
        return ""
    across = make_scale([1, max(2, summary.runs[-1].number)], LEFT, WIDTH - RIGHT)
    down = make_scale([run.values[summary.main.name] for run in runs], ORDER_HEIGHT, 8)
    parts = []
    for value in choose_ticks(down, 4):
        place = down.place(value)
        parts += [
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{place}" y2="{place}"/>',
            f'<text class="tick" x="{LEFT - 8}" y="{place + 4}" text-anchor="end">'
            f"{escape(format_value(value, summary.main))}</text>",
        ]
    parts += [
        _dot(across.place(run.number), down.place(run.values[summary.main.name]), run, summary.main) for run in runs
    ]
    parts.append(
        f'<text class="tick" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{ORDER_HEIGHT + 22}" text-anchor="middle">'
        f"run 1 to {summary.runs[-1].number}</text>"
    )
    return _frame(f"{summary.main.title} in the order of the runs", ORDER_HEIGHT + AXIS, parts)


def _find_numbers(summary: BenchSummary, quantity: Quantity) -> list[BenchRun]:
    return [run for run in summary.runs if run.counts and quantity.name in run.values]


def _axis(scale: Scale, height: float, tell: Callable[[float], str]) -> str:
    parts = []
    for value in choose_ticks(scale):
        place = scale.place(value)
        parts.append(f'<line class="grid" x1="{place}" x2="{place}" y1="0" y2="{height}"/>')
        text = escape(tell(value))
        parts.append(f'<text class="tick" x="{place}" y="{height + 20}" text-anchor="middle">{text}</text>')
    return "".join(parts)


def _label(text: str, middle: float) -> str:
    short = text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1]}…"
    return (
        f'<text x="{LEFT - 12}" y="{middle + 4}" text-anchor="end">{escape(short)}<title>{escape(text)}</title></text>'
    )


def _dot(x: float, y: float, run: BenchRun, quantity: Quantity) -> str:
    told = f"run {run.number}, block {run.block}: {format_value(run.values[quantity.name], quantity)}"
    colour = f"c{run.contender % COLOURS}"
    return f'<circle class="run {colour}" cx="{x}" cy="{y}" r="4"><title>{escape(told)}</title></circle>'


def _frame(title: str, height: float, parts: Sequence[str]) -> str:
    shape = f'viewBox="0 0 {WIDTH} {round(height)}" role="img" aria-label="{escape(title)}"'
    return f'<div class="wide"><svg {shape}>{"".join(parts)}</svg></div>\n'  # on a phone it is scrolled, and not shrunk
