"""What engines and registries may answer, read as `http.client` reads it; what nobody may answer is an error."""

import io
import socket
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedkit.http1 import Http1Response, NotHttpError, format_request

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
    "a chunk of a size without end": HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n"
    + b"0" * 40
    + b"5\r\nhello\r\n0\r\n\r\n",
    "a length of many digits": HEAD + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\nhello",
    "two lengths": HEAD + b"Content-Length: 5\r\nContent-Length: 4\r\n\r\nhello",
    "an encoding that nobody asked for": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "a header without a colon": HEAD + b"Content-Length 5\r\n\r\nhello",
    "a header with a space in front of its colon": HEAD + b"Content-Length : 5\r\n\r\nhello",
    "a header without a name": HEAD + b": 5\r\n\r\nhello",
    "the rest of a header that is none": HEAD + b" 5\r\nContent-Length: 5\r\n\r\nhello",
    "a header with a name that is none": HEAD + b"X\0Y: 5\r\nContent-Length: 5\r\n\r\nhello",
    "a header with a space in its name": HEAD + b"X Y: 5\r\nContent-Length: 5\r\n\r\nhello",
    "half a line end in a header": HEAD + b"X: y\rContent-Length: 4\r\nContent-Length: 5\r\n\r\nhello",
    "a line that ends twice": HEAD + b"Content-Length: 5\r\r\n\r\nhello",
    "a length behind a space that is none": HEAD + b"Content-Length: \xa05\r\n\r\nhello",
    "an encoding behind a space that is none": HEAD + b"Transfer-Encoding: \x0bchunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "interim responses without end": b"HTTP/1.1 102 Processing\r\n\r\n" * 1000 + HEAD + b"Content-Length: 0\r\n\r\n",
    "a chunk of less than nothing": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
}


class Wire:
    """A socket on which an answer lies ready."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(io.BytesIO(self._content))


def open_answer(content: bytes) -> Http1Response:
    return Http1Response(Wire(content).makefile("rb"))


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


@pytest.mark.parametrize("what", ["nothing", "half a head", "half a body", "half a chunk"])
def test_connection_that_ends_early_is_told_from_a_server_that_breaks_the_protocol(what: str) -> None:
    with pytest.raises(ConnectionError) as caught:
        open_answer(WRONG[what]).read(1000)
    assert not isinstance(caught.value, NotHttpError)
    with pytest.raises(NotHttpError, match="invalid status line '220 mail"):
        open_answer(WRONG["no HTTP"])


def test_headers_of_one_name_are_joined_and_folded_ones_unfolded() -> None:
    answer = open_answer(HEAD + b"A: b\r\nC: d\r\n\te\r\na: f\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello")
    assert (answer.headers["a"], answer.headers["c"]) == ("b, f", "d e")
    assert answer.read(1000) == b"hello"


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        (HEAD + b"Content-Length: 5\r\n\r\nhello", True),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", True),
        (HEAD + b"Connection: x, Close\r\nContent-Length: 5\r\n\r\nhello", False),
        (HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", False),
        (HEAD + b"\r\nhello", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", False),
    ],
)
def test_connection_is_used_again_only_if_all_agree_where_the_response_ends(content: bytes, kept: bool) -> None:
    answer = open_answer(content)
    assert not answer.is_done()
    assert answer.read(1000) == b"hello"
    assert answer.is_done() is kept


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


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_response_without_a_body_has_no_chunks_whatever_it_says(status: bytes) -> None:
    answer = open_answer(b"HTTP/1.1 " + status + b"\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert (answer.read(10), answer.is_done()) == (b"", True)
