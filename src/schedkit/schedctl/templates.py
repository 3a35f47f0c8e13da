"""`--format`: one line for each value, from a template like `{{.name}} {{.kernel.ops}}`.

Placeholders are the fields that `-o json` has, and there is nothing else: no functions, no conditions.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import click

from schedkit.errors import UsageError, clean
from schedkit.schedctl.options import Function, is_json
from schedkit.schedctl.output import Json, Output
from schedkit.schedctl.schema import FIELDS, OPEN

_PLACEHOLDER = re.compile(r"\{\{\s*\.([\w.]*)\s*\}\}")
_ESCAPES = {"\\t": "\t", "\\n": "\n"}


class Template(NamedTuple):
    """Text and fields in turn: it begins and ends with text, which may be empty."""

    parts: tuple[str, ...]

    def render(self, fields: Json) -> str:
        """Return one value as one line."""
        return "".join(part if at % 2 == 0 else _format(fields, part) for at, part in enumerate(self.parts))


def format_option(command: str, rows: str, example: str) -> Callable[[Function], Function]:
    """Add `--format` to a command; each object of its list `rows` is a line, or, without, all that it prints."""

    def parse(context: click.Context, _parameter: click.Parameter, value: str | None) -> Template | None:
        if value is None:
            return None
        if is_json(context):
            raise UsageError("--format cannot be used with -o json", hint="use one of the two")
        return parse_template(value, list_fields(command, rows))

    return click.option(
        "--format",
        "template",
        metavar="TEMPLATE",
        callback=parse,
        help=f"Print one line{' each' if rows else ''}, with fields of the JSON output: '{example}'.",
    )


def list_fields(command: str, rows: str = "") -> dict[str, bool]:
    """The fields that a template of a command may name, and whether any name may follow after a point."""
    prefix = f"{rows}[]." if rows else ""
    known = [name.removeprefix(prefix) for name in FIELDS[command] if name.startswith(prefix)]
    found: dict[str, bool] = {}
    for name in known:
        plain = name.partition("[]")[0]  # of a list inside of it, the whole can be had
        words = plain.removesuffix(".*").split(".")
        for count in range(1, len(words) + 1):
            found.setdefault(".".join(words[:count]), False)
        if plain.endswith(".*") or plain in OPEN:
            found[plain.removesuffix(".*")] = True
    return found


def parse_template(text: str, fields: Mapping[str, bool]) -> Template:
    """Read a template; UsageError for a field that is not there, and for anything else in braces."""
    for sign, meant in _ESCAPES.items():
        text = text.replace(sign, meant)
    parts = _PLACEHOLDER.split(text)
    hint = "fields: " + ", ".join(name for name in fields if "." not in name) + "; 'schedctl help json' has all of them"
    for name in parts[1::2]:
        if name not in fields and not any(free and name.startswith(f"{known}.") for known, free in fields.items()):
            raise UsageError(f"--format: there is no field {name!r}", hint=hint)
    if any("{{" in rest or "}}" in rest for rest in parts[::2]):
        example = f"{{{{.{next(iter(fields))}}}}}"
        raise UsageError(f"--format: only fields can be used in {{{{ }}}}, such as {example}", hint=hint)
    return Template(tuple(parts))


def show_lines(output: Output, template: Template, rows: Iterable[Json]) -> None:
    """Print one line for each row."""
    lines = [template.render(row) for row in rows]
    output.write("".join(f"{line}\n" for line in lines))


def _format(fields: Json, name: str) -> str:
    """A field as text; nothing where it, or what it is a part of, is null."""
    value: object = fields
    for word in name.split("."):
        if isinstance(value, Mapping) and set(value) == {"unknown"}:
            return "unknown"
        value = value.get(word) if isinstance(value, Mapping) else None
    return clean(_write(value))


def _write(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping) and set(value) == {"unknown"}:
        return "unknown"
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ",".join(value)
    if isinstance(value, Mapping | list):
        from json import dumps

        return dumps(value)
    return str(value)
