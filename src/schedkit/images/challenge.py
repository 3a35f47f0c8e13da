"""WWW-Authenticate: what a server wants before it answers."""

import re
from collections.abc import Mapping
from typing import NamedTuple

LONGEST = 8192
_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PARAMETER = re.compile(rf'\s*,?\s*({_WORD})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')
_SCHEME = re.compile(rf"\s*,?\s*({_WORD})(?=\s|,|$)")


class Challenge(NamedTuple):
    """One way that the server offers."""

    scheme: str  # lower case
    parameters: Mapping[str, str]  # names in lower case


def parse_challenges(header: str) -> list[Challenge]:
    """All challenges of a header (several joined by commas are one), in order, up to what cannot be read."""
    text = header[:LONGEST]
    found: list[Challenge] = []
    position = 0
    while scheme := _SCHEME.match(text, position):
        position = scheme.end()
        parameters: dict[str, str] = {}
        while parameter := _PARAMETER.match(text, position):
            position = parameter.end()
            name, quoted, plain = parameter.groups()
            parameters[name.lower()] = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else plain
        found.append(Challenge(scheme[1].lower(), parameters))
    return found
