"""HTTP/1.1 as far as container engines speak it: a request's bytes, and an answer that is read as it comes.

`http.client` does the same, and takes longer to import, with all of e-mail and TLS, than `schedctl status` to answer.
What breaks the protocol is a ConnectionError, as a connection that breaks is.
"""

from collections.abc import Iterator, Mapping
from io import BufferedIOBase

_LONGEST_LINE = 64 * 1024
_MOST_HEADERS = 100
_LENGTH_DIGITS = 18
_WITHOUT_BODY = (204, 304)


def format_request(method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """A request's head and body."""
    fields = {"Host": "localhost", "Accept-Encoding": "identity", **headers}
    if body is not None or method != "GET":
        fields["Content-Length"] = str(len(body or b""))
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    if " " in target or not all(line.isascii() and line.isprintable() for line in lines):
        raise ConnectionError(f"{target!r} cannot be asked for")
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


class EngineResponse:
    """An answer: its head has been read, its body is still to come."""

    def __init__(self, stream: BufferedIOBase) -> None:
        self._stream = stream
        self.status = self._read_status()
        self.headers = self._read_headers()  # names in lower case
        while 100 <= self.status < 200:  # something said in between
            self.status = self._read_status()
            self.headers = self._read_headers()
        self._chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        self._begun = False  # a chunk, so that there is an end of one to be read
        self._left = self._parse_length()  # of the body, or of the present chunk; None: until the engine hangs up

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

    def _read_status(self) -> int:
        protocol, _, rest = self._read_line().partition(" ")
        code = rest.partition(" ")[0]
        if not protocol.startswith("HTTP/1.") or len(code) != 3 or not code.isdecimal():
            raise ConnectionError("what it answers is not HTTP")
        return int(code)

    def _read_headers(self) -> Mapping[str, str]:
        headers: dict[str, str] = {}
        for _ in range(_MOST_HEADERS):
            line = self._read_line()
            if not line:
                return headers
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        raise ConnectionError(f"the answer has more than {_MOST_HEADERS} headers")

    def _read_line(self) -> str:
        line = self._stream.readline(_LONGEST_LINE)
        if not line.endswith(b"\n"):
            raise ConnectionError("it hung up" if len(line) < _LONGEST_LINE else "the answer has an endless line")
        return line.rstrip(b"\r\n").decode("latin-1")

    def _parse_length(self) -> int | None:
        if self._chunked or self.status in _WITHOUT_BODY:
            return 0
        said = self.headers.get("content-length")
        if said is None:
            return None
        if not said.isascii() or not said.isdecimal() or len(said) > _LENGTH_DIGITS:
            raise ConnectionError(f"the answer's length is {said[:40]!r}")
        return int(said)

    def _begin_chunk(self) -> None:
        if self._begun and self._read_line():
            raise ConnectionError("a chunk of the answer is longer than it says")
        size = self._read_line().partition(";")[0].strip()
        if not size or any(digit not in "0123456789abcdefABCDEF" for digit in size):
            raise ConnectionError(f"a chunk's length is {size[:40]!r}")
        self._begun, self._left = True, int(size, 16)
        if not self._left:
            self._chunked = False
            self._read_headers()  # those that come behind
