"""Connections that are kept, and TLS through proxies: against servers that are there, on this machine."""

import gc
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from lab.pki import Pair, make_authority, make_certificate
from schedkit.errors import UnavailableError
from schedkit.images.settings import RegistrySettings
from schedkit.images.transport import Transport

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
HOST = "registry.example"
Serve = Callable[[socket.socket], None]


@contextmanager
def serving(serve: Serve) -> Iterator[tuple[int, list[socket.socket]]]:
    """A server on loopback: its port, and the connections it got."""
    got: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            serve(connection)

    def accept(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                got.append(listener.accept()[0])
                threads.append(threading.Thread(target=answer, args=(got[-1],)))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=accept, args=(listener,))
        accepting.start()
        try:
            yield listener.getsockname()[1], got
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for connection in got:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()


def answering(answer: bytes) -> Serve:
    def serve(connection: socket.socket) -> None:
        while connection.recv(65536):
            connection.sendall(answer)

    return serve


@pytest.fixture
def transport() -> Iterator[Transport]:
    transport = Transport(RegistrySettings(), environ={})
    yield transport
    transport.close()


@pytest.mark.parametrize(
    ("answer", "connections"),
    [
        (OK, 1),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 1),
        (b"HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nok", 1),
        (OK + OK.replace(b"ok", b"no"), 3),
    ],
    ids=["a length", "chunks", "not found", "more than was asked for"],
)
def test_connection_is_used_again_unless_there_is_more_on_it(
    transport: Transport, answer: bytes, connections: int
) -> None:
    with serving(answering(answer)) as (port, got):
        for _ in range(3):
            assert transport.fetch(f"http://127.0.0.1:{port}/v2/", about="it", limit=10).body == b"ok"
        assert len(got) == connections


def test_connection_whose_answer_was_not_read_is_not_used_again(transport: Transport) -> None:
    with serving(answering(OK)) as (port, got):
        for _ in range(2):
            transport.open(f"http://127.0.0.1:{port}/v2/", about="it").close()
        assert len(got) == 2


def test_connection_that_the_server_ended_is_not_used_again(transport: Transport) -> None:
    ended = threading.Event()

    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(OK)
        connection.shutdown(socket.SHUT_RDWR)
        ended.set()

    with serving(serve) as (port, got):
        for number in range(2):
            assert transport.fetch(f"http://127.0.0.1:{port}/", about="it", limit=10).body == b"ok"
            assert ended.wait(10)
            ended.clear()
            assert len(got) == number + 1


def test_international_name_and_odd_letters_are_sent_encoded(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        heard.append(connection.recv(65536))
        connection.sendall(OK)

    with serving(serve) as (port, _):
        there = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: there)
        transport.fetch(f"http://bücher.example:{port}/a b/ü%20?q=<x>#part", about="it", limit=10)
    head = heard[0].decode().split("\r\n")
    assert head[0] == "GET /a%20b/%C3%BC%20?q=%3Cx%3E HTTP/1.1"
    assert f"Host: xn--bcher-kva.example:{port}" in head


@pytest.fixture(scope="module")
def authority() -> Pair:
    return make_authority("test")


@pytest.fixture(scope="module")
def trusted(authority: Pair, tmp_path_factory: pytest.TempPathFactory) -> RegistrySettings:
    file = tmp_path_factory.mktemp("authority") / "ca.crt"
    file.write_text(authority.certificate)
    return RegistrySettings(ca_file=str(file))


def secured(serve: Serve, authority: Pair, host: str, folder: Path) -> Serve:
    """The same over TLS, with a certificate for that host."""
    pair = make_certificate(authority, "server", hosts=[host])
    (folder / f"{host}.pem").write_text(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / f"{host}.pem")

    def serve_securely(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as inner:
            serve(inner)

    return serve_securely


def tunnelling(port: int, heard: list[str]) -> Serve:
    """A proxy that connects to this one server, whatever is asked for."""

    def pump(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(65536):
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)

    def serve(connection: socket.socket) -> None:
        heard.append(connection.recv(65536).decode())
        connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
        with socket.create_connection(("127.0.0.1", port)) as there:
            back = threading.Thread(target=pump, args=(there, connection))
            back.start()
            pump(connection, there)
            back.join()

    return serve


BIG = b"x" * 1_000_000


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_registry_is_asked_over_tls_through_a_proxy_with_or_without_tls(
    scheme: str, authority: Pair, trusted: RegistrySettings, tmp_path: Path
) -> None:
    heard: list[str] = []
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(BIG), BIG)
    with serving(secured(answering(answer), authority, HOST, tmp_path)) as (port, got):
        tunnel = tunnelling(port, heard)
        proxied = secured(tunnel, authority, "127.0.0.1", tmp_path) if scheme == "https" else tunnel
        with serving(proxied) as (proxy, _):
            environ = {"HTTPS_PROXY": f"{scheme}://me:secret@127.0.0.1:{proxy}"}
            transport = Transport(trusted, environ=environ)
            for _ in range(2):
                assert transport.fetch(f"https://{HOST}/v2/", about="it", limit=len(BIG)).body == BIG
            transport.close()
        assert len(got) == 1
    (asked,) = heard
    assert asked.startswith(f"CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}:443\r\n")
    assert "Proxy-Authorization: Basic " in asked


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_certificate_for_another_host_is_refused_behind_a_proxy_too(
    scheme: str, authority: Pair, trusted: RegistrySettings, tmp_path: Path
) -> None:
    with serving(secured(answering(OK), authority, "other.example", tmp_path)) as (port, _):
        tunnel = tunnelling(port, [])
        proxied = secured(tunnel, authority, "127.0.0.1", tmp_path) if scheme == "https" else tunnel
        with serving(proxied) as (proxy, _):
            transport = Transport(trusted, environ={"HTTPS_PROXY": f"{scheme}://127.0.0.1:{proxy}"})
            with pytest.raises(UnavailableError, match=f"the certificate of {HOST} is not trusted: Hostname mismatch"):
                transport.fetch(f"https://{HOST}/v2/", about="it", limit=10)
            transport.close()


def test_proxy_whose_certificate_is_not_trusted_is_not_asked(authority: Pair, tmp_path: Path) -> None:
    heard: list[str] = []
    with serving(secured(tunnelling(1, heard), authority, "127.0.0.1", tmp_path)) as (proxy, _):
        transport = Transport(RegistrySettings(), environ={"HTTPS_PROXY": f"https://me:secret@127.0.0.1:{proxy}"})
        with pytest.raises(UnavailableError, match=f"the proxy for {HOST} failed: .*certificate verify failed"):
            transport.fetch(f"https://{HOST}/v2/", about="it", limit=10)
        transport.close()
    assert heard == []


def test_proxy_that_refuses_is_told_of() -> None:
    with serving(answering(b"HTTP/1.1 407 Who are you?\r\nContent-Length: 0\r\n\r\n")) as (proxy, _):
        transport = Transport(RegistrySettings(), environ={"HTTPS_PROXY": f"http://127.0.0.1:{proxy}"})
        with pytest.raises(UnavailableError, match=f"the proxy for {HOST} failed: it answers with HTTP 407"):
            transport.fetch(f"https://{HOST}/v2/", about="it", limit=10)
        transport.close()


def test_client_that_nobody_closed_leaves_no_connection_open() -> None:
    ended = threading.Event()

    def serve(connection: socket.socket) -> None:
        answering(OK)(connection)
        ended.set()

    with serving(serve) as (port, _):
        transport = Transport(RegistrySettings(), environ={})
        transport.fetch(f"http://127.0.0.1:{port}/", about="it", limit=10)
        cycle: list[object] = [transport]
        cycle.append(cycle)
        del transport, cycle
        gc.collect()  # an open socket among it would be a warning, and so an error here
        assert ended.wait(10)
