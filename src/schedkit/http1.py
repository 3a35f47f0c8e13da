"""HTTP/1.1 as container engines and registries speak it: a request's bytes, and a response that is read as it comes.

`http.client` does the same, and takes longer to import, with all of e-mail and TLS, than `schedctl status` to answer.
Where that one guesses what a server meant, this one is strict: a response that can be read in two ways is an error.
"""

from collections.abc import Iterator, Mapping
from io import BufferedIOBase

_LONGEST_LINE = 64 * 1024
_MOST_HEADERS = 100
_MOST_INTERIM = 20  # responses before the one that counts
_LENGTH_DIGITS = 18
_WITHOUT_BODY = (204, 304)
_SPACE = " \t"
_NOT_IN_NAMES = frozenset('"(),/:;<=>?@[\\]{} ')


class NotHttpError(ConnectionError):
    """The server spoke, and broke the protocol: asking again will not help."""


def format_request(method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """A request's head and body."""
    fields = {"Host": "localhost", "Accept-Encoding": "identity", **headers}
    if body is not None or method not in ("GET", "CONNECT"):
        fields["Content-Length"] = str(len(body or b""))
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    if " " in target or not all(line.isascii() and line.isprintable() for line in lines):
        raise ConnectionError(f"{target!r} cannot be asked for")
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


class Http1Response:
    """A response: its head has been read, its body is still to come. What breaks off is a ConnectionError."""

    def __init__(self, stream: BufferedIOBase) -> None:
        self._stream = stream
        for _ in range(_MOST_INTERIM + 1):
            version, self.status = self._read_status()
            self.headers = self._read_headers()  # names in lower case; values of the same name joined by commas
            if not 100 <= self.status < 200:
                break
        else:
            raise NotHttpError(f"more than {_MOST_INTERIM} interim responses")
        self._chunked = self.status not in _WITHOUT_BODY and self._parse_encoding()
        self._begun = False  # a chunk, so that there is an end of one to be read
        self._left = self._parse_length()  # of the body, or of the present chunk; None: until the server hangs up
        words = self.headers.get("connection", "").lower().split(",")
        self._kept = version == "HTTP/1.1" and "close" not in (word.strip() for word in words)
        if self._chunked and "content-length" in self.headers:
            self._kept = False  # whoever sends both may mean to smuggle a response in

    def is_done(self) -> bool:
        """Whether the body has been read to its end, and another request may be sent on the same connection."""
        return self._kept and self._left == 0 and not self._chunked

    def read1(self, most: int) -> bytes:
        """What is there, at most so much; waits for something to be there. Nothing is the end."""
        if self._chunked and self._left == 0:
            self._begin_chunk()
        if self._left == 0:
            return b""
        piece = self._stream.read1(most if self._left is None else min(most, self._left))
        if self._left is not None:
            if not piece:
                raise ConnectionError("the response is incomplete")
            self._left -= len(piece)
        return piece

    def read(self, count: int) -> bytes:
        """So much, or all there is until the end."""
        content = b""
        while len(content) < count and (piece := self.read1(count - len(content))):
            content += piece
        return content

    def __iter__(self) -> Iterator[bytes]:
        """Line by line, as they come."""
        begun = b""
        while piece := self.read1(_LONGEST_LINE):
            *lines, begun = (begun + piece).split(b"\n")
            yield from lines
        if begun:
            yield begun

    def _read_status(self) -> tuple[str, int]:
        line = self._read_line()
        version, _, rest = line.partition(" ")
        code = rest.partition(" ")[0]
        if not version.startswith("HTTP/1.") or len(code) != 3 or not (code.isascii() and code.isdecimal()):
            raise NotHttpError(f"invalid status line {line[:80]!r}")
        return version, int(code)

    def _read_headers(self) -> Mapping[str, str]:
        headers: dict[str, str] = {}
        last = ""
        for _ in range(_MOST_HEADERS + 1):
            line = self._read_line()
            if not line:
                return headers
            if line[0] in " \t" and last:  # the rest of the value before
                headers[last] = f"{headers[last]} {line.strip(_SPACE)}".strip(_SPACE)
                continue
            name, colon, value = line.partition(":")
            if not colon or not name or not (name.isascii() and name.isprintable()) or _NOT_IN_NAMES & set(name):
                raise NotHttpError(f"invalid header {line[:80]!r}")
            last, value = name.lower(), value.strip(_SPACE)
            headers[last] = f"{headers[last]}, {value}" if last in headers else value
        raise NotHttpError(f"more than {_MOST_HEADERS} headers")

    def _read_line(self) -> str:
        line = self._stream.readline(_LONGEST_LINE)
        if not line.endswith(b"\n"):
            if len(line) < _LONGEST_LINE:
                raise ConnectionError("the connection was closed without a response")
            raise NotHttpError(f"a line of more than {_LONGEST_LINE} bytes")
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        if b"\r" in line or b"\0" in line:  # which some take for the end of a line
            raise NotHttpError(f"control characters in {line[:80]!r}")
        return line.decode("latin-1")

    def _parse_encoding(self) -> bool:
        """Whether the body comes in chunks."""
        said = self.headers.get("transfer-encoding")
        if said is not None and said.lower() not in ("chunked", "identity"):
            raise NotHttpError(f"unsupported Transfer-Encoding {said[:40]!r}")
        return said is not None and said.lower() == "chunked"

    def _parse_length(self) -> int | None:
        if self._chunked or self.status in _WITHOUT_BODY:
            return 0
        said = self.headers.get("content-length")
        if said is None:
            return None
        length, *others = said.split(", ")  # the same one twice is allowed
        digits = length.isascii() and length.isdecimal() and len(length) <= _LENGTH_DIGITS
        if not digits or any(other != length for other in others):
            raise NotHttpError(f"invalid Content-Length {said[:40]!r}")
        return int(length)

    def _begin_chunk(self) -> None:
        if self._begun and self._read_line():
            raise NotHttpError("a chunk is longer than it says")
        size = self._read_line().partition(";")[0].strip(_SPACE)
        if not 0 < len(size) <= _LENGTH_DIGITS or any(digit not in "0123456789abcdefABCDEF" for digit in size):
            raise NotHttpError(f"invalid chunk size {size[:40]!r}")
        self._begun, self._left = True, int(size, 16)
        if not self._left:
            self._read_headers()  # those that come behind
            self._chunked = False
