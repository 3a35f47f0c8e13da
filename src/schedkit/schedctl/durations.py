"""Lengths of time and moments on the command line."""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from math import inf
from typing import Any

import click

from schedkit.durations import parse_duration
from schedkit.errors import UsageError
from schedkit.schedctl.options import Function

ATTACH_SECONDS = 30.0
MOST_SECONDS = 86400.0  # a day: what may take longer than that is an error in a script


class Duration(click.types.FloatParamType):
    """A length of time that can be waited for: from `least` to a day, or, with `above`, only more than that."""

    def __init__(self, least: float = 0.0, *, above: float = -inf) -> None:
        self._least = least
        self._above = above

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            seconds = parse_duration(str(value))
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)
        if seconds > MOST_SECONDS:
            self.fail(f"{value!r} is too long: a day at most.", param, ctx)
        if seconds < self._least or seconds <= self._above:
            least = f"more than {self._above:g} s" if self._above > -inf else f"at least {self._least:g} s"
            self.fail(f"{value!r} is too short: {least}.", param, ctx)
        return seconds


def duration_option(
    *names: str, default: str | None, help: str, least: float = 0.0, above: float = -inf
) -> Callable[[Function], Function]:
    """An option that takes a length of time."""
    return click.option(
        *names,
        type=Duration(least, above=above),
        default=default,
        show_default=bool(default),
        metavar="TIME",
        help=help,
    )


def timeout_option(default: float | None, what: str, *, above: float = -inf) -> Callable[[Function], Function]:
    """How long something may take; `what` is the rest of that sentence."""
    said = None if default is None else f"{default:g}s"
    return duration_option("--timeout", default=said, help=f"How long {what}.", above=above)


def attach_timeout_option(function: Function) -> Function:
    """Add `--timeout` to a command that starts a scheduler."""
    return timeout_option(ATTACH_SECONDS, "a scheduler may take to attach", above=0.0)(function)


def parse_since(text: str, now: datetime) -> float:
    """A moment: so long ago, or a time of day with its date."""
    with suppress(ValueError):
        return now.timestamp() - parse_duration(text)
    try:
        return datetime.fromisoformat(text).timestamp()  # without a zone it is this machine's
    except (ValueError, OverflowError) as error:
        raise UsageError(f"--since {text}: not a time", hint="90s, 10m, 2h, 1d, or 2026-11-16T10:00:00Z") from error
