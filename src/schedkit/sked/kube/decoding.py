"""From the API server's bytes to structs."""

from collections.abc import Iterator
from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from schedkit.sked.kube.errors import UnexpectedAnswerError
from schedkit.sked.kube.objects import ListMeta, Model

Answer = TypeVar("Answer")
# An object is 1.5 MB at most in etcd, and JSON is wordier; a line that never ends is no object.
LONGEST_LINE = 32 << 20


class Page(Model, frozen=True):
    """One part of a list, each item still to be decoded."""

    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


class WatchEvent(Model, frozen=True):
    """One line of a watch, its object still to be decoded."""

    type: str
    object: msgspec.Raw


def decode(body: bytes | msgspec.Raw, type: type[Answer]) -> Answer:
    """A struct from the API server's words."""
    try:
        answer: Answer = _decoder(cast(Any, type)).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        name = getattr(type, "__name__", str(type))
        raise UnexpectedAnswerError(f"the API server's answer is not the expected {name}: {error}") from error
    return answer


@cache
def _decoder(type: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type)  # making one costs more than using it


class LineSplitter:
    """Cuts a stream into lines, however its bytes arrive."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._parts: list[bytes] = []  # of a line whose end has not come
        self._size = 0

    @property
    def holds_part(self) -> bool:
        """Whether a line has begun whose end has not come."""
        return bool(self._parts)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that this chunk completes, without their ends; empty ones are left out."""
        first, *rest = chunk.split(b"\n")
        self._keep(first)
        for part in rest:
            line = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
            self._keep(part)
            if line:
                yield line

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._longest:
            raise UnexpectedAnswerError(f"the API server sent a line of more than {self._longest} bytes")
        if part:
            self._parts.append(part)
