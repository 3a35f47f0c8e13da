"""A bench as one HTML page that can be sent to a colleague: no script, nothing that it loads, dark and light."""

import shlex
from collections.abc import Iterable, Sequence
from html import escape

from schedkit.measure.model import Quantity
from schedkit.measure.summary import Finding, tell_answers
from schedkit.schedctl.bench_plots import COLOURS, plot_intervals, plot_order, plot_strip
from schedkit.schedctl.bench_result import BenchResult, format_value
from schedkit.schedctl.output import format_bytes, format_time, words

# Colours that people with any kind of colour vision tell apart (after Okabe and Ito), for each background.
_LIGHT = ("#0072b2", "#d55e00", "#009e73", "#b0508e", "#b07800", "#555555")
_DARK = ("#56b4e9", "#ff8c42", "#2ecf9c", "#e39ac8", "#f0c043", "#b0b0b0")
_STYLE = """
:root { color-scheme: light dark; --back: #ffffff; --text: #1c1e21; --soft: #5c6370; --line: #d8dce2; --band: #eef1f5;
%LIGHT% }
@media (prefers-color-scheme: dark) { :root { --back: #15181c; --text: #e6e8eb; --soft: #9aa3ae; --line: #343a42;
--band: #22272e; %DARK% } }
body { background: var(--back); color: var(--text); font: 16px/1.5 system-ui, sans-serif; max-width: 900px;
margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0.2rem; } h2 { font-size: 1.1rem; margin: 2rem 0 0.3rem; }
p.about, figcaption { color: var(--soft); font-size: 0.9rem; margin: 0.2rem 0; }
code, pre { font: 0.9rem/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
h1 code { font-size: 1.3rem; }
pre { background: var(--band); padding: 0.6rem 0.8rem; border-radius: 6px; white-space: pre-wrap; }
ul.answers { list-style: none; padding: 0; }
ul.answers li { border-left: 4px solid var(--line); padding: 0.3rem 0.8rem; margin: 0.4rem 0; background: var(--band); }
ul.answers li.better { border-color: #2e9e5b; } ul.answers li.worse { border-color: #cf4a3c; }
ul.answers li.lost { border-color: #cf4a3c; }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; width: 100%; }
th, td { text-align: left; padding: 0.25rem 0.7rem 0.25rem 0; border-bottom: 1px solid var(--line);
vertical-align: top; }
table.words td { overflow-wrap: anywhere; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
figure { margin: 0.5rem 0 0; } svg { width: 100%; min-width: 640px; height: auto; display: block; }
svg text { fill: var(--text); font: 13px system-ui, sans-serif; } svg text.tick { fill: var(--soft); font-size: 12px; }
svg .grid { stroke: var(--line); } svg .one { stroke: var(--text); stroke-dasharray: 4 3; }
svg .small { fill: var(--band); }
svg .run { fill-opacity: 0.65; } svg .median { stroke: var(--text); stroke-width: 2; }
svg .interval { stroke-width: 4; }
details { margin-top: 1rem; } summary { cursor: pointer; color: var(--soft); }
@media print { :root { --back: #ffffff; --text: #000000; } details > * { display: block; } }
"""
# The page needs no script and loads nothing; a name that tries to bring some along is refused by the browser as well.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def render_page(result: BenchResult) -> str:
    """The whole page; every text in it that came from elsewhere is escaped."""
    summary = result.summary
    base = summary.contenders[0].label
    body = [
        f"<h1>Which scheduler is better for <code>{escape(shlex.join(result.command))}</code>?</h1>",
        f'<p class="about">{escape(_about(result))}</p>',
        _answers(result),
        _figure(
            f"Ratio to {base}",
            plot_intervals(summary),
            f"{summary.main.title}: the ratio of medians to {base}, with an interval ({summary.level * 100:.3g} %, so"
            " that all of them together hold in 95 of 100 benches). One that does not touch the dashed line is a"
            f" difference. The band is ±2 %.{_direction(summary.main)}",
        ),
        _figure(
            f"All runs: {summary.main.title}",
            plot_strip(summary, summary.main),
            "Each dot is a run, each upright line the median of its row.",
        ),
        _figure(
            "In the order of the runs",
            plot_order(summary) and plot_order(summary) + _legend(result),
            "A slope is a machine that gets warm, or other work on it; blocks in random order keep that out of ratios.",
        ),
        "<h2>All that was measured</h2>",
        _quantities(result),
        *(
            f"<details><summary>{escape(one.title)} of each run</summary>{plot}</details>"
            for one in summary.quantities
            if one != summary.main and (plot := plot_strip(summary, one))
        ),
        *_warnings(result),
        "<h2>Schedulers</h2>",
        _schedulers(result),
        "<h2>Machine</h2>",
        _machine(result),
        _samples(result),
    ]
    style = _STYLE.replace("%LIGHT%", _colours(_LIGHT)).replace("%DARK%", _colours(_DARK))
    classes = " ".join(
        f"svg .c{one} {{ fill: var(--c{one}); stroke: var(--c{one}); }} .k{one} {{ color: var(--c{one}); }}"
        for one in range(COLOURS)
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(f'schedctl bench: {shlex.join(result.command)}')}</title>\n"
        f"<style>{style}{classes}</style>\n</head>\n<body>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


def _about(result: BenchResult) -> str:
    when = f"{format_time(result.started)} to {format_time(result.finished)}"
    metric = f", metric {result.metric.pattern.pattern}" if result.metric else ""
    whole = "; interrupted before all runs were made" if result.interrupted else ""
    return (
        f"schedctl bench {result.versions.get('schedctl')}, {when}, {result.runs} runs with each of"
        f" {len(result.summary.contenders)} schedulers after {result.warmup} for warm-up, seed {result.seed}"
        f"{metric}{whole}"
    )


def _direction(quantity: Quantity) -> str:
    return "" if quantity.better == "either" else f" {quantity.better.value.capitalize()} is better."


def _answers(result: BenchResult) -> str:
    summary, items = result.summary, []
    for number, text in enumerate(tell_answers(summary), start=1):
        kind = "lost"
        if number < len(summary.contenders):
            finding = summary.find(number, summary.main).finding
            kind = finding.value if finding in (Finding.BETTER, Finding.WORSE) else "open"
        items.append(f'<li class="{kind}">{escape(text)}</li>')
    return f'<ul class="answers">{"".join(items)}</ul>'


def _figure(title: str, plot: str, caption: str) -> str:
    if not plot:
        return ""
    return f"<h2>{escape(title)}</h2><figure>{plot}<figcaption>{escape(caption)}</figcaption></figure>"


def _legend(result: BenchResult) -> str:
    keys = (
        f'<span class="k{number % COLOURS}">●</span> {escape(one.label)}'
        for number, one in enumerate(result.summary.contenders)
    )
    return f'<p class="about">{" &nbsp; ".join(keys)}</p>'


def _quantities(result: BenchResult) -> str:
    summary, rows = result.summary, []
    for quantity in summary.quantities:
        for number, contender in enumerate(summary.contenders):
            one = summary.find(number, quantity)
            interval = one.interval
            rows.append(
                (
                    quantity.title if not number else "",
                    contender.label,
                    str(one.numbers),
                    format_value(one.median, quantity),
                    f"{interval.ratio:.3f}" if interval else "",
                    f"{interval.low:.3f} – {interval.high:.3f}" if interval else "",
                    one.finding.value.replace("-", " "),
                )
            )
    titles = ("what", "scheduler", "runs", "median", "ratio", "interval", "finding")
    return _table(titles, rows, numbers=(2, 3, 4, 5))


def _warnings(result: BenchResult) -> list[str]:
    if not result.warnings:
        return []
    items = "".join(f"<li>{escape(one)}</li>" for one in result.warnings)
    return ["<h2>To keep in mind</h2>", f"<ul>{items}</ul>"]


def _schedulers(result: BenchResult) -> str:
    rows = [
        (
            one.label,
            one.ops or "",
            one.image or "the kernel's own",
            one.manifest or "",
            one.verified or "",
        )
        for one in result.summary.contenders
    ]
    return _table(("scheduler", "in the kernel", "image", "manifest", "verified"), rows, kind="words")


def _machine(result: BenchResult) -> str:
    facts = {**result.environment._asdict(), **{f"{name} version": value for name, value in result.versions.items()}}
    facts["runtime"] = result.driver
    return _table(("", ""), [_tell_fact(name, value) for name, value in facts.items()], kind="words")


def _tell_fact(name: str, value: object) -> tuple[str, str]:
    if name == "memory_bytes" and isinstance(value, int):
        return "memory", format_bytes(value)
    if name == "other_load" and isinstance(value, float):
        return "other load", f"{value:.0%} of the CPUs"
    told = {True: "yes", False: "no"}[value] if isinstance(value, bool) else words(value)
    return name.replace("_", " "), told


def _samples(result: BenchResult) -> str:
    summary = result.summary
    rows = [
        (
            str(run.number),
            str(run.block) if run.block > 0 else "warm-up",
            summary.contenders[run.contender].label,
            run.ending.value,
            *(format_value(run.values.get(one.name), one) for one in summary.quantities),
            run.why,
        )
        for run in summary.runs
    ]
    titles = ("run", "block", "scheduler", "ending", *(one.title for one in summary.quantities), "why")
    table = _table(titles, rows, numbers=range(4, 4 + len(summary.quantities)))
    return f"<details><summary>All {len(rows)} runs</summary>{table}</details>"


def _table(
    titles: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Iterable[int] = (), kind: str = "figures"
) -> str:
    right = set(numbers)

    def line(cells: Sequence[str], tag: str) -> str:
        made = (
            f"<{tag}{' class=number' if column in right else ''}>{escape(cell)}</{tag}>"
            for column, cell in enumerate(cells)
        )
        return f"<tr>{''.join(made)}</tr>"

    head = f"<thead>{line(titles, 'th')}</thead>" if any(titles) else ""
    body = "".join(line(row, "td") for row in rows)
    return f'<div class="wide"><table class="{kind}">{head}<tbody>{body}</tbody></table></div>'


def _colours(colours: Sequence[str]) -> str:
    return " ".join(f"--c{number}: {colour};" for number, colour in enumerate(colours))
