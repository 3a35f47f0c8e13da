"""`schedctl watch`: the kernel's slot, live."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

import click

from schedkit.cli import Whole
from schedkit.errors import clean
from schedkit.schedctl.durations import duration_option
from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.output import Json, Output, format_json, format_span, format_time, plain, words
from schedkit.schedctl.session import Session
from schedkit.schedctl.views import kernel_fields
from schedkit.unknown import Unknown

if TYPE_CHECKING:
    from schedkit.host.watching import Sample


@click.command(
    cls=Command,
    short_help="Follow the kernel's scheduler slot, live.",
    epilog="""
    schedctl watch
    schedctl watch --interval 0.2
    schedctl watch -o json --count 10 | jq -c .rates
    """,
)
@duration_option(
    "--interval",
    default="1s",
    least=0.05,
    help="Time between samples; changes are shown at once.",
)
@click.option("--count", type=Whole(1), metavar="N", help="End after N samples.")
@output_option
@pass_session
def command(session: Session, interval: float, count: int | None) -> None:
    """Follow the kernel's slot: state, scheduler, uptime, events per second, and the scheduler's statistics if any.

    On a terminal the view is updated in place until Ctrl-C. In a pipe, schedctl prints one line per sample; with -o
    json, one document per line.
    """
    from schedkit.host.watching import watch

    output = session.output
    samples = _require_sched_ext(islice(watch(session.machine, tick=interval), count))
    if output.width is not None and not output.json:
        _draw(samples, output)
        return
    for sample in samples:
        output.write(f"{format_json(_fields(sample)) if output.json else _line(sample)}\n")


def _require_sched_ext(samples: Iterable["Sample"]) -> Iterator["Sample"]:
    from schedkit.host.watching import check_supported

    for sample in samples:
        check_supported(sample.kernel)
        yield sample


def _draw(samples: Iterable["Sample"], output: Output) -> None:
    """The view of a terminal, which Ctrl-C ends; the last sample stays on the screen."""
    page = ""
    with suppress(KeyboardInterrupt), output.other_screen():
        for sample in samples:
            page = _page(sample, output.width)
            output.clear()
            output.write(f"{page}\n")
    output.write(f"{page}\n")


def _fields(sample: "Sample") -> Json:
    return {
        "at": format_time(sample.at),
        "kernel": kernel_fields(sample.kernel),
        "uptime_seconds": round(sample.uptime, 3) if isinstance(sample.uptime, float) else plain(sample.uptime),
        "rates": plain(sample.rates),
        "stats": plain(sample.stats),
    }


def _page(sample: "Sample", width: int | None) -> str:
    kernel = sample.kernel
    lines = [
        f"{'state':12}{words(kernel.state)}",
        f"{'ops':12}{words(kernel.ops)}",
        f"{'uptime':12}{_uptime(sample)}",
        f"{'rejected':12}{words(kernel.nr_rejected)}",
    ]
    lines += _section("events/s", sample.rates)
    lines += _section("statistics", sample.stats)
    lines += ["", f"{format_time(sample.at)}  Ctrl-C to quit"]
    return "\n".join(clean(line)[:width] for line in lines)


def _section(title: str, values: object) -> list[str]:
    if isinstance(values, Unknown):
        return [f"{title:12}{words(values)}"]
    if not isinstance(values, dict) or not values:
        return []
    return ["", title, *(f"  {name:38}{_number(value)}" for name, value in values.items())]


def _line(sample: "Sample") -> str:
    kernel = sample.kernel
    parts = [format_time(sample.at), words(kernel.state), words(kernel.ops), f"up {_uptime(sample)}"]
    if isinstance(sample.rates, Unknown):
        parts.append(f"events/s {words(sample.rates)}")
    elif sample.rates:
        parts += [f"{name} {_number(value)}/s" for name, value in sample.rates.items() if value]
    return clean("  ".join(parts))


def _uptime(sample: "Sample") -> str:
    return format_span(sample.uptime) if isinstance(sample.uptime, float) else words(sample.uptime)


def _number(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)
