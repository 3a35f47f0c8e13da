"""Exchanges over TLS on loopback with servers that answer anything; tests/integration/sked_agent has a real one."""

import base64
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.pki import make_authority, make_certificate
from schedkit.errors import UnavailableError
from schedkit.sked.agent import api
from schedkit.sked.agent.api import (
    ApiServer,
    ReportNotWrittenError,
    StoredReport,
    fetch_report,
    find_api_server,
    read_node_uid,
    write_report,
)
from tests.unit.sked_kube.test_tls import make_plain_authority

STATUS = {"slot": {"state": "disabled"}}


def make_token(claims: object) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"aGVhZA.{payload}.c2ln"


TOKEN = make_token({"kubernetes.io": {"node": {"name": "a", "uid": "uid-1"}}})


class Script:
    """A TLS server that answers each connection with the next of some answers, and keeps what it was asked."""

    def __init__(self, folder: Path) -> None:
        authority = make_authority("kubernetes")
        pair = make_certificate(authority, "kube-apiserver", hosts=["127.0.0.1"])
        (folder / "ca.crt").write_text(authority.certificate)
        (folder / "token").write_text(f"{TOKEN}\n")
        (folder / "pair.pem").write_text(pair.certificate + pair.key)
        self.folder = folder
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: list[bytes | Callable[[ssl.SSLSocket], None]] = []
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / "pair.pem")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.server = ApiServer("127.0.0.1", self._listener.getsockname()[1], folder)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def choose(self) -> "bytes | Callable[[ssl.SSLSocket], None]":
        """The answer to the last question."""
        return self.answers.pop(0)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            try:
                with self._context.wrap_socket(connection, server_side=True) as secure:
                    secure.settimeout(10)
                    self._answer(secure)
            except OSError:
                connection.close()

    def _answer(self, secure: ssl.SSLSocket) -> None:
        received = b""
        while b"\r\n\r\n" not in received:
            received += secure.recv(65536)
        head, _, body = received.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        while len(body) < int(headers.get("content-length", 0)):
            body += secure.recv(65536)
        self.asked.append((first.removesuffix(" HTTP/1.1"), headers, body))
        answer = self.choose()
        if isinstance(answer, bytes):
            secure.sendall(answer)
        else:
            answer(secure)


def answer(code: int, body: object, *headers: str) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {code} Said", f"Content-Length: {len(content)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + content


MISSING = answer(404, {"kind": "Status", "message": 'schedextnodes "a" not found'})


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    script = Script(tmp_path)
    yield script
    script.close()


def test_report_is_read_with_what_says_whose_it_is(script: Script) -> None:
    for owners, is_owned in (([{"uid": "uid-1"}], True), ([{"uid": "uid-0"}], False), ("x", False), (None, False)):
        script.answers.append(answer(200, {"metadata": {"ownerReferences": owners}, "status": STATUS}))
        assert fetch_report(script.server, "a") == StoredReport(STATUS, is_owned)
    first, headers, _ = script.asked[0]
    assert first == "GET /apis/sked.schedkit.io/v1/schedextnodes/a"
    assert headers["authorization"] == f"Bearer {TOKEN}"
    script.answers.append(MISSING)
    assert fetch_report(script.server, "a") is None


def test_status_is_one_forced_apply_of_the_agent(script: Script) -> None:
    script.answers.append(answer(200, {}))
    write_report(script.server, "a", STATUS, create=False)
    ((first, headers, body),) = script.asked
    assert first == "PATCH /apis/sked.schedkit.io/v1/schedextnodes/a/status?fieldManager=sked-agent&force=true"
    assert headers["content-type"] == "application/apply-patch+yaml"
    assert json.loads(body) == {
        "apiVersion": "sked.schedkit.io/v1",
        "kind": "SchedExtNode",
        "metadata": {"name": "a"},
        "status": STATUS,
    }


def test_missing_report_is_created_with_its_node_as_owner(script: Script) -> None:
    script.answers += [MISSING, answer(201, {}), answer(200, {})]
    write_report(script.server, "a", STATUS, create=False)
    assert [first.partition("?")[0].rsplit("/", 1)[1] for first, _, _ in script.asked] == ["status", "a", "status"]
    metadata = json.loads(script.asked[1][2])["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "uid-1"}
    assert metadata == {"name": "a", "ownerReferences": [owner]}


def test_token_is_read_again_for_each_exchange(script: Script) -> None:
    script.answers += [answer(200, {}), answer(200, {})]
    fetch_report(script.server, "a")
    rotated = make_token({"kubernetes.io": {}})
    (script.folder / "token").write_text(rotated)
    assert fetch_report(script.server, "a") == StoredReport({}, is_owned=True)  # whose it should be is not known
    assert [headers["authorization"] for _, headers, _ in script.asked] == [f"Bearer {TOKEN}", f"Bearer {rotated}"]


def drip(secure: ssl.SSLSocket) -> None:
    secure.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        secure.sendall(b"X-A: b\r\n")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (answer(403, {"message": "you may not"}), "you may not (403)"),
        (answer(403, {"message": "a\x1b[31mb\n" + "c" * 5000}), "a\ufffd[31mb\ufffdccc"),
        (answer(404, b"404 page not found"), "the cluster has no SchedExtNode"),
        (answer(500, b"<html>"), "not an answer of an API server (500)"),
        (answer(200, b"<html>"), "not an answer of an API server (200)"),
        (answer(200, b"[" * 100_000), "not an answer of an API server (200)"),
        (answer(200, b'"text"'), "not an answer of an API server (200)"),
        (answer(200, b"a" * 2_000_000), "not an answer of an API server (200)"),
        (answer(302, {}, "Location: https://example.com/"), "(302)"),
        (answer(500, {"message": ["x"]}), "not an answer of an API server (500)"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", ""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", ""),
        (b"not HTTP\r\n\r\n", ""),
        (b"HTTP/1.1 " + b"9" * 100_000, ""),
        (b"", ""),
        (drip, ""),
    ],
    ids=range(16),
)
def test_any_answer_becomes_one_bounded_error(
    script: Script, said: bytes | Callable[[ssl.SSLSocket], None], told: str
) -> None:
    script.answers.append(said)
    with pytest.raises(ReportNotWrittenError) as caught:
        fetch_report(script.server, "a")
    assert told in caught.value.message
    assert len(caught.value.message) < 500
    assert caught.value.message.isprintable()
    assert TOKEN not in caught.value.message


def test_retry_after_is_taken_up_to_a_limit(script: Script) -> None:
    for header, seconds in (("7", 7.0), ("99999", 300.0), ("-1", 0.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0)):
        script.answers.append(answer(429, {"message": "busy"}, f"Retry-After: {header}"))
        with pytest.raises(ReportNotWrittenError) as caught:
            write_report(script.server, "a", STATUS, create=False)
        assert caught.value.retry_after == seconds


def test_silence_ends(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "WAIT_SECONDS", 0.2)
    over = threading.Event()

    def wait(_secure: ssl.SSLSocket) -> None:
        over.wait(10)

    script.answers.append(wait)
    with pytest.raises(ReportNotWrittenError, match="timed out"):
        fetch_report(script.server, "a")
    over.set()


def test_server_of_another_authority_gets_no_token(script: Script) -> None:
    (script.folder / "ca.crt").write_text(make_authority("other").certificate)
    with pytest.raises(ReportNotWrittenError, match="certificate verify failed"):
        fetch_report(script.server, "a")
    assert script.asked == []


def test_authority_without_key_identifiers_is_taken(tmp_path: Path) -> None:
    authority, pair = make_plain_authority()
    script = Script(tmp_path)
    script.close()
    (tmp_path / "pair.pem").write_bytes(pair.certificate + pair.key)
    (tmp_path / "ca.crt").write_bytes(authority)
    context = api._make_context(script.server)
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"two words", b"a\r\nInjected: b"])
def test_token_that_is_none_is_told_and_not_sent(script: Script, content: bytes) -> None:
    (script.folder / "token").write_bytes(content)
    with pytest.raises(ReportNotWrittenError, match="not a token"):
        fetch_report(script.server, "a")


def test_missing_files_are_named(script: Script) -> None:
    (script.folder / "ca.crt").write_text("not a certificate")
    with pytest.raises(ReportNotWrittenError, match=r"ca\.crt"):
        fetch_report(script.server, "a")
    (script.folder / "token").unlink()
    with pytest.raises(ReportNotWrittenError, match="token: No such file or directory"):
        fetch_report(script.server, "a")


@pytest.mark.parametrize(
    "token",
    ["", "a", "a.b.c", make_token([]), make_token({"kubernetes.io": {"node": {"uid": 7}}}), make_token({}), "a.\xff.c"],
)
def test_token_without_a_node_names_none(token: str) -> None:
    assert read_node_uid(token) == ""


def test_api_server_is_where_the_pod_is_told() -> None:
    found = find_api_server({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"})
    assert (found.host, found.port) == ("fd00::1", 6443)
    for environment in ({}, {"KUBERNETES_SERVICE_HOST": "a", "KUBERNETES_SERVICE_PORT": "tcp://1"}):
        with pytest.raises(UnavailableError, match="name no API server"):
            find_api_server(environment)
