"""Lengths of time and moments on the command line: 90, 0.5, 90s, 10m, 1h30m, 2d."""

import re
from collections.abc import Callable
from datetime import datetime
from math import inf
from typing import Any

import click

from schedkit.errors import UsageError
from schedkit.schedctl.options import Function

ATTACH_SECONDS = 30.0
MOST_SECONDS = 86400.0  # a day: what may take longer than that is an error in a script
_UNITS = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}
_DURATION = re.compile(
    r"(?:(?P<days>\d{1,6})d)?(?:(?P<hours>\d{1,8})h)?(?:(?P<minutes>\d{1,9})m)?(?:(?P<seconds>\d{1,9}(?:\.\d{1,9})?)s?)?",
    re.ASCII,
)


def parse_duration(text: str) -> float | None:
    """Seconds; None for what is not a length of time."""
    found = _DURATION.fullmatch(text)
    if not text or not found:
        return None
    return sum(float(found[name] or 0) * seconds for name, seconds in _UNITS.items())


class Duration(click.types.FloatParamType):
    """A length of time that can be waited for: from `least` to a day, or, with `above`, only more than that."""

    def __init__(self, least: float = 0.0, *, above: float = -inf) -> None:
        self._least = least
        self._above = above

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = parse_duration(str(value))
        if seconds is None:
            self.fail(f"{value!r} is not a time: 90s, 10m or 1h30m.", param, ctx)
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
    """For all that start a scheduler."""
    return timeout_option(ATTACH_SECONDS, "a scheduler may take to attach", above=0.0)(function)


def parse_since(text: str, now: datetime) -> float:
    """A moment: so long ago, or a time of day with its date."""
    seconds = parse_duration(text)
    if seconds is not None:
        return now.timestamp() - seconds
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"--since {text}: not a time", hint="90s, 10m, 2h, 1d, or 2026-11-16T10:00:00Z") from error
    return moment.timestamp()  # without a zone it is this machine's
