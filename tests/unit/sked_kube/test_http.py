"""The small HTTP server, spoken to byte by byte: what it takes, what it refuses, and that nothing ends it."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from schedkit.sked.kube import http
from schedkit.sked.kube.certificates import make_self_signed_context
from schedkit.sked.kube.http import BadRequestError, HttpResponse, Listener, Request, parse_head

LONG = b"".join(b"%d\n" % number for number in range(http.PIECE))


async def echo(request: Request) -> HttpResponse:
    if request.path == "/broken":
        raise RuntimeError("a bug")
    if request.path == "/long":
        return HttpResponse(body=bytearray(LONG))
    return HttpResponse(
        body=f"{request.method} {request.path}?{request.query} {request.headers.get('authorization')}\n"
    )


@asynccontextmanager
async def listening(tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        async with Listener(echo, server, tls):
            yield server.getsockname()[1]


async def say(port: int, *parts: bytes) -> str:
    """Send something in parts and read until the other side ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for part in parts:
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(0.01)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer.decode()


def test_head_is_understood_however_its_names_are_written() -> None:
    head = b"GET /metrics?a=%20 HTTP/1.1\r\nHOST: x\r\nauthorization:Bearer a:b \r\n\r\n"
    assert parse_head(head) == Request("GET", "/metrics", "a=%20", {"host": "x", "authorization": "Bearer a:b"})
    assert parse_head(b"GET http://proxied:80/healthz HTTP/1.0\r\n\r\n").path == "/healthz"


@pytest.mark.parametrize(
    "head",
    [
        b"\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"GET / x HTTP/1.1\r\n\r\n",
        b"GET * HTTP/1.1\r\n\r\n",
        b"GET healthz HTTP/1.1\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nAuthorization : folded\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused(head: bytes) -> None:
    with pytest.raises(BadRequestError):
        parse_head(head)


async def test_question_in_pieces_has_one_answer_and_the_connection_ends() -> None:
    async with listening() as port:
        answer = await say(port, b"GET /a?b HT", b"TP/1.1\r\nAuthorization: x\r", b"\n\r\nGET /again HTTP/1.1\r\n\r\n")
        head, body = answer.split("\r\n\r\n")
        assert body == "GET /a?b x\n"
        assert head.splitlines() == [
            "HTTP/1.1 200 OK",
            "Content-Type: text/plain; charset=utf-8",
            f"Content-Length: {len(body)}",
            "Connection: close",
        ]
        told, nothing = (await say(port, b"HEAD /a HTTP/1.1\r\n\r\n")).split("\r\n\r\n")
        assert (nothing, "Content-Length: 14" in told) == ("", True)


async def test_long_answer_arrives_whole_though_it_is_sent_in_pieces() -> None:
    assert max(map(len, HttpResponse(body=bytearray(LONG)).encode())) == http.PIECE
    async with listening() as port:
        head, body = (await say(port, b"GET /long HTTP/1.1\r\n\r\n")).split("\r\n\r\n")
        assert (body.encode() == LONG, f"Content-Length: {len(LONG)}" in head) == (True, True)


async def test_bad_questions_and_bugs_are_answered_and_the_next_one_is_too(caplog: pytest.LogCaptureFixture) -> None:
    async with listening() as port:
        assert (await say(port, b"nonsense\r\n\r\n")).startswith("HTTP/1.1 400 ")
        long = b"GET / HTTP/1.1\r\nX: " + b"x" * http.LONGEST_HEAD
        assert (await say(port, long)).startswith("HTTP/1.1 431 ")
        assert (await say(port, b"GET /broken HTTP/1.1\r\n\r\n")).startswith("HTTP/1.1 500 ")
        assert "a bug" in caplog.text
        _, gone = await asyncio.open_connection("127.0.0.1", port)
        gone.write(b"GET ")
        gone.transport.abort()
        assert (await say(port, b"GET /a HTTP/1.0\r\n\r\n")).startswith("HTTP/1.1 200 ")


async def test_who_says_nothing_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "PATIENCE_SECONDS", 0.05)
    async with listening() as port:
        assert await say(port, b"GET / HTTP/1.1\r\n") == ""


async def test_end_cuts_off_those_who_are_still_talking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "FAREWELL_SECONDS", 0.05)
    async with listening() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET ")
        await asyncio.sleep(0.05)  # until it is heard
    assert await reader.read() == b""
    writer.close()


async def test_no_more_than_so_many_are_heard_at_once_and_the_others_after_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "MOST_CONNECTIONS", 2)
    async with listening() as port:
        talking = [(await asyncio.open_connection("127.0.0.1", port))[1] for _ in range(2)]
        third = asyncio.ensure_future(say(port, b"GET /a HTTP/1.1\r\n\r\n"))
        await asyncio.sleep(0.1)
        assert not third.done()
        talking[0].transport.abort()
        assert (await asyncio.wait_for(third, 5)).startswith("HTTP/1.1 200 ")
        talking[1].transport.abort()


async def test_handshake_that_does_not_come_is_hung_up_on_and_counts_as_a_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "MOST_CONNECTIONS", 1)
    monkeypatch.setattr(http, "HANDSHAKE_SECONDS", 0.3)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with asyncio.timeout(20), listening(make_self_signed_context("sked")) as port:
        silent_reader, silent = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.sleep(0.05)  # until it is heard
        second = asyncio.ensure_future(asyncio.open_connection("127.0.0.1", port, ssl=context))
        await asyncio.sleep(0.1)
        assert not second.done()
        assert await silent_reader.read() == b""
        silent.close()
        reader, writer = await second
        writer.write(b"GET /a HTTP/1.1\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        writer.close()


async def test_listener_goes_on_when_there_are_no_file_descriptors_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(http, "ACCEPT_AGAIN_SECONDS", 0.01)
    loop = asyncio.get_running_loop()
    accept, failures = loop.sock_accept, [OSError(24, "Too many open files")] * 3

    async def fail_first(listening: socket.socket) -> object:
        if failures:
            raise failures.pop()
        return await accept(listening)

    monkeypatch.setattr(loop, "sock_accept", fail_first)
    async with listening() as port:
        assert (await say(port, b"GET /a HTTP/1.1\r\n\r\n")).startswith("HTTP/1.1 200 ")
    assert caplog.text.count("cannot accept a connection") == 3
