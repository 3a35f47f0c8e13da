"""What engines may answer, read as `http.client` reads it; what nobody may answer is an error."""

import io
import socket
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedkit.runtimes.http1 import EngineResponse, format_request

HEAD = b"HTTP/1.1 200 OK\r\n"
ANSWERS = {
    "with its length": HEAD + b"Content-Length: 5\r\n\r\nhello and more",
    "empty": HEAD + b"Content-Length: 0\r\n\r\n",
    "until it hangs up": HEAD + b"Content-Type: text/plain\r\n\r\nhello\nand more",
    "of HTTP/1.0": b"HTTP/1.0 404 Not Found\r\n\r\nno such container",
    "without a reason": b"HTTP/1.1 500\r\nContent-Length: 2\r\n\r\nno",
    "without a body": b"HTTP/1.1 204 No Content\r\nX-A:  b c\r\nx-d:\r\n\r\n",
    "not modified": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
    "after going on": b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"Content-Length: 2\r\n\r\nok",
    "with bare line ends": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
    "in chunks": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n",
    "in Chunks": HEAD + b"transfer-encoding: Chunked\r\n\r\n00002\r\n\r\n\r\n0\r\nTrailer: x\r\n\r\n",
}
WRONG = {
    "nothing": b"",
    "half a head": HEAD + b"Content-Length: 5\r\n",
    "no HTTP": b"220 mail.example ESMTP\r\n\r\n",
    "HTTP/2": b"HTTP/2 200\r\n\r\n",
    "no status": b"HTTP/1.1 two\r\n\r\n",
    "an endless line": b"HTTP/1.1 200 " + b"o" * 70_000 + b"\r\n\r\n",
    "endless headers": HEAD + b"A: b\r\n" * 101 + b"\r\n",
    "a length that is none": HEAD + b"Content-Length: -5\r\n\r\nhello",
    "half a body": HEAD + b"Content-Length: 5\r\n\r\nhell",
    "half a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhell",
    "no last chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "half an end": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
    "a chunk that is longer": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello, world\r\n0\r\n\r\n",
    "a chunk of no size": HEAD + b"Transfer-Encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n",
    "a chunk of less than nothing": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
}


class Wire:
    """A socket on which an answer lies ready."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(io.BytesIO(self._content))


def open_answer(content: bytes) -> EngineResponse:
    return EngineResponse(Wire(content).makefile("rb"))


@pytest.mark.parametrize("content", ANSWERS.values(), ids=ANSWERS)
def test_answer_is_read_as_the_standard_library_reads_it(content: bytes) -> None:
    answer = open_answer(content)
    known = HTTPResponse(cast("socket.socket", Wire(content)))
    known.begin()
    assert answer.status == known.status
    assert answer.headers == {name.lower(): value for name, value in known.getheaders()}
    assert answer.read(1000) == known.read()
    assert answer.read1(1000) == b""


@pytest.mark.parametrize("content", WRONG.values(), ids=WRONG)
def test_answer_that_breaks_the_protocol_is_a_broken_connection(content: bytes) -> None:
    with pytest.raises(ConnectionError):
        open_answer(content).read(1000)


@given(chunks=st.lists(st.binary(min_size=1, max_size=40)), most=st.integers(1, 50))
def test_chunks_are_put_together_whatever_is_asked_for_at_a_time(chunks: list[bytes], most: int) -> None:
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in [*chunks, b""])
    content = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body
    answer = open_answer(content)
    pieces = []
    while piece := answer.read1(most):
        pieces.append(piece)
    assert b"".join(pieces) == b"".join(chunks)
    assert all(len(piece) <= most for piece in pieces)
    assert list(open_answer(content)) == b"".join(chunks).removesuffix(b"\n").split(b"\n") or not b"".join(chunks)


@pytest.mark.parametrize(
    ("method", "body", "length"),
    [("GET", None, None), ("POST", None, "0"), ("POST", b"{}", "2"), ("DELETE", None, "0")],
)
def test_request_is_one_that_a_server_understands(method: str, body: bytes | None, length: str | None) -> None:
    class Server(BaseHTTPRequestHandler):
        def __init__(self) -> None:
            self.rfile = io.BytesIO(format_request(method, "/v1.44/_ping?a=b", {"X-Registry-Auth": "e30="}, body))
            self.raw_requestline = self.rfile.readline()
            assert self.parse_request()

    server = Server()
    assert (server.command, server.path, server.request_version) == (method, "/v1.44/_ping?a=b", "HTTP/1.1")
    assert (server.headers["Host"], server.headers["X-Registry-Auth"]) == ("localhost", "e30=")
    assert server.headers["Content-Length"] == length
    assert server.rfile.read() == (body or b"")


@pytest.mark.parametrize("target", ["/a b", "/a\r\nX-B: c", "/ä", "/a\0"])
def test_request_for_what_cannot_be_written_is_refused(target: str) -> None:
    with pytest.raises(ConnectionError):
        format_request("GET", target, {}, None)
    with pytest.raises(ConnectionError):
        format_request("GET", "/", {"X-A": f"{target}\n"}, None)
