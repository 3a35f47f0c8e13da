"""Values as text, JSON or YAML: one value is gathered, and all are made from it. Columns and ages are as kubectl's."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import click

from schedkit.errors import clean

SCHEMA_VERSION = "1"
GAP = "   "
BAR_LENGTH = 20


def show(output: str, name: str, value: object, text: Callable[[], str]) -> None:
    """Print a command's result in the way that was asked for; `name` is what holds it in a document."""
    if output == "text":
        if told := text():
            echo(told)
        return
    import msgspec

    document = {"version": SCHEMA_VERSION, name: msgspec.to_builtins(value)}
    if output == "json":
        from json import dumps

        click.echo(dumps(document, indent=2))
        return
    import yaml

    click.echo(yaml.safe_dump(document, sort_keys=False), nl=False)


def echo(text: str) -> None:
    """Print text, whose every part may come from elsewhere: nothing in it acts on the terminal."""
    click.echo(clean(text, keep="\n"))


def render_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns, none of them cut."""
    cells = [list(titles), *([clean(cell) or "-" for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(titles))]
    return "\n".join(
        GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def render_bar(part: int, whole: int, length: int = BAR_LENGTH) -> str:
    """How much of a whole is done."""
    filled = length * min(part, whole) // whole if whole > 0 else 0
    return f"[{'#' * filled}{'.' * (length - filled)}]"


def count_nodes(number: int) -> str:
    return "1 node" if number == 1 else f"{number} nodes"


def now() -> datetime:
    """The time of day; ages are shown beside it."""
    return datetime.now(UTC)


def age(time: str | None, moment: datetime) -> str:
    """How long ago a time of the API was, as kubectl shows ages; empty where there is none."""
    if not time:
        return ""
    try:
        seconds = int((moment - datetime.fromisoformat(time)).total_seconds())
    except (ValueError, TypeError):
        return ""  # no time that can be read
    return format_age(max(0, seconds))


def format_age(seconds: int) -> str:
    """A length of time, less exact the longer it is."""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    return f"{days}d"


def format_milliseconds(amount: int) -> str:
    """A measured time, as exact as it is of use."""
    return f"{amount} ms" if amount < 1000 else f"{amount / 1000:.1f} s"
