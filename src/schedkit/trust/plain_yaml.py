"""The YAML that most policies are written in: one field or entry to a line, and each value in one word or in quotes.

PyYAML takes a quarter of `schedctl verify` to import, most of it to compile a single expression. What is read here
means the same to PyYAML, down to the lines: a test holds the two beside each other. All else is left to PyYAML, and
so is every complaint about what is not YAML.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

MAPPING, SEQUENCE, STRING, INTEGER, BOOLEAN = "map", "seq", "str", "int", "bool"
DEEPEST = 16
_BOOLEANS = ("true", "True", "TRUE", "false", "False", "FALSE")
_WORDS = ("yes", "no", "on", "off", "null")  # which YAML 1.1 takes for something else than a string, too
# Blanks are never given back (`++`): a line with many of them would take their square in time.
_LINE = re.compile(
    r"(?P<before> *+(?:- ++)*+)"
    r"(?:(?P<field>[A-Za-z]{1,64}):(?: ++|\Z))?"
    r"(?:'(?P<single>[^']*)'|\"(?P<double>[^\"\\]*)\"|(?P<number>[1-9][0-9]{0,5})|(?P<word>[A-Za-z/^](?:[^ ]*[^ :])?))?"
    r"(?:(?<= )#.*| ++(?:#.*)?)?"
)
_EMPTY = re.compile(r" *(?:#.*)?")


class YamlNode(NamedTuple):
    """A value, and where it begins."""

    kind: str  # one of the above; anything else is of no use in a policy
    line: int
    text: str = ""
    items: "tuple[YamlNode, ...]" = ()
    pairs: "tuple[tuple[YamlNode, YamlNode], ...]" = ()


class _Part(NamedTuple):
    """What stands at one column: the dash of an entry, a field with or without its value, or a value."""

    column: int
    line: int
    field: str | None = None
    value: YamlNode | None = None

    @property
    def is_dash(self) -> bool:
        return self.field is None and self.value is None


class _OtherYaml(Exception):
    """Nothing wrong: it is written in another way."""


def parse_plain_yaml(text: str) -> YamlNode | None:
    """The tree; None where PyYAML is to read it."""
    try:
        reader = _Reader(text)
        tree = reader.read_block(-1, 1)
    except _OtherYaml:
        return None
    return tree if reader.next is None else None


class _Reader:
    """Puts parts together by their columns."""

    def __init__(self, text: str) -> None:
        self._parts = _split(text)
        self.next = next(self._parts, None)

    def read_block(self, outer: int, depth: int) -> YamlNode:
        """What begins with the next part and is further to the right than `outer`."""
        first = self.next
        if first is None or first.column <= outer or depth > DEEPEST:
            raise _OtherYaml
        if first.is_dash:
            return self._read_entries(first, depth)
        if first.field is None and first.value:
            self._go_on()
            return first.value
        return self._read_fields(first, depth)

    def _read_entries(self, first: _Part, depth: int) -> YamlNode:
        items = []
        while (dash := self.next) and dash.is_dash and dash.column == first.column:
            content = self._go_on()
            if content is None or content.line != dash.line:
                raise _OtherYaml
            items.append(self.read_block(dash.column, depth + 1))
        return YamlNode(SEQUENCE, first.line, items=tuple(items))

    def _read_fields(self, first: _Part, depth: int) -> YamlNode:
        pairs = []
        while (part := self.next) and part.field is not None and part.column == first.column:
            below = self._go_on()
            value = part.value
            if value is None:
                # The dashes of its entries may stand below the field itself.
                outer = part.column - 1 if below and below.is_dash else part.column
                value = self.read_block(outer, depth + 1)
            pairs.append((YamlNode(STRING, part.line, part.field), value))
        return YamlNode(MAPPING, first.line, pairs=tuple(pairs))

    def _go_on(self) -> _Part | None:
        self.next = next(self._parts, None)
        return self.next


def _split(text: str) -> Iterator[_Part]:
    for number, line in enumerate(text.split("\n")):
        if not (line.isascii() and line.isprintable()):
            raise _OtherYaml
        if _EMPTY.fullmatch(line):
            continue
        found = _LINE.fullmatch(line)
        if not found:
            raise _OtherYaml
        before, field = found["before"], found["field"]
        for column, sign in enumerate(before):
            if sign == "-":
                yield _Part(column, number)
        value = _read_value(found, number)
        if _is_special(field) if field else value is None:
            raise _OtherYaml
        yield _Part(len(before), number, field, value)


def _read_value(found: re.Match[str], line: int) -> YamlNode | None:
    quoted = found["single"] if found["double"] is None else found["double"]
    if quoted is not None:
        return YamlNode(STRING, line, quoted)
    if found["number"]:
        return YamlNode(INTEGER, line, found["number"])
    word = found["word"]
    if word in _BOOLEANS:
        return YamlNode(BOOLEAN, line, word)
    if word and _is_special(word):
        raise _OtherYaml
    return YamlNode(STRING, line, word) if word else None


def _is_special(word: str) -> bool:
    return word in _BOOLEANS or word.lower() in _WORDS
