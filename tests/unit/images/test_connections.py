"""Which hosts are asked through a proxy, and which may be plain."""

import base64
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from schedkit.errors import BadDataError, NotFoundError, UsageError
from schedkit.images.connections import Connections
from schedkit.images.failures import FailedRequestError
from schedkit.images.proxies import find_proxy
from schedkit.images.settings import RegistrySettings, is_loopback
from schedkit.images.transport import Transport

PROXY = "http://proxy.example:3128"


@pytest.mark.parametrize(
    ("authority", "environ", "proxy"),
    [
        ("ghcr.io", {}, None),
        ("ghcr.io", {"HTTPS_PROXY": PROXY}, PROXY),
        ("ghcr.io", {"https_proxy": PROXY, "HTTPS_PROXY": "http://other.example"}, PROXY),
        ("ghcr.io", {"HTTP_PROXY": PROXY}, None),
        ("ghcr.io", {"ALL_PROXY": "proxy.example:3128"}, PROXY),
        ("ghcr.io", {"HTTPS_PROXY": PROXY, "NO_PROXY": "ghcr.io"}, None),
        ("ghcr.io", {"HTTPS_PROXY": PROXY, "no_proxy": "example.com, .io"}, None),
        ("a.ghcr.io:5000", {"HTTPS_PROXY": PROXY, "NO_PROXY": "ghcr.io"}, None),
        ("a.ghcr.io:5000", {"HTTPS_PROXY": PROXY, "NO_PROXY": "a.ghcr.io:5000"}, None),
        ("a.ghcr.io:5000", {"HTTPS_PROXY": PROXY, "NO_PROXY": "*.ghcr.io"}, None),
        ("notghcr.io", {"HTTPS_PROXY": PROXY, "NO_PROXY": "ghcr.io"}, PROXY),
        ("ghcr.io", {"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}, None),
        ("10.1.2.3:5000", {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8"}, None),
        ("11.1.2.3:5000", {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8"}, PROXY),
        ("localhost:5000", {"HTTPS_PROXY": PROXY}, None),
        ("[::1]:5000", {"HTTPS_PROXY": PROXY}, None),
    ],
)
def test_proxies_are_taken_from_the_environment(authority: str, environ: dict[str, str], proxy: str | None) -> None:
    assert find_proxy("https", authority, environ) == proxy


@pytest.mark.parametrize(
    "authority", ["localhost", "LOCALHOST:5000", "127.0.0.1:5000", "127.9.9.9", "[::1]", "[::1]:5000"]
)
def test_this_machine_may_be_plain(authority: str) -> None:
    assert is_loopback(authority)
    assert RegistrySettings().may_be_plain(authority)


@pytest.mark.parametrize("authority", ["ghcr.io", "localhost.example", "128.0.0.1", "127.0.0.1.example", "[::2]:5000"])
def test_others_may_not_unless_the_user_says_so(authority: str) -> None:
    assert not RegistrySettings().may_be_plain(authority)
    assert RegistrySettings(insecure=frozenset({authority})).may_be_plain(authority)


def test_an_allowance_is_for_one_port_only() -> None:
    assert not RegistrySettings(insecure=frozenset({"host.example:5000"})).may_be_plain("host.example:5001")


def test_a_file_of_authorities_that_is_not_there_or_is_none_is_an_error(tmp_path: Path) -> None:
    missing, torn = tmp_path / "missing.crt", tmp_path / "torn.crt"
    torn.write_text("-----BEGIN CERTIFICATE-----\n")
    with pytest.raises(NotFoundError, match=r"missing\.crt"):
        Connections(RegistrySettings(ca_file=str(missing)), {}).find_route("https", "ghcr.io")
    with pytest.raises(BadDataError, match=r"torn\.crt"):
        Connections(RegistrySettings(ca_file=str(torn)), {}).find_route("https", "ghcr.io")


@pytest.mark.parametrize(
    "proxy",
    [
        "http://user:pa[ss@proxy.example:3128",
        "http://user:pa]ss@proxy.example:3128",
        "http://proxy.example:99999",
        "http://user:secret@",
        "socks5://user:secret@proxy.example",
        "socks5://user:secret@proxy.example:1080",
        "http://user:secret\udcff@proxy.example",
    ],
)
def test_proxy_that_makes_no_sense_is_told_without_its_password(proxy: str) -> None:
    with pytest.raises(UsageError, match=r"the proxy for ghcr\.io") as caught:
        Connections(RegistrySettings(), {"HTTPS_PROXY": proxy}).find_route("https", "ghcr.io")
    assert "HTTPS_PROXY" in caught.value.hint
    assert "secret" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(("written", "password"), [("hunter%202", "hunter 2"), ("%E2%82%AC", "€")])
def test_the_login_in_a_proxys_url_is_sent_to_the_proxy(scheme: str, written: str, password: str) -> None:
    """With CONNECT for TLS, with the request itself for plain HTTP."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                heard.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 502 no\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        proxy = f"http://me:{written}@127.0.0.1:{listener.getsockname()[1]}"
        transport = Transport(RegistrySettings(), environ={f"{scheme}_proxy": proxy})
        with suppress(FailedRequestError):
            transport.send(f"{scheme}://registry.example/v2/", {}).close()
        thread.join()
        transport.close()
    login = base64.b64encode(f"me:{password}".encode())
    assert b"proxy-authorization: basic " + login.lower() in heard[0].lower()
    assert b"Basic " + login in heard[0]
