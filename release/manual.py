"""Manual pages, made from the commands themselves."""

import inspect
import re
from collections.abc import Iterator
from datetime import UTC, datetime

import click


def render_pages(program: click.Command, name: str, *, version: str, epoch: int) -> dict[str, str]:
    """A page for a program and for each of its commands, by file name."""
    day = datetime.fromtimestamp(epoch, UTC).date().isoformat()
    context = click.Context(program, info_name=name, **program.context_settings)
    found = dict(_walk(program, context, (name,)))
    return {
        f"{'-'.join(words)}.1": _render(command, inner, words, version=version, day=day, others=found)
        for words, (command, inner) in found.items()
    }


Words = tuple[str, ...]
Found = dict[Words, tuple[click.Command, click.Context]]


def _walk(
    command: click.Command, context: click.Context, words: Words
) -> Iterator[tuple[Words, tuple[click.Command, click.Context]]]:
    yield words, (command, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below and not below.hidden:
                inner = click.Context(below, info_name=name, parent=context, **below.context_settings)
                yield from _walk(below, inner, (*words, name))


def _render(
    command: click.Command, context: click.Context, words: Words, *, version: str, day: str, others: Found
) -> str:
    title = "-".join(words)
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        f'.TH "{title.upper()}" "1" "{day}" "{words[0]} {version}" "User Commands"',
        ".SH NAME",
        f"{title} \\- {_escape(command.get_short_help_str(200).rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {_escape(' '.join(words))}",
        _escape(usage),
        ".SH DESCRIPTION",
        *_paragraphs(inspect.cleandoc(command.help or "")),
    ]
    records = [record for one in command.get_params(context) if (record := one.get_help_record(context)) and record[1]]
    if records:
        lines.append(".SH OPTIONS")
        for option, help_text in records:
            lines += [".TP", f".B {_escape(option)}", _escape(help_text)]
    below = [other for other in others if other[:-1] == words]
    if below:
        lines.append(".SH COMMANDS")
        for other in below:
            text = _escape(others[other][0].get_short_help_str(200))
            lines += [".TP", f".BR {_escape('-'.join(other))} (1)", text]
    if command.epilog:
        examples = inspect.cleandoc(command.epilog)
        is_list = "\n" in examples
        lines += [".SH EXAMPLES", ".nf", *_verbatim(examples), ".fi"] if is_list else [".PP", *_paragraphs(examples)]
    if len(words) > 1:
        lines += [".SH SEE ALSO", f".BR {_escape('-'.join(words[:-1]))} (1)"]
    return "\n".join(lines) + "\n"


def _paragraphs(text: str) -> list[str]:
    """Text as click marks it up: an empty line between paragraphs, a backspace before one whose lines stay."""
    lines = []
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text)):
        lines += [".PP"] if number else []
        if paragraph.startswith("\b"):
            lines += [".nf", *_verbatim(paragraph.removeprefix("\b").strip("\n")), ".fi"]
        else:
            lines.append(_escape(" ".join(paragraph.split())))
    return lines


def _verbatim(text: str) -> list[str]:
    return [_escape(line) or "\\&" for line in text.splitlines()]


def _escape(text: str) -> str:
    """Text as roff prints it; a line that begins with a dot or a quote would be a request."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return f"\\&{escaped}" if escaped.startswith((".", "\\(aq")) else escaped
