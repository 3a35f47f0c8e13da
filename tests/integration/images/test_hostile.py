"""Servers that are broken, slow or out to harm: each ends in one clear error, and nothing false gets through."""

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedkit.errors import BadDataError, NoAnswerError, NotFoundError, SchedkitError, UnavailableError
from schedkit.images import transport
from schedkit.images.documents import IMAGE_CONFIGS
from schedkit.images.image import Platform
from schedkit.images.oci import OCI_INDEX, OCI_MANIFEST, Descriptor
from schedkit.images.reference import Reference
from schedkit.images.registry import Registry, RegistrySettings

from .pushing import digest_of
from .servers import Answer, Request, Server, serve

AMD64 = Platform("linux", "amd64")
TAGS = "/v2/scx/tags/list"
MANIFEST = "/v2/scx/manifests/v1"
CONFIG = json.dumps({"os": "linux", "architecture": "amd64"}).encode()
BLOB = hashlib.sha256(b"").digest() * 4096
DESCRIPTOR = Descriptor("x/y", digest_of(BLOB), len(BLOB))
BLOB_PATH = f"/v2/scx/blobs/{DESCRIPTOR.digest}"


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as server:
        yield server


@pytest.fixture
def naps() -> list[float]:
    return []


@pytest.fixture
def registry(naps: list[float]) -> Iterator[Registry]:
    registry = Registry(environ={"HOME": "/nonexistent"}, sleep=naps.append)
    yield registry
    registry.close()


def name(server: Server, tag: str | None = "v1", digest: str | None = None) -> Reference:
    return Reference(server.address, "scx", tag, digest)


def describe(data: bytes, media_type: str) -> dict[str, object]:
    return {"mediaType": media_type, "digest": digest_of(data), "size": len(data)}


def serve_image(server: Server, claimed: str = "") -> bytes:
    """A whole small image as scx:v1."""
    document = {"schemaVersion": 2, "config": describe(CONFIG, IMAGE_CONFIGS[0]), "layers": [describe(BLOB, "x/y")]}
    manifest = json.dumps(document).encode()
    server.says(MANIFEST, manifest, Content_Type=OCI_MANIFEST, Docker_Content_Digest=claimed)
    server.says(f"/v2/scx/manifests/{digest_of(manifest)}", manifest, Content_Type=OCI_MANIFEST)
    server.says(f"/v2/scx/blobs/{digest_of(CONFIG)}", CONFIG)
    server.says(BLOB_PATH, BLOB)
    return manifest


def test_the_digest_that_a_header_claims_is_not_believed(server: Server, registry: Registry) -> None:
    manifest = serve_image(server, claimed=f"sha256:{'ab' * 32}")
    assert registry.fetch_image(name(server), AMD64).digest == digest_of(manifest)
    assert registry.fetch_digests(name(server)) == (digest_of(manifest),)


def test_a_manifest_that_is_not_the_one_asked_for_is_refused(server: Server, registry: Registry) -> None:
    wanted = f"sha256:{'ab' * 32}"
    server.says(f"/v2/scx/manifests/{wanted}", b"{}", Docker_Content_Digest=wanted)
    with pytest.raises(BadDataError, match=f"{wanted} was asked for"):
        registry.fetch_image(name(server, None, wanted))


def test_an_index_that_lies_about_its_manifest_is_refused(server: Server, registry: Registry) -> None:
    manifest = serve_image(server)
    entry = describe(manifest, OCI_MANIFEST) | {"platform": {"os": "linux", "architecture": "amd64"}}
    for lie in ({"size": len(manifest) + 1}, {"mediaType": OCI_INDEX}):
        index = json.dumps({"schemaVersion": 2, "manifests": [entry | lie]}).encode()
        server.says("/v2/scx/manifests/v1", index, Content_Type=OCI_INDEX)
        with pytest.raises(BadDataError, match="not of the size or kind"):
            registry.fetch_image(name(server), AMD64)


@pytest.mark.parametrize("body", [b"", b"{", b"null", b"<html>", b'{"schemaVersion": 1}', b"[" * 50_000])
def test_torn_and_foreign_documents_are_bad_data(server: Server, registry: Registry, body: bytes) -> None:
    server.says(MANIFEST, body, Content_Type=OCI_MANIFEST)
    server.says(f"/v2/scx/referrers/{DESCRIPTOR.digest}", body, Content_Type=OCI_INDEX)
    with pytest.raises(BadDataError, match=f"{server.address}/scx:v1"):
        registry.fetch_image(name(server))
    with pytest.raises(BadDataError):
        registry.fetch_referrers(name(server), DESCRIPTOR.digest)
    if body != b'{"schemaVersion": 1}':
        server.says(TAGS, body)
        with pytest.raises(BadDataError):
            registry.fetch_tags(name(server))


def test_a_body_without_end_is_left_at_its_limit(server: Server, registry: Registry) -> None:
    def endless(request: Request) -> None:
        request.begin(200, Content_Type=OCI_MANIFEST, Connection="close")
        while True:
            request.write(b" " * 65536)

    server.answers |= {MANIFEST: endless, TAGS: endless, f"/v2/scx/referrers/{DESCRIPTOR.digest}": endless}
    with pytest.raises(BadDataError, match="more than 4194304 bytes"):
        registry.fetch_image(name(server))
    with pytest.raises(BadDataError, match="more than"):
        registry.fetch_tags(name(server))
    with pytest.raises(BadDataError, match="more than"):
        registry.fetch_referrers(name(server), DESCRIPTOR.digest)


def send_blob(body: bytes, *, length: bool) -> Answer:
    def answer(request: Request) -> None:
        if length:
            request.answer(200, body)
        else:
            request.begin(200, Connection="close")
            request.write(body)
            request.hang_up()

    return answer


@pytest.mark.parametrize("length", [True, False], ids=["with a length", "without"])
@pytest.mark.parametrize(
    ("body", "told"),
    [
        (BLOB[:-1] + b"x", "was asked for and bytes with"),
        (BLOB + b"x", "continues after|sends"),
        (BLOB * 100, "continues after|sends"),
    ],
    ids=["other bytes", "one byte more", "much more"],
)
def test_a_blob_that_is_not_what_was_named_never_comes_whole(
    server: Server, registry: Registry, body: bytes, told: str, length: bool
) -> None:
    server.answers[BLOB_PATH] = send_blob(body, length=length)
    received: list[bytes] = []
    with pytest.raises(BadDataError, match=told):
        received.extend(registry.fetch_blob(name(server), DESCRIPTOR))
    if body[: len(BLOB)] != BLOB:
        assert len(b"".join(received)) < len(BLOB), "the last bytes are given only when all are right"


def test_a_blob_that_always_ends_early_is_given_up(server: Server, registry: Registry) -> None:
    server.answers[BLOB_PATH] = send_blob(BLOB[:1000], length=False)
    with pytest.raises(NoAnswerError, match="broke off"):
        list(registry.fetch_blob(name(server), DESCRIPTOR))
    assert len(server.paths) < 20


def test_a_server_without_ranges_is_read_again_from_the_beginning(server: Server, registry: Registry) -> None:
    def halves(request: Request) -> None:
        request.begin(200, Connection="close")
        request.write(BLOB if len(server.paths) > 2 else BLOB[: 30_000 * len(server.paths)])
        request.hang_up()

    server.answers[BLOB_PATH] = halves
    assert b"".join(registry.fetch_blob(name(server), DESCRIPTOR)) == BLOB
    ranges = [headers.get("range") for path, headers in server.requests if path == BLOB_PATH]
    assert ranges[0] is None
    assert ranges[1] == "bytes=30000-"


def test_another_range_than_the_one_asked_for_is_refused(server: Server, registry: Registry) -> None:
    def wrong(request: Request) -> None:
        if "Range" in request.headers:
            request.answer(206, BLOB[30_000:], Content_Range=f"bytes 0-{len(BLOB)}/{len(BLOB)}")
        else:
            send_blob(BLOB[:30_000], length=False)(request)

    server.answers[BLOB_PATH] = wrong
    with pytest.raises(BadDataError, match="another part"):
        list(registry.fetch_blob(name(server), DESCRIPTOR))


@pytest.mark.parametrize("wrong", [b"x" * len(BLOB), BLOB[:-1] + b"x", BLOB + b"x", BLOB[:-1]])
def test_a_mirrors_wrong_blob_is_had_from_the_registry(server: Server, wrong: bytes) -> None:
    """What was streamed of it cannot be taken back; whoever starts again gets it from elsewhere."""

    def send_wrong(request: Request) -> None:
        request.begin(200)
        request.write(wrong)
        request.hang_up()

    server.says(BLOB_PATH, BLOB)
    with serve() as mirror, serve() as second:
        for one in (mirror, second):
            one.answers[BLOB_PATH] = send_wrong
        settings = RegistrySettings(mirrors={server.address: [mirror.address, second.address]})
        registry = Registry(settings, environ={"HOME": "/nonexistent"}, sleep=lambda _: None)
        assert registry.fetch_bytes(name(server), DESCRIPTOR, 1 << 20) == BLOB
        assert b"".join(registry.fetch_blob(name(server), DESCRIPTOR)) == BLOB
        assert BLOB_PATH in mirror.paths
        registry.close()


def test_a_registrys_wrong_blob_is_final_whatever_its_mirrors_sent(server: Server) -> None:
    with serve() as mirror:
        for one in (server, mirror):
            one.says(BLOB_PATH, b"x" * len(BLOB))
        settings = RegistrySettings(mirrors={server.address: [mirror.address]})
        registry = Registry(settings, environ={"HOME": "/nonexistent"})
        with pytest.raises(BadDataError, match="was asked for"):
            registry.fetch_bytes(name(server), DESCRIPTOR, 1 << 20)
        registry.close()


def test_an_empty_blob_is_one(server: Server, registry: Registry) -> None:
    assert list(registry.fetch_blob(name(server), Descriptor("x/y", digest_of(b""), 0))) == []
    with pytest.raises(BadDataError):
        list(registry.fetch_blob(name(server), Descriptor("x/y", DESCRIPTOR.digest, 0)))


def test_a_redirected_blob_takes_no_login_along(server: Server, tmp_path: Path) -> None:
    with serve() as storage:
        storage.says("/elsewhere", BLOB)

        def redirect(request: Request) -> None:
            if "Authorization" in request.headers:
                request.answer(307, Location=f"http://{storage.address}/elsewhere")
            else:
                request.answer(401, WWW_Authenticate='Basic realm="x"')

        server.answers[BLOB_PATH] = redirect
        file = tmp_path / "auth.json"
        file.write_text(json.dumps({"auths": {server.address: {"username": "me", "password": "hunter2"}}}))
        registry = Registry(environ={"REGISTRY_AUTH_FILE": str(file), "HOME": str(tmp_path)})
        assert b"".join(registry.fetch_blob(name(server), DESCRIPTOR)) == BLOB
        ((path, headers),) = storage.requests
        assert path == "/elsewhere"
        assert "authorization" not in headers
        registry.close()


def test_a_storage_that_asks_for_a_login_gets_none(server: Server, tmp_path: Path) -> None:
    with serve() as storage:
        storage.says("/elsewhere", b"", 401, WWW_Authenticate='Basic realm="x"')
        server.says(BLOB_PATH, b"", 302, Location=f"http://{storage.address}/elsewhere")
        file = tmp_path / "auth.json"
        logins = {address: {"username": "me", "password": "hunter2"} for address in (server.address, storage.address)}
        file.write_text(json.dumps({"auths": logins}))
        registry = Registry(environ={"REGISTRY_AUTH_FILE": str(file), "HOME": str(tmp_path)})
        with pytest.raises(SchedkitError):
            list(registry.fetch_blob(name(server), DESCRIPTOR))
        assert [headers.get("authorization") for _, headers in storage.requests] == [None]
        registry.close()


@pytest.mark.parametrize("challenge", ['Basic realm="x"', 'Bearer realm="http://{address}/token"'])
def test_a_list_that_goes_on_at_another_server_takes_no_login_along(
    server: Server, tmp_path: Path, challenge: str
) -> None:
    """The list is redirected there, so its next page is there too; the login is the registry's alone."""
    listed = json.dumps({"schemaVersion": 2, "manifests": []}).encode()
    path = f"/v2/scx/referrers/{DESCRIPTOR.digest}"
    with serve() as other:

        def redirect(request: Request) -> None:
            if "Authorization" in request.headers:
                request.answer(307, Location=f"http://{other.address}/list")
            else:
                request.answer(401, WWW_Authenticate='Basic realm="x"')

        server.answers[path] = redirect
        other.says("/list", listed, Content_Type=OCI_INDEX, Link='</more>; rel="next"')
        other.says("/more", b"", 401, WWW_Authenticate=challenge.format(address=other.address))
        other.says("/token", b'{"token": "t"}')
        file = tmp_path / "auth.json"
        file.write_text(json.dumps({"auths": {server.address: {"username": "me", "password": "hunter2"}}}))
        registry = Registry(environ={"REGISTRY_AUTH_FILE": str(file), "HOME": str(tmp_path)})
        with pytest.raises(SchedkitError):
            registry.fetch_referrers(name(server), DESCRIPTOR.digest)
        assert [(where, headers.get("authorization")) for where, headers in other.requests] == [
            ("/list", None),
            ("/more", None),
        ]
        registry.close()


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("", "redirects more than 5 times"),
        (BLOB_PATH, "redirects more than 5 times"),
        ("http://storage.example/x", "over plain HTTP"),
        ("file:///etc/passwd", "not a usable URL"),
        ("gopher://storage.example/x", "not a usable URL"),
        ("http://user:secret@127.0.0.1/x", "not a usable URL"),
        ("http://[::1", "not a usable URL"),
        ("http://127.0.0.1:99999/x", "not a usable URL"),
    ],
)
def test_redirects_that_lead_nowhere_good_are_not_followed(
    server: Server, registry: Registry, location: str, told: str
) -> None:
    server.says(BLOB_PATH, b"", 302, Location=location)
    with pytest.raises(BadDataError, match=told):
        list(registry.fetch_blob(name(server), DESCRIPTOR))


def test_pages_of_tags_are_followed(server: Server, registry: Registry) -> None:
    server.says(f"{TAGS}?n=1000", b'{"tags": ["v1"]}', Link=f'<{TAGS}?last=v1>; rel="next"')
    server.says(f"{TAGS}?last=v1", b'{"tags": ["v2"]}', Link=f"<http://{server.address}{TAGS}?last=v2>; rel=next")
    server.says(f"{TAGS}?last=v2", b'{"tags": ["v3"]}')
    assert registry.fetch_tags(name(server)) == ["v3", "v2", "v1"]


def test_pages_that_never_end_are_left(server: Server, registry: Registry) -> None:
    def next_page(request: Request) -> None:
        request.answer(200, b'{"tags": []}', Link=f'<{TAGS}?last={len(server.requests)}>; rel="next"')

    server.answers[TAGS] = next_page
    with pytest.raises(BadDataError, match="does not end"):
        registry.fetch_tags(name(server))
    assert len(server.paths) <= 200


def test_pages_in_a_circle_are_left_at_once(server: Server, registry: Registry) -> None:
    server.says(TAGS, b'{"tags": []}', Link=f'<{TAGS}?n=1000>; rel="next"')
    with pytest.raises(BadDataError, match="does not end"):
        registry.fetch_tags(name(server))
    assert len(server.paths) == 1


def test_a_link_made_to_be_slow_is_read_all_the_same(server: Server, registry: Registry) -> None:
    server.says(TAGS, b'{"tags": ["v1"]}', Link="<" * 60_000)
    assert registry.fetch_tags(name(server)) == ["v1"]


def test_pages_at_another_server_are_not_asked_for(server: Server, registry: Registry) -> None:
    with serve() as other:
        server.says(TAGS, b'{"tags": []}', Link=f'<http://{other.address}{TAGS}>; rel="next"')
        with pytest.raises(BadDataError, match="another server"):
            registry.fetch_tags(name(server))
        assert other.requests == []


def test_too_many_tags_are_refused_rather_than_cut(server: Server, registry: Registry) -> None:
    body = json.dumps({"tags": [f"v{number}" for number in range(30_000)]}).encode()
    server.says(f"{TAGS}?n=1000", body, Link=f'<{TAGS}?last=x>; rel="next"')
    server.says(f"{TAGS}?last=x", body)
    with pytest.raises(BadDataError, match="more than 50000 tags"):
        registry.fetch_tags(name(server))


def test_the_referrers_api_is_used_where_there_is_one(server: Server, registry: Registry) -> None:
    path = f"/v2/scx/referrers/{DESCRIPTOR.digest}"
    entries = [describe(str(number).encode(), OCI_MANIFEST) | {"artifactType": f"a/{number}"} for number in range(2)]
    pages = [json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode() for entry in entries]
    server.says(path, pages[0], Content_Type=OCI_INDEX, Link=f'<{path}?page=2>; rel="next"')
    server.says(f"{path}?page=2", pages[1], Content_Type=OCI_INDEX)
    found = registry.fetch_referrers(name(server), DESCRIPTOR.digest)
    assert [entry.artifact_type for entry in found] == ["a/0", "a/1"]


@pytest.mark.parametrize("status", [400, 404, 405, 406])
def test_referrers_are_looked_for_under_their_tag_where_a_registry_does_not_know_the_api(
    server: Server, registry: Registry, status: int
) -> None:
    server.says(f"/v2/scx/referrers/{DESCRIPTOR.digest}", b"", status)
    assert registry.fetch_referrers(name(server), DESCRIPTOR.digest) == []
    listed = json.dumps({"schemaVersion": 2, "manifests": [describe(b"x", OCI_MANIFEST)]}).encode()
    server.says(f"/v2/scx/manifests/{DESCRIPTOR.digest.replace(':', '-')}", listed, Content_Type=OCI_INDEX)
    assert [one.digest for one in registry.fetch_referrers(name(server), DESCRIPTOR.digest)] == [digest_of(b"x")]


@pytest.mark.parametrize("status", [403, 410, 500])
def test_referrers_that_cannot_be_asked_for_are_not_none(server: Server, registry: Registry, status: int) -> None:
    server.says(f"/v2/scx/referrers/{DESCRIPTOR.digest}", b"", status)
    with pytest.raises(SchedkitError):
        registry.fetch_referrers(name(server), DESCRIPTOR.digest)
    server.answers.clear()
    assert registry.fetch_referrers(name(server), DESCRIPTOR.digest) == []
    server.says(f"/v2/scx/manifests/{DESCRIPTOR.digest.replace(':', '-')}", b"", status)
    with pytest.raises(SchedkitError):
        registry.fetch_referrers(name(server), DESCRIPTOR.digest)


def in_turn(*answers: tuple[int, dict[str, str]]) -> Answer:
    rest = list(answers)

    def answer(request: Request) -> None:
        status, headers = rest.pop(0) if rest else (200, {})
        if status:
            request.answer(status, b'{"tags": ["v1"]}', **headers)
        else:
            request.hang_up()

    return answer


@pytest.mark.parametrize("status", [0, 429, 500, 502, 503, 504], ids=lambda status: status or "reset")
def test_a_passing_failure_is_tried_again(server: Server, registry: Registry, naps: list[float], status: int) -> None:
    server.answers[TAGS] = in_turn((status, {}), (status, {}))
    assert registry.fetch_tags(name(server)) == ["v1"]
    assert naps == [0.5, 1.0]


def test_a_server_says_how_long_to_wait(server: Server, registry: Registry, naps: list[float]) -> None:
    long_ago = "Wed, 21 Oct 2015 07:28:00 GMT"
    server.answers[TAGS] = in_turn((429, {"Retry_After": "7"}), (503, {"Retry_After": long_ago}))
    assert registry.fetch_tags(name(server)) == ["v1"]
    assert naps == [7.0, 0.0]


@pytest.mark.parametrize("words", ["3600", "9" * 400, "Wed, 21 Oct 2115 07:28:00 GMT"])
def test_a_server_that_wants_too_long_a_wait_is_told_of(
    server: Server, registry: Registry, naps: list[float], words: str
) -> None:
    server.says(TAGS, b'{"errors": [{"message": "slow down"}]}', 429, Retry_After=words)
    with pytest.raises(UnavailableError, match="too many requests: slow down") as caught:
        registry.fetch_tags(name(server))
    assert naps == []
    assert caught.value.retry_after is not None
    assert caught.value.retry_after >= 3600 - 1


def test_a_lasting_failure_ends_with_the_servers_words_made_harmless(
    server: Server, registry: Registry, naps: list[float]
) -> None:
    server.says(TAGS, json.dumps({"errors": [{"message": "no\x1b[2J\ndisk " + "x" * 999}]}).encode(), 500)
    with pytest.raises(UnavailableError, match=r"HTTP 500") as caught:
        registry.fetch_tags(name(server))
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 500
    assert len(naps) == 3


def test_a_connection_is_used_again(server: Server, registry: Registry) -> None:
    serve_image(server)
    image = registry.fetch_image(name(server), AMD64)
    assert b"".join(image.fetch_blob(image.layers[0])) == BLOB
    with pytest.raises(NotFoundError):
        registry.fetch_digests(name(server, "v2"))
    registry.fetch_digests(name(server))
    assert server.connections == 1


@pytest.mark.parametrize(
    "junk", [b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 2", b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n"]
)
def test_what_is_not_http_is_an_error_and_no_wait(
    server: Server, registry: Registry, naps: list[float], junk: bytes
) -> None:
    def answer(request: Request) -> None:
        request.write(junk)
        request.hang_up()

    server.answers[TAGS] = answer
    with pytest.raises(SchedkitError, match=server.address):
        registry.fetch_tags(name(server))


def test_a_body_that_only_drips_is_left(server: Server, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    def drip(request: Request) -> None:
        request.begin(200, Content_Length=str(len(BLOB)), Content_Type=OCI_MANIFEST)
        for place in range(len(BLOB)):
            request.write(BLOB[place : place + 1])

    monkeypatch.setattr(transport, "WINDOW_SECONDS", 0.05)
    monkeypatch.setattr(transport, "WINDOW_BYTES", len(BLOB))
    server.answers |= {BLOB_PATH: drip, MANIFEST: drip}
    with pytest.raises(NoAnswerError, match="broke off"):
        registry.fetch_image(name(server))
    with pytest.raises(NoAnswerError, match="broke off"):
        list(registry.fetch_blob(name(server), DESCRIPTOR))


def drip(request: Request) -> None:
    """A whole list of nothing, a byte at a time."""
    body = b" " * 20 + json.dumps({"schemaVersion": 2, "manifests": []}).encode()
    pages = f'<{request.path}x>; rel="next"'
    request.begin(200, Content_Length=str(len(body)), Content_Type=OCI_INDEX, Link=pages)
    for byte in body:
        request.write(bytes([byte]))
        time.sleep(0.02)


def turn_away(request: Request) -> None:
    request.answer(503, Retry_After="15")


def say_nothing(request: Request) -> None:
    time.sleep(3)


@pytest.mark.parametrize("answer", [drip, turn_away, say_nothing])
def test_time_for_all_requests_is_kept_whatever_a_server_does(server: Server, answer: Answer) -> None:
    """Endless pages that drip, long pauses, silence: each within its own limit, and all of them together not."""
    server.says("/v2/", b"")

    def answer_all(request: Request) -> None:
        answer(request)

    class All(dict[str, Answer]):
        def get(self, key: str, default: object = None) -> Answer:
            return super().get(key) or answer_all

    server.answers = All(server.answers)
    registry = Registry(environ={"HOME": "/nonexistent"})
    began = time.monotonic()
    with pytest.raises(NoAnswerError), registry.limit(2.0, "looking"):
        registry.fetch_referrers(name(server), DESCRIPTOR.digest)
    assert time.monotonic() - began < 12  # less than the pause that is asked for
    registry.close()
    with pytest.raises(NoAnswerError, match="looking took more than 0 seconds"), registry.limit(0.0, "looking"):
        registry.fetch_tags(name(server))


def test_silence_is_told_as_such(server: Server) -> None:
    over = threading.Event()
    server.answers[MANIFEST] = lambda _: void(over.wait(30))
    registry = Registry(environ={}, read_seconds=0.2)
    try:
        with pytest.raises(NoAnswerError, match=f"{server.address} accepted the request and sent no response"):
            registry.fetch_image(name(server))
    finally:
        over.set()
        registry.close()


def void(_: object) -> None:
    """An answer that gives none."""
