"""JSON from untrusted sources: read field by field, each of the type it must have, and nothing twice."""

import base64
import binascii
import json
from collections.abc import Iterator
from typing import Any

LARGEST_NUMBER = 1 << 63
Bytes = bytes  # Fields has a method of that name


class MalformedError(ValueError):
    """It is not what it must be; the text says where."""


class Fields:
    """One object; `where` is its name in complaints."""

    def __init__(self, table: dict[str, Any], where: str) -> None:
        self._table = table
        self._where = where

    def has(self, name: str) -> bool:
        """Whether a field is there and says something."""
        return self._table.get(name) is not None

    def text(self, name: str) -> str:
        value = self._table.get(name)
        if not isinstance(value, str) or not _is_unicode(value):
            raise self._wrong(name, "a text")
        return value

    def number(self, name: str) -> int:
        """Read a number, or a text of digits: that is how protobuf writes the large ones."""
        value = self._table.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < LARGEST_NUMBER:
            raise self._wrong(name, "a number")
        return value

    def bytes(self, name: str) -> Bytes:
        """Read bytes that are written as base64."""
        return decode_base64(self.text(name), f"{self._where}: {name}")

    def hexadecimal(self, name: str) -> "Bytes":
        try:
            return Bytes.fromhex(self.text(name))
        except ValueError as error:
            raise self._wrong(name, "hexadecimal") from error

    def inner(self, name: str) -> "Fields":
        value = self._table.get(name)
        if not isinstance(value, dict):
            raise self._wrong(name, "an object")
        return Fields(value, f"{self._where}: {name}")

    def each(self, name: str, most: int) -> "Iterator[Fields]":
        """The objects of a list; one that is not there is empty."""
        for number, value in enumerate(self._list(name, most)):
            if not isinstance(value, dict):
                raise self._wrong(name, "a list of objects")
            yield Fields(value, f"{self._where}: {name}[{number}]")

    def texts(self, name: str, most: int) -> list[str]:
        values = self._list(name, most)
        if not all(isinstance(value, str) and _is_unicode(value) for value in values):
            raise self._wrong(name, "a list of texts")
        return values

    def _list(self, name: str, most: int) -> list[Any]:
        values = self._table.get(name)
        if values is None:
            return []
        if not isinstance(values, list) or len(values) > most:
            raise self._wrong(name, f"a list of at most {most}")
        return values

    def _wrong(self, name: str, wanted: str) -> MalformedError:
        return MalformedError(f"{self._where}: {name} is missing or not {wanted}")


def parse_object(data: bytes | str, where: str) -> Fields:
    """One JSON object; MalformedError for everything else, and where two readers could see different things."""
    try:
        document = json.loads(data, object_pairs_hook=_unique)
    except MalformedError as error:
        raise MalformedError(f"{where}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"{where} is not JSON, or only a part of it") from error
    if not isinstance(document, dict):
        raise MalformedError(f"{where} is not a JSON object")
    return Fields(document, where)


def decode_base64(text: str, where: str) -> bytes:
    """Strictly: one text, one meaning."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MalformedError(f"{where} is not base64") from error
    if base64.b64encode(data) != text.encode():  # bits behind the last byte, which decoders ignore
        raise MalformedError(f"{where} is not base64")
    return data


def decode_pem(data: bytes, *labels: str) -> bytes | None:
    """The DER in a PEM that is one block with one of these labels; None for any other text."""
    begin, _, rest = data.decode("ascii", "replace").strip().partition("\n")
    text, _, end = rest.rpartition("\n")
    if not any((begin, end) == (f"-----BEGIN {label}-----", f"-----END {label}-----") for label in labels):
        return None
    return decode_base64("".join(text.split()), "what is in the PEM")


def _is_unicode(text: str) -> bool:
    """JSON can write half a surrogate pair, which is not a character and has no bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise MalformedError("a field is there twice")
    return table
