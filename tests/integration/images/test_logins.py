"""Registries that want to know who asks: real ones with passwords, with tokens, and with certificates of their own."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab import images
from lab.pki import Pair, make_authority, make_certificate
from lab.store import Store
from schedkit.errors import BadDataError, NoPermissionError, UnavailableError
from schedkit.images.image import Platform
from schedkit.images.oci import Credentials
from schedkit.images.reference import Reference, parse_reference
from schedkit.images.registry import Registry, RegistrySettings

from .pushing import digest_of
from .servers import Request, TokenServer, serve

AMD64 = Platform("linux", "amd64")
USER, SECRET = "lab", "secret"
HTPASSWD = "lab:$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n"
BASIC = {"auth": {"htpasswd": {"realm": "lab", "path": "/config/htpasswd"}}}


@pytest.fixture(scope="module")
def storage(store: Store) -> Path:
    store.ensure(images.IMAGES)
    return store.path(images.IMAGES) / "registry"


@pytest.fixture(scope="module")
def authority() -> Pair:
    return make_authority("lab")


@pytest.fixture(scope="module")
def basic(store: Store, storage: Path) -> Iterator[str]:
    with images.Registry(store, storage, settings=BASIC, files={"htpasswd": HTPASSWD}) as registry:
        yield registry.address


@contextmanager
def token_registry(store: Store, storage: Path, tokens: TokenServer) -> Iterator[str]:
    tokens.server.answers["/token"] = tokens.answer
    files = {"token.crt": tokens.authority.certificate}
    with images.Registry(store, storage, settings=tokens.settings, files=files) as registry:
        yield registry.address


@pytest.fixture
def tokens(authority: Pair) -> Iterator[TokenServer]:
    with serve() as server:
        yield TokenServer(server, authority, make_certificate(authority, "signer", hosts=["signer"]))


@contextmanager
def tls_registry(store: Store, storage: Path, pair: Pair) -> Iterator[str]:
    tls = {"http": {"tls": {"certificate": "/config/tls.crt", "key": "/config/tls.key"}}}
    with images.Registry(store, storage, settings=tls, files={"tls.crt": pair.certificate, "tls.key": pair.key}) as it:
        yield it.address


def login(folder: Path, address: str, user: str = USER, secret: str = SECRET) -> dict[str, str]:
    """An environment in which the user has logged in."""
    file = folder / "auth.json"
    entry = {"auth": base64.b64encode(f"{user}:{secret}".encode()).decode()}
    file.write_text(json.dumps({"auths": {address: entry}}))
    return {"REGISTRY_AUTH_FILE": str(file), "HOME": str(folder)}


@pytest.fixture
def anonymous(tmp_path: Path) -> dict[str, str]:
    return {"REGISTRY_AUTH_FILE": str(tmp_path / "none.json"), "HOME": str(tmp_path)}


def name(address: str, rest: str = "scx_fifo:v1") -> Reference:
    return parse_reference(f"{address}/{rest}")


def pull(registry: Registry, reference: Reference) -> None:
    image = registry.fetch_image(reference, AMD64)
    for layer in image.layers:
        assert digest_of(b"".join(image.fetch_blob(layer))) == layer.digest


def test_a_password_opens_a_registry_that_wants_one(basic: str, tmp_path: Path) -> None:
    registry = Registry(environ=login(tmp_path, basic))
    pull(registry, name(basic))
    assert registry.fetch_tags(name(basic)) == ["v2", "v1"]
    assert registry.fetch_referrers(name(basic), f"sha256:{'ab' * 32}") == []
    image = registry.fetch_image(name(basic), AMD64)
    assert image.sources[0].credentials == Credentials(USER, SECRET)
    assert SECRET not in repr(image)
    registry.close()


def test_without_a_password_one_is_told_how_to_log_in(basic: str, anonymous: dict[str, str]) -> None:
    registry = Registry(environ=anonymous)
    with pytest.raises(NoPermissionError) as caught:
        pull(registry, name(basic))
    assert f"{basic}/scx_fifo:v1" in caught.value.message
    assert f"podman login {basic}" in caught.value.hint
    for ask in (registry.fetch_tags, registry.fetch_digests):
        with pytest.raises(NoPermissionError):
            ask(name(basic))
    # Nobody knows whether there is anything: that is not the same as nothing.
    with pytest.raises(NoPermissionError):
        registry.fetch_referrers(name(basic), f"sha256:{'ab' * 32}")
    registry.close()


def test_a_wrong_password_is_refused_without_being_shown(basic: str, tmp_path: Path) -> None:
    registry = Registry(environ=login(tmp_path, basic, secret="hunter2"))
    with pytest.raises(NoPermissionError, match="refuses the login of lab") as caught:
        pull(registry, name(basic))
    assert "hunter2" not in f"{caught.value.message} {caught.value.hint}"
    registry.close()


def test_a_file_that_could_not_be_read_is_told_of_in_a_refusal(basic: str, anonymous: dict[str, str]) -> None:
    file = Path(anonymous["REGISTRY_AUTH_FILE"])
    file.write_text("{torn")
    registry = Registry(environ=anonymous)
    with pytest.raises(NoPermissionError) as caught:
        pull(registry, name(basic))
    assert f"{file} is not a file of credentials" in caught.value.hint
    registry.close()


def test_a_token_is_fetched_once_for_a_repository(
    store: Store, storage: Path, tokens: TokenServer, anonymous: dict[str, str]
) -> None:
    with token_registry(store, storage, tokens) as address:
        registry = Registry(environ=anonymous)
        pull(registry, name(address))
        pull(registry, name(address))
        assert tokens.scopes == ["repository:scx_fifo:pull"]
        pull(registry, name(address, "scx_rusty:latest"))
        assert tokens.scopes == ["repository:scx_fifo:pull", "repository:scx_rusty:pull"]
        registry.close()


def test_a_token_is_given_for_a_login(store: Store, storage: Path, tokens: TokenServer, tmp_path: Path) -> None:
    tokens.login = (USER, SECRET)
    with token_registry(store, storage, tokens) as address:
        registry = Registry(environ=login(tmp_path, address))
        pull(registry, name(address))
        registry.close()

        stranger = Registry(environ=login(tmp_path, address, secret="other"))
        with pytest.raises(NoPermissionError, match="refuses the login of lab: who are you") as caught:
            pull(stranger, name(address))
        assert f"podman login {address}" in caught.value.hint
        stranger.close()


def test_a_token_that_the_registry_does_not_believe_is_refused(
    store: Store, storage: Path, tokens: TokenServer, anonymous: dict[str, str]
) -> None:
    with token_registry(store, storage, tokens) as address:
        tokens.issuer = "somebody-else"
        registry = Registry(environ=anonymous)
        with pytest.raises(NoPermissionError, match="scx_fifo"):
            pull(registry, name(address))
        registry.close()


def test_a_private_authority_is_trusted_when_named(
    store: Store, storage: Path, authority: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ca.crt"
    file.write_text(authority.certificate)
    with tls_registry(store, storage, make_certificate(authority, "registry", hosts=["127.0.0.1"])) as address:
        named = Registry(RegistrySettings(ca_file=str(file)), environ={})
        pull(named, name(address))
        assert not named.fetch_image(name(address), AMD64).sources[0].insecure
        named.close()

        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        from_environment = Registry(environ={})
        pull(from_environment, name(address))
        from_environment.close()


def test_an_unknown_authority_is_refused_even_on_loopback(store: Store, storage: Path, authority: Pair) -> None:
    with tls_registry(store, storage, make_certificate(authority, "registry", hosts=["127.0.0.1"])) as address:
        registry = Registry(environ={})
        with pytest.raises(UnavailableError, match="not trusted") as caught:
            pull(registry, name(address))
        assert f"certs.d/{address}/ca.crt" in caught.value.hint
        registry.close()

        allowed = Registry(RegistrySettings(insecure=frozenset({address})), environ={})
        pull(allowed, name(address))
        assert allowed.fetch_image(name(address), AMD64).sources[0].insecure
        allowed.close()


def test_a_certificate_for_another_name_is_refused(
    store: Store, storage: Path, authority: Pair, tmp_path: Path
) -> None:
    file = tmp_path / "ca.crt"
    file.write_text(authority.certificate)
    with tls_registry(store, storage, make_certificate(authority, "registry", hosts=["other.example"])) as address:
        registry = Registry(RegistrySettings(ca_file=str(file)), environ={})
        with pytest.raises(UnavailableError, match="not trusted"):
            pull(registry, name(address))
        registry.close()


def test_an_authority_beside_podmans_certificates_is_trusted(
    store: Store, storage: Path, authority: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tls_registry(store, storage, make_certificate(authority, "registry", hosts=["127.0.0.1"])) as address:
        (tmp_path / address).mkdir()
        (tmp_path / address / "ca.crt").write_text(authority.certificate)
        monkeypatch.setattr("schedkit.images.connections.CERTIFICATE_FOLDERS", (tmp_path,))
        registry = Registry(environ={})
        pull(registry, name(address))
        registry.close()


def test_an_expired_token_is_replaced(anonymous: dict[str, str]) -> None:
    with serve() as server:
        given: list[str] = []

        def token(request: Request) -> None:
            given.append(f"token-{len(given)}")
            request.answer(200, json.dumps({"access_token": given[-1]}).encode())

        def tags(request: Request) -> None:
            if request.headers.get("Authorization") != f"Bearer token-{len(given) - 1}" or expired:
                expired.clear()
                challenge = f'Bearer realm="http://{server.address}/token",service="s"'
                request.answer(401, b"{}", WWW_Authenticate=challenge)
            else:
                request.answer(200, b'{"tags": ["v1"]}')

        expired: list[bool] = []
        server.answers |= {"/token": token, "/v2/scx/tags/list": tags}
        registry = Registry(environ=anonymous)
        assert registry.fetch_tags(name(server.address, "scx")) == ["v1"]
        expired.append(True)
        assert registry.fetch_tags(name(server.address, "scx")) == ["v1"]
        assert given == ["token-0", "token-1"]
        registry.close()


def test_an_identity_token_is_exchanged_in_a_body_and_not_in_a_url(tmp_path: Path) -> None:
    with serve() as server:
        challenge = f'Bearer realm="http://{server.address}/token",service="s"'
        server.says("/v2/scx/tags/list", b"{}", 401, WWW_Authenticate=challenge)
        server.says("/token", b'{"access_token": "t"}')
        file = tmp_path / "auth.json"
        file.write_text(json.dumps({"auths": {server.address: {"identitytoken": "hunter2"}}}))
        registry = Registry(environ={"REGISTRY_AUTH_FILE": str(file), "HOME": str(tmp_path)})
        with pytest.raises(NoPermissionError, match="identity token"):
            registry.fetch_tags(name(server.address, "scx"))
        ((path, headers),) = [request for request in server.requests if request[0].startswith("/token")]
        assert path == "/token"
        assert "refresh_token=hunter2" in headers["body"]
        assert "grant_type=refresh_token" in headers["body"]
        registry.close()


@pytest.mark.parametrize(
    "realm", ["", "file:///etc/passwd", "http://auth.example/token", "https://u:p@auth.example/", "http://[::1"]
)
def test_a_realm_that_is_no_place_for_secrets_gets_none(basic: str, tmp_path: Path, realm: str) -> None:
    with serve() as server:
        server.says("/v2/scx/tags/list", b"{}", 401, WWW_Authenticate=f'Bearer realm="{realm}"')
        registry = Registry(environ=login(tmp_path, server.address))
        with pytest.raises(BadDataError, match="points to" if realm else "names no token server"):
            registry.fetch_tags(name(server.address, "scx"))
        registry.close()


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"token": 7}', b'{"token": "a\\r\\nX-Evil: 1"}', b"{" * 100_000])
def test_what_is_no_token_is_refused(tmp_path: Path, body: bytes) -> None:
    with serve() as server:
        challenge = f'Bearer realm="http://{server.address}/token"'
        server.says("/v2/scx/tags/list", b"{}", 401, WWW_Authenticate=challenge)
        server.says("/token", body)
        registry = Registry(environ={"HOME": str(tmp_path)})
        with pytest.raises(BadDataError):
            registry.fetch_tags(name(server.address, "scx"))
        registry.close()


def test_a_token_server_that_redirects_does_not_get_the_password_sent_on(tmp_path: Path) -> None:
    with serve() as server, serve() as thief:
        challenge = f'Bearer realm="http://{server.address}/token"'
        server.says("/v2/scx/tags/list", b"{}", 401, WWW_Authenticate=challenge)
        server.says("/token", b"", 307, Location=f"http://{thief.address}/token")
        registry = Registry(environ=login(tmp_path, server.address))
        with pytest.raises(BadDataError, match="redirect"):
            registry.fetch_tags(name(server.address, "scx"))
        assert thief.requests == []
        registry.close()
