"""Flags as the Go operator takes them, for Deployments that were written for it: one dash or two, and zap's."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import click

from schedkit.cli import ProgramCommand

Command = TypeVar("Command", bound=Callable[..., Any])

_LEVELS = {"debug": "debug", "info": "info", "error": "error", "panic": "critical"}  # zap's, and Python's
_TIME_ENCODINGS = ("epoch", "millis", "nano", "iso8601", "rfc3339", "rfc3339nano")
_AS_WRITTEN = ("iso8601", "rfc3339", "rfc3339nano")  # what our log is like anyway


class GoCommand(ProgramCommand):
    """A command whose long options may have one dash, as with Go's flag package."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments after spelling them as click expects them."""
        return super().parse_args(ctx, normalize(args, ctx))


def switch(name: str, *, default: bool | None, help: str) -> Callable[[Command], Command]:
    """A boolean flag as Go's programs take it: `--flag`, `--flag=true` or `--flag=false`."""
    said = "" if default is None else f" [default: {str(default).lower()}]"
    help = f"{help.removesuffix('.')}{said}."
    return click.option(
        name, is_flag=False, flag_value="true", type=click.BOOL, default=default, metavar="[=true|false]", help=help
    )


def normalize(arguments: Sequence[str], context: click.Context) -> list[str]:
    """The arguments with two dashes before each long option, and no boolean flag that could take the next argument."""
    options = [item for item in context.command.get_params(context) if isinstance(item, click.Option)]
    known = {spelling[2:]: option for option in options for spelling in option.opts if spelling.startswith("--")}
    spelled: list[str] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word == "--":
            return [*spelled, word, *words]
        name, equals, value = word.removeprefix("-").removeprefix("-").partition("=")
        option = known.get(name) if word.startswith("-") else None
        if option is None:
            is_long = len(word) > len("-h") and word.startswith("-") and not word.startswith("--")
            spelled.append(f"-{word}" if is_long else word)
        elif equals:
            spelled.append(f"--{name}={value}")
        elif option.is_flag:  # --help
            spelled.append(f"--{name}")
        elif option.type is click.BOOL:
            if words and words[0] in ("true", "false"):
                message = f"the value of --{name} follows an equals sign: --{name}={words[0]}"
                raise click.UsageError(message, context)
            spelled.append(f"--{name}=true")
        else:
            spelled += [f"--{name}", *words[:1]]
            words = words[1:]
    return spelled


def _parse_level(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """A level of zap's, a name or a number, as Python's logging calls it."""
    level = _LEVELS.get((value or "").lower())
    if value is None or level:
        return level
    if not value.isascii() or not value.isdigit() or int(value) == 0:
        raise click.BadParameter(f"{value!r} is neither {', '.join(_LEVELS)} nor a number above 0.")
    return "debug"


def zap_options(command: Command) -> Command:
    """Add the flags of controller-runtime's logger."""
    for add in (
        click.option(
            "--zap-time-encoding",
            type=click.Choice(_TIME_ENCODINGS, case_sensitive=False),
            help="Accepted for compatibility with the Go operator; times are always RFC 3339.",
        ),
        click.option(
            "--zap-stacktrace-level",
            type=click.Choice(["info", "error", "panic"], case_sensitive=False),
            help="Accepted for compatibility with the Go operator, without effect.",
        ),
        click.option(
            "--zap-log-level",
            callback=_parse_level,
            metavar="LEVEL",
            help="The Go operator's --log-level: debug, info, error, panic, or a number above 0 for debug.",
        ),
        click.option(
            "--zap-encoder",
            type=click.Choice(["json", "console"], case_sensitive=False),
            help="The Go operator's --log-format: json, or console for text.",
        ),
        switch(
            "--zap-devel",
            default=None,
            help="Log debug messages as text; with =false, log messages of level info and above as JSON.",
        ),
    ):
        command = add(command)
    return command


class Logging(NamedTuple):
    """How to log."""

    level: str
    format: Literal["text", "json"]
    notes: tuple[str, ...]  # what was asked for and has no effect


def choose_logging(level: str | None, format: str | None, zap: dict[str, Any]) -> Logging:
    """How to log by --log-level and --log-format, or where one of them is not given (None), by zap's options."""
    devel, encoder, zap_level = zap["zap_devel"], zap["zap_encoder"], zap["zap_log_level"]
    default_level = "debug" if devel else "info"
    default_encoder = "json" if devel is False else "console"
    notes = []
    if level and zap_level:
        notes.append("--zap-log-level has no effect together with --log-level")
    if format and encoder:
        notes.append("--zap-encoder has no effect together with --log-format")
    if zap["zap_stacktrace_level"]:
        notes.append("--zap-stacktrace-level has no effect: only unexpected errors are logged with a stack trace")
    if (zap["zap_time_encoding"] or "rfc3339") not in _AS_WRITTEN:
        notes.append("--zap-time-encoding has no effect: times are written as RFC 3339")
    is_json = format == "json" if format else (encoder or default_encoder) == "json"
    return Logging(level or zap_level or default_level, "json" if is_json else "text", tuple(notes))
