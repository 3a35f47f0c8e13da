"""The result of a bench, gathered once, and as JSON and as text."""

import shlex
from datetime import datetime
from typing import NamedTuple

from schedkit.measure.environment import Environment
from schedkit.measure.metric import Metric
from schedkit.measure.model import BenchRun, Quantity, RunEnding
from schedkit.measure.summary import BenchSummary, Comparison, Finding, tell_answers
from schedkit.schedctl.output import Json, Output, format_bytes, plain


class BenchResult(NamedTuple):
    """Everything that a report tells."""

    summary: BenchSummary
    command: tuple[str, ...]
    workload: str | None
    metric: Metric | None
    user: str | None
    runs: int
    warmup: int
    seed: int
    settle: float
    started: datetime
    finished: datetime
    interrupted: bool
    environment: Environment
    warnings: tuple[str, ...]
    driver: str
    versions: dict[str, object]


def bench_fields(result: BenchResult) -> Json:
    """Return what `-o json` prints: with the images, the seed and the command, enough to do it again."""
    summary = result.summary
    return {
        "command": list(result.command),
        "workload": result.workload,
        "user": result.user,
        "metric": {"pattern": result.metric.pattern.pattern, "better": result.metric.better.value}
        if result.metric
        else None,
        "runs": result.runs,
        "warmup": result.warmup,
        "seed": result.seed,
        "settle_seconds": result.settle,
        "started_at": plain(result.started),
        "finished_at": plain(result.finished),
        "interrupted": result.interrupted,
        "answers": tell_answers(summary),
        "warnings": list(result.warnings),
        "driver": result.driver,
        "schedulers": [
            {
                "label": one.label,
                "scheduler": one.scheduler,
                "image": one.image,
                "digest": one.digest,
                "manifest": one.manifest,
                "args": list(one.args),
                "verified": one.verified,
                "ops": one.ops or None,
                "endings": {ending.value: count for ending, count in summary.count_endings(number).items()},
            }
            for number, one in enumerate(summary.contenders)
        ],
        "quantities": [
            {"name": one.name, "title": one.title, "unit": one.unit, "better": one.better.value}
            for one in summary.quantities
        ],
        "main": summary.main.name,
        "level": summary.level,
        "comparisons": [_comparison_fields(summary, one) for one in summary.comparisons],
        "samples": [_sample_fields(summary, run) for run in summary.runs],
        "machine": {name: plain(value) for name, value in result.environment._asdict().items()},
        "versions": plain(result.versions),
    }


def bench_text(result: BenchResult, output: Output) -> str:
    """Return the text for people: a table of the main quantity, of latency where that was measured, and the answers."""
    summary = result.summary
    shown = [summary.main, *(one for one in summary.quantities if one.name.startswith("wakeup_p99"))]
    if summary.main.name != "wall_seconds":
        shown.append(next(one for one in summary.quantities if one.name == "wall_seconds"))
    parts = [f"{shlex.join(result.command)}\n"]
    for quantity in shown:
        rows = [_row(summary, number, quantity) for number in range(len(summary.contenders))]
        title = "" if quantity is summary.main else f"{quantity.title}:\n"
        parts.append(title + output.table(_titles(quantity), rows, elastic=("SCHEDULER",)) + "\n")
    answers = [_paint(summary, number, text, output) for number, text in enumerate(tell_answers(summary), start=1)]
    parts.append("\n".join(answers))
    return "\n".join(parts)


def _titles(quantity: Quantity) -> tuple[str, ...]:
    return ("SCHEDULER", "RUNS", quantity.title.upper(), "RATIO", "INTERVAL", "FINDING")


def _row(summary: BenchSummary, number: int, quantity: Quantity) -> tuple[str, ...]:
    one = summary.find(number, quantity)
    total = sum(summary.count_endings(number).values())
    interval = one.interval
    return (
        summary.contenders[number].label,
        f"{one.numbers}/{total}",
        format_value(one.median, quantity),
        f"{interval.ratio:.3f}" if interval else "1" if one.finding is Finding.BASELINE else "-",
        f"{interval.low:.3f} – {interval.high:.3f}" if interval else "-",
        one.finding.value.replace("-", " "),
    )


def format_value(value: float | None, quantity: Quantity) -> str:
    """A number with its unit, as exact as it is of use."""
    if value is None:
        return "-"
    if quantity.unit == "B":
        return format_bytes(round(value))
    if quantity.unit == "s":
        for factor, unit in ((1.0, "s"), (1e3, "ms")):
            if value * factor >= 1 or not value:
                return f"{value * factor:.4g} {unit}"
        return f"{value * 1e6:.4g} µs"
    return f"{value:.0f}" if abs(value) >= 1e4 or value == round(value) else f"{value:.4g}"


def find_worst_ending(result: BenchResult) -> RunEnding | None:
    """What a script must know by the exit code: a run that the kernel, or the command, made no number of."""
    endings = {run.ending for run in result.summary.runs}
    order = (RunEnding.EJECTED, RunEnding.DETACHED, RunEnding.NOT_ATTACHED, RunEnding.FAILED, RunEnding.NO_METRIC)
    rest = (RunEnding.DISTURBED, RunEnding.UNKNOWN)
    return next((one for one in (*order, *rest) if one in endings), None)


def _paint(summary: BenchSummary, number: int, text: str, output: Output) -> str:
    if number >= len(summary.contenders):
        return output.paint(text, "bad")
    finding = summary.find(number, summary.main).finding
    mood = {Finding.BETTER: "good", Finding.WORSE: "bad", Finding.TOO_FEW: "doubtful"}.get(finding)
    return output.paint(text, mood) if mood else text


def _comparison_fields(summary: BenchSummary, one: Comparison) -> Json:
    interval = one.interval
    return {
        "scheduler": summary.contenders[one.contender].label,
        "quantity": one.quantity.name,
        "numbers": one.numbers,
        "median": one.median,
        "ratio": interval.ratio if interval else None,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
        "finding": one.finding.value,
        "needed_runs": one.needed_runs,
    }


def _sample_fields(summary: BenchSummary, run: BenchRun) -> Json:
    return {
        "number": run.number,
        "block": run.block,
        "scheduler": summary.contenders[run.contender].label,
        "ending": run.ending.value,
        "why": run.why or None,
        "started_at": plain(run.started),
        "exit_code": run.exit_code,
        "wakeups": run.wakeups,
        "values": dict(run.values),
    }
