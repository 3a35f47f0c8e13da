"""Health, metrics and certificates as a caller sees them; integration tests ask a real API server who may."""

import asyncio
import os
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from schedkit.errors import UnavailableError, UsageError
from schedkit.sked.kube import certificates
from schedkit.sked.kube.addresses import Address, parse_address
from schedkit.sked.kube.authorization import Gate
from schedkit.sked.kube.certificates import (
    CertificateFiles,
    ServingCertificate,
    make_self_signed,
    make_self_signed_context,
)
from schedkit.sked.kube.credentials import CertificatePair
from schedkit.sked.kube.errors import ConfigError
from schedkit.sked.kube.metrics import MetricsRegistry
from schedkit.sked.kube.serve import Server, make_health_application, make_metrics_application
from tests.unit.sked_kube.tools import fake_client, status

HERE = Address("127.0.0.1", 0)


async def ask(url: str, **settings: object) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url, **settings) as response:  # type: ignore[arg-type]
        return response.status, await response.text()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":8081", Address("", 8081)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("[::1]:8443", Address("::1", 8443)),
        ("0", None),
        ("", None),
    ],
)
def test_addresses_are_written_as_for_the_original(text: str, address: Address | None) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["8081", ":http", ":99999", "host:"])
def test_other_addresses_are_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="not an address"):
        parse_address(text)


async def test_health_is_ok_until_a_check_complains_and_says_which() -> None:
    trouble = {"synced": "", "lease": ""}
    checks = {name: lambda name=name: trouble[name] for name in trouble}
    application = make_health_application(live={}, ready=checks)
    async with Server("health", application, HERE) as server:
        base = f"http://127.0.0.1:{server.port}"
        assert await ask(f"{base}/healthz") == (200, "ok")
        assert await ask(f"{base}/readyz") == (200, "ok")
        trouble["synced"] = "nodes not synced"
        failed = "[-]synced failed: nodes not synced\n[+]lease ok\nreadyz check failed\n"
        assert await ask(f"{base}/readyz") == (500, failed)
        assert await ask(f"{base}/readyz/lease") == (200, "ok")
        assert (await ask(f"{base}/readyz/synced"))[0] == 500
        assert (await ask(f"{base}/readyz/nothing"))[0] == 404
        trouble["synced"] = ""
        verbose = "[+]synced ok\n[+]lease ok\nreadyz check passed\n"
        assert await ask(f"{base}/readyz?verbose") == (200, verbose)
        assert (await ask(f"{base}/metrics"))[0] == 404


async def test_metrics_without_a_gate_are_for_everyone() -> None:
    registry = MetricsRegistry()
    registry.counter("things_total", "Things.").of().increase()
    async with Server("metrics", make_metrics_application(registry, None), HERE) as server:
        code, text = await ask(f"http://127.0.0.1:{server.port}/metrics")
        assert (code, text) == (200, registry.render().decode())


async def test_empty_host_is_every_address() -> None:
    application = make_health_application(live={}, ready={})
    async with Server("health", application, Address("", 0)) as server:
        assert await ask(f"http://127.0.0.1:{server.port}/healthz") == (200, "ok")


async def test_taken_port_is_an_error_with_its_number() -> None:
    with socket.socket() as thief:
        thief.bind(("127.0.0.1", 0))
        thief.listen()
        port = thief.getsockname()[1]
        with pytest.raises(UnavailableError, match=f"cannot serve health on 127.0.0.1:{port}"):
            await Server("health", make_health_application(live={}, ready={}), Address("127.0.0.1", port)).__aenter__()


async def test_gate_asks_once_a_while_and_is_shut_when_nobody_answers() -> None:
    asked: list[str] = []
    broken = False

    async def api(request: web.Request) -> web.Response:
        asked.append(request.path.rpartition("/")[2])
        if broken:
            return status(500)
        body = await request.json()
        if "token" in body["spec"]:
            good = body["spec"]["token"] in ("reader", "other")
            user = {"username": body["spec"]["token"], "groups": ["g"], "extra": {"k": ["v"]}}
            return web.json_response({"status": {"authenticated": good, "user": user}})
        assert body["spec"]["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}
        assert (body["spec"]["groups"], body["spec"]["extra"]) == (["g"], {"k": ["v"]})
        return web.json_response({"status": {"allowed": body["spec"]["user"] == "reader"}})

    now = 0.0
    async with fake_client(api) as client:
        application = make_metrics_application(MetricsRegistry(), Gate(client, clock=lambda: now))
        async with Server("metrics", application, HERE) as server:
            url = f"http://127.0.0.1:{server.port}/metrics"

            async def code(token: str | None) -> int:
                return (await ask(url, headers={"Authorization": f"Bearer {token}"} if token else {}))[0]

            assert await code(None) == 401
            assert asked == []
            assert [await code(token) for token in ("reader", "other", "stranger")] == [200, 403, 401]
            assert asked == ["tokenreviews", "subjectaccessreviews"] * 2 + ["tokenreviews"]
            asked.clear()
            assert [await code(token) for token in ("reader", "other", "stranger")] == [200, 403, 401]
            assert asked == []
            now = 11.0
            assert await code("other") == 403
            assert asked == ["tokenreviews", "subjectaccessreviews"]
            now, broken = 100.0, True
            assert await code("reader") == 503


async def test_tls_connections_have_small_buffers() -> None:
    application = make_metrics_application(MetricsRegistry(), None)
    async with Server("metrics", application, HERE, make_self_signed_context("sked")) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
        buffer = writer.transport._ssl_protocol._ssl_buffer  # type: ignore[attr-defined]  # asyncio's own affair
        assert len(buffer) == 16 << 10
        writer.transport.abort()


async def served_certificate(port: int) -> bytes:
    """What a new connection is shown. By address, as a scraper does: there is no name for the server to go by."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    assert isinstance(shown, bytes)
    return shown


async def test_own_certificate_is_served_over_tls() -> None:
    context = make_self_signed_context("sked")
    async with Server("metrics", make_metrics_application(MetricsRegistry(), None), HERE, context) as server:
        assert await ask(f"https://127.0.0.1:{server.port}/metrics", ssl=False) == (200, "")


def test_making_the_own_certificate_leaves_nothing_in_memory() -> None:
    code = """
import gc, os, sys
from schedkit.sked.kube.certificates import make_self_signed_context
context = make_self_signed_context("sked")
assert not [name for name in sys.modules if name.startswith("cryptography")], "the library stayed"
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print(len(os.listdir("/proc/self/fd")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "4\n", done.stderr  # the three, and that of the folder: no pipe, and no child unburied


@pytest.mark.parametrize("why", ["other threads", "a child that fails"])
async def test_without_a_child_the_own_certificate_is_made_all_the_same(
    monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    here, made = os.getpid(), []

    def make(name: str) -> CertificatePair:
        if os.getpid() != here:
            raise OSError("killed")
        made.append(make_self_signed(name))
        return made[-1]

    monkeypatch.setattr(certificates, "make_self_signed", make)
    if why == "other threads":
        monkeypatch.setattr(threading, "active_count", lambda: 2)
        monkeypatch.setattr(os, "fork", None)  # their locks would never be opened in a child
    else:
        monkeypatch.setattr(threading, "active_count", lambda: 1)

    context = make_self_signed_context("sked")
    (pair,) = made
    async with Server("metrics", make_metrics_application(MetricsRegistry(), None), HERE, context) as server:
        assert await served_certificate(server.port) == ssl.PEM_cert_to_DER_cert(pair.certificate.decode())


def test_own_certificate_that_cannot_be_made_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setattr(certificates, "make_self_signed", None)  # the child fails, and so does the second attempt
    with pytest.raises(TypeError):
        make_self_signed_context("sked")


async def test_methods_that_change_things_are_refused() -> None:
    health = make_health_application(live={}, ready={})
    metrics = make_metrics_application(MetricsRegistry(), None)
    async with (
        Server("health", health, HERE) as first,
        Server("metrics", metrics, HERE) as second,
        aiohttp.ClientSession() as session,
    ):
        for port, path, method, code in (
            (first.port, "healthz", "POST", 405),
            (first.port, "healthz", "HEAD", 200),
            (second.port, "metrics", "HEAD", 405),
            (second.port, "metrics", "DELETE", 405),
        ):
            async with session.request(method, f"http://127.0.0.1:{port}/{path}") as response:
                assert response.status == code


async def test_rotated_certificate_is_served_to_the_next_caller_and_a_torn_one_to_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = make_self_signed("first"), make_self_signed("second")
    files = CertificateFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
    files.certificate.write_bytes(first.certificate)
    files.key.write_bytes(first.key)
    serving = ServingCertificate(files)
    async with Server("metrics", make_metrics_application(MetricsRegistry(), None), HERE, serving.context) as server:
        before = await served_certificate(server.port)
        assert before == ssl.PEM_cert_to_DER_cert(first.certificate.decode())
        files.certificate.write_bytes(second.certificate)
        assert await served_certificate(server.port) == before
        assert "certificate not reloaded" in caplog.text
        files.key.write_bytes(second.key)
        after = await served_certificate(server.port)
        assert after == ssl.PEM_cert_to_DER_cert(second.certificate.decode())


def test_certificate_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tls\.crt cannot be read"):
        ServingCertificate(CertificateFiles(tmp_path / "tls.crt", tmp_path / "tls.key"))
