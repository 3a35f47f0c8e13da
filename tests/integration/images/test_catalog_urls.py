"""Catalogs behind URLs: fetched once, kept, refreshed by ETag, and never replaced by something bad."""

import json
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

from schedkit.errors import BadDataError, NotFoundError, SchedkitError, UnavailableError, UsageError
from schedkit.images import catalog as catalogs
from schedkit.images import transport
from schedkit.images.catalog import load_catalog
from schedkit.images.catalog_remote import FetchSignature, pin
from schedkit.images.settings import RegistrySettings

from .servers import Request, Server, make_tls, serve


def catalog(**images: str) -> bytes:
    return json.dumps({name: {"imageURI": image} for name, image in images.items()}).encode()


GOOD = catalog(own="example.com/own:v1", scx_rusty="example.com/rusty")
NEWER = catalog(own="example.com/own:v2")


def refuse(_content: bytes, _fetch_signature: FetchSignature) -> None:
    raise BadDataError("it is refused")


update_catalogs = partial(catalogs.update_catalogs, check_signature=refuse)


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as server:
        yield server


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "FIRST_PAUSE", 0.0)


def url(server: Server, path: str = "/catalog.json") -> str:
    return f"http://{server.address}{path}"


def test_a_url_is_fetched_at_its_first_use_and_then_kept(server: Server, tmp_path: Path) -> None:
    server.says("/catalog.json", GOOD)
    for _ in range(3):
        found = load_catalog([url(server)], tmp_path)
        assert str(found.find("own")) == "example.com/own:v1"
        assert found.entries["scx_rusty"].origin == url(server)
        assert found.warnings == ()
    assert len(server.requests) == 1


def test_a_kept_copy_needs_no_server(tmp_path: Path) -> None:
    with serve() as server:
        server.says("/catalog.json", GOOD)
        load_catalog([url(server)], tmp_path)
    found = load_catalog([url(server)], tmp_path)
    assert "own" in found.entries
    assert found.warnings == ()


def test_an_update_asks_whether_anything_changed_and_tells_what(server: Server, tmp_path: Path) -> None:
    def answer(request: Request) -> None:
        if request.headers.get("If-None-Match") == current[0]:
            request.answer(304, ETag=current[0])
        else:
            request.answer(200, current[1], ETag=current[0])

    current: tuple[str, bytes] = ('"one"', GOOD)
    server.answers["/catalog.json"] = answer
    assert update_catalogs([url(server)], tmp_path) == [f"the catalog {url(server)}: new: own, scx_rusty"]
    assert update_catalogs([url(server)], tmp_path) == [f"the catalog {url(server)}: unchanged"]
    assert server.requests[-1][1]["if-none-match"] == '"one"'
    current = ('"two"', catalog(own="example.com/own:v2", more="example.com/more"))
    assert update_catalogs([url(server)], tmp_path) == [
        f"the catalog {url(server)}: new: more; changed: own; gone: scx_rusty"
    ]
    assert str(load_catalog([url(server)], tmp_path).find("own")) == "example.com/own:v2"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, GOOD[:-3]),
        (200, b""),
        (200, b"<html>log in to our wireless network</html>"),
        (200, b'{"own": {"imageURI": "example.com/OWN"}}'),
        (200, b" " * (1 << 20) + GOOD),
        (404, b"gone"),
        (403, b"no"),
        (500, b"failure"),
        (304, b""),
    ],
)
def test_a_bad_answer_is_refused_and_the_last_good_copy_stays(
    server: Server, tmp_path: Path, status: int, body: bytes
) -> None:
    server.says("/catalog.json", GOOD)  # without an ETag, so that 304 makes no sense
    update_catalogs([url(server)], tmp_path)
    kept = {file: file.read_bytes() for file in tmp_path.rglob("*.json")}
    server.says("/catalog.json", body, status)
    if status != 304:
        with pytest.raises(SchedkitError, match="its last good copy stays"):
            update_catalogs([url(server)], tmp_path)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.json")} == kept
    assert "own" in load_catalog([url(server)], tmp_path).entries


def test_one_bad_source_does_not_keep_others_from_being_updated(server: Server, tmp_path: Path) -> None:
    server.says("/bad.json", b"{")
    server.says("/good.json", GOOD)
    with pytest.raises(BadDataError, match="new: own, scx_rusty"):
        update_catalogs([url(server, "/bad.json"), url(server, "/good.json"), "file.json"], tmp_path)
    assert "own" in load_catalog([url(server, "/good.json")], tmp_path, offline=True).entries


def test_a_source_that_was_never_fetched_and_cannot_be_is_left_out_with_a_warning(tmp_path: Path) -> None:
    with serve() as ended:
        gone = url(ended)
    found = load_catalog([gone], tmp_path)
    assert "scx_rusty" in found.entries
    assert len(found.warnings) == 1
    assert gone in found.warnings[0]
    assert "Connection refused" in found.warnings[0]
    with pytest.raises(UnavailableError, match="no earlier copy"):
        update_catalogs([gone], tmp_path)


def test_offline_nothing_is_asked_for(server: Server, tmp_path: Path) -> None:
    server.says("/catalog.json", GOOD)
    found = load_catalog([url(server)], tmp_path, offline=True)
    assert "own" not in found.entries
    assert "has not been fetched" in found.warnings[0]
    assert server.requests == []


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"url": 1}', b"\xff"])
def test_a_copy_that_was_damaged_on_disk_is_fetched_anew(server: Server, tmp_path: Path, damage: bytes) -> None:
    server.says("/catalog.json", GOOD, ETag='"one"')
    load_catalog([url(server)], tmp_path)
    (copy,) = tmp_path.rglob("*.json")
    copy.write_bytes(damage)
    assert "own" in load_catalog([url(server)], tmp_path).entries
    assert "if-none-match" not in server.requests[-1][1]


def test_a_copy_is_replaced_whole_or_not_at_all(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.says("/catalog.json", GOOD)
    load_catalog([url(server)], tmp_path)
    server.says("/catalog.json", catalog(other="example.com/other"))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        update_catalogs([url(server)], tmp_path)
    assert "own" in load_catalog([url(server)], tmp_path).entries
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


def test_a_cache_that_cannot_be_written_is_a_warning(server: Server, tmp_path: Path) -> None:
    server.says("/catalog.json", GOOD)
    (tmp_path / "file").write_text("")
    found = load_catalog([url(server)], tmp_path / "file")
    assert "own" in found.entries
    assert "cannot be kept" in found.warnings[0]


@pytest.mark.parametrize(
    "source", ["http://catalog.example/c.json", "https://me:secret@catalog.example/", "https://", "http://[::1"]
)
def test_a_url_that_is_not_safe_or_none_is_a_usage_error(tmp_path: Path, source: str) -> None:
    with pytest.raises(UsageError):
        load_catalog([source], tmp_path)


def test_a_redirect_to_plain_http_elsewhere_is_refused(server: Server, tmp_path: Path) -> None:
    server.says("/catalog.json", b"", 302, Location="http://catalog.example/c.json")
    assert "plain HTTP" in load_catalog([url(server)], tmp_path).warnings[0]


def test_a_catalog_that_is_gone_is_not_found(server: Server, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="does not exist"):
        update_catalogs([url(server)], tmp_path)


def test_only_the_catalog_that_was_asked_for_is_taken(server: Server, tmp_path: Path) -> None:
    server.says("/catalog.json", GOOD)
    update_catalogs([pin(url(server), f"sha256:{sha256(GOOD).hexdigest()}")], tmp_path)
    server.says("/catalog.json", catalog(own="example.com/other"))
    with pytest.raises(BadDataError, match="is not the one that was asked for: its digest is sha256:"):
        update_catalogs([pin(url(server), f"sha256:{'0' * 64}")], tmp_path)
    assert str(load_catalog([url(server)], tmp_path).find("own")) == "example.com/own:v1"


# --- the project's own, which is signed; real signatures are in tests/integration/trust/test_catalog.py ---------------


class Check:
    """Takes what it is told to, and notes what comes with it."""

    def __init__(self, *good: bytes) -> None:
        self.good = good
        self.seen: list[bytes | None] = []

    def __call__(self, content: bytes, fetch_signature: FetchSignature) -> None:
        self.seen.append(fetch_signature(1000))
        if content not in self.good:
            raise BadDataError("it is refused", hint="name its digest")


@pytest.fixture
def published(server: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    publish(url(server), monkeypatch)
    return url(server)


def publish(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("catalog", "catalog_remote"):
        monkeypatch.setattr(f"schedkit.images.{module}.PUBLISHED", address)


@pytest.mark.parametrize("named", [False, True])
def test_the_published_catalog_is_fetched_by_an_update_and_never_else(
    server: Server, published: str, tmp_path: Path, named: bool
) -> None:
    """Neither where a configuration names it: only an update checks its signature."""
    sources = [published] if named else []
    server.says("/catalog.json", GOOD)
    server.says("/catalog.json.sigstore.json", b"signature")
    found = load_catalog(sources, tmp_path)
    assert "own" not in found.entries
    assert ["has not been fetched yet" in warning for warning in found.warnings] == [True] * named
    assert server.requests == []
    check = Check(GOOD)
    (told,) = update_catalogs([published], tmp_path, check_signature=check)
    assert "new: own; changed: scx_rusty; gone: " in told
    assert load_catalog(sources, tmp_path).entries["own"].origin == published
    assert (check.seen, server.paths) == ([b"signature"], ["/catalog.json", "/catalog.json.sigstore.json"])


def test_a_published_catalog_that_is_refused_leaves_the_last_good_copy_and_its_etag(
    server: Server, published: str, tmp_path: Path
) -> None:
    server.says("/catalog.json", GOOD, ETag='"one"')
    update_catalogs([published], tmp_path, check_signature=Check(GOOD))
    server.says("/catalog.json", NEWER, ETag='"two"')
    for _ in range(2):
        with pytest.raises(BadDataError, match="it is refused; its last good copy stays") as caught:
            update_catalogs([published], tmp_path)
        assert caught.value.hint == ""
        assert str(load_catalog([], tmp_path).find("own")) == "example.com/own:v1"
        assert server.requests[-1][1]["if-none-match"] == '"one"'
    update_catalogs([published], tmp_path, check_signature=Check(NEWER))
    assert str(load_catalog([], tmp_path).find("own")) == "example.com/own:v2"


def test_signature_of_a_catalog_is_fetched_unless_it_is_pinned_and_again_if_it_is_unchanged(
    server: Server, published: str, tmp_path: Path
) -> None:
    server.says("/catalog.json", GOOD, ETag='"one"')
    server.says("/catalog.json.sigstore.json", b"signature")
    update_catalogs([pin(published, f"sha256:{sha256(GOOD).hexdigest()}")], tmp_path)
    assert server.paths == ["/catalog.json"]
    server.says("/catalog.json", b"", 304)
    check = Check(GOOD)
    assert update_catalogs([published], tmp_path, check_signature=check) == [f"the catalog {published}: unchanged"]
    assert check.seen == [b"signature"]
    with pytest.raises(BadDataError, match="it is refused; its last good copy stays"):
        update_catalogs([published], tmp_path, check_signature=Check(NEWER))
    assert "own" in load_catalog([], tmp_path).entries


def test_catalogs_that_users_name_need_no_signature(server: Server, published: str, tmp_path: Path) -> None:
    server.says("/own.json", GOOD)
    update_catalogs([url(server, "/own.json")], tmp_path)
    assert server.paths == ["/own.json"]


def test_a_signature_that_is_not_there_is_none_and_one_that_cannot_be_had_is_an_error(
    server: Server, published: str, tmp_path: Path
) -> None:
    server.says("/catalog.json", GOOD)
    check = Check()
    for status, body, error in (
        (404, b"", BadDataError),
        (410, b"", BadDataError),
        (500, b"", UnavailableError),
        (304, b"", BadDataError),
        (200, b"x" * 1001, BadDataError),
    ):
        server.says("/catalog.json.sigstore.json", body, status)
        with pytest.raises(error) as caught:
            update_catalogs([published], tmp_path, check_signature=check)
        assert ("the signature of the catalog" in caught.value.message) == (status not in (404, 410))
    assert check.seen == [None, None]
    assert load_catalog([], tmp_path).entries["scx_rusty"].origin == "built-in"


def test_catalog_and_signature_are_fetched_over_redirects_to_another_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As GitHub redirects what belongs to a release; the ETag is the other host's."""
    tls, authority = make_tls(tmp_path)
    settings = RegistrySettings(ca_file=str(authority))
    with serve(tls) as first, serve(tls) as second:
        elsewhere = second.address.replace("127.0.0.1", "localhost")
        for path in ("/catalog.json", "/catalog.json.sigstore.json"):
            first.says(path, b"", 302, Location=f"https://{elsewhere}/assets{path}?sig=secret")
        second.says("/assets/catalog.json", GOOD, ETag='"one"')
        second.says("/assets/catalog.json.sigstore.json", b"signature")
        publish(f"https://{first.address}/catalog.json", monkeypatch)
        check = Check(GOOD)
        for _ in range(2):
            update_catalogs([f"https://{first.address}/catalog.json"], tmp_path, settings, check_signature=check)
            second.says("/assets/catalog.json", b"", 304)
    assert check.seen == [b"signature"] * 2
    assert second.requests[-2][1]["if-none-match"] == '"one"'
    assert not any({"authorization", "cookie", "referer"} & headers.keys() for _, headers in second.requests)
    assert "own" in load_catalog([], tmp_path).entries
