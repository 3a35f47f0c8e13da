"""`schedctl catalog update` and whom it takes the project's catalog from; tests/integration has a server and cosign."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from schedkit.errors import SchedkitError
from schedkit.images.catalog import load_catalog
from schedkit.images.catalog_remote import PUBLISHED
from schedkit.images.transport import Answer, Transport
from schedkit.schedctl.verification import CATALOG_REPOSITORY
from schedkit.trust.policy import DEFAULT_POLICY
from tests.unit.schedctl.fakes import FakeRuntime
from tests.unit.schedctl.runner import call
from tests.unit.trust.material import make_key, pem, sign_bundle, sign_file

KEY = make_key()
OLD, NEW = (json.dumps({"own": {"imageURI": f"example.com/own:v{number}"}}).encode() for number in (1, 2))
PIN = f"sha256:{hashlib.sha256(NEW).hexdigest()}"


class Web:
    """What lies at which URL, and what was asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []

    def put(self, content: bytes, bundle: dict[str, Any] | None) -> None:
        self.files = {PUBLISHED: content}
        if bundle:
            self.files[f"{PUBLISHED}.sigstore.json"] = json.dumps(bundle).encode()

    def fetch(self, url: str, *, headers: Mapping[str, str], **_: object) -> Answer:
        self.asked.append(url)
        if url not in self.files:
            return Answer(url, 404, {}, b"")
        etag = hashlib.sha256(self.files[url]).hexdigest()
        if headers.get("If-None-Match") == etag:
            return Answer(url, 304, {}, b"")
        return Answer(url, 200, {"etag": etag}, self.files[url])


@pytest.fixture
def web(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Web:
    """The project's catalog, signed with KEY and fetched once, and a policy that wants KEY for the project alone."""
    web = Web()
    monkeypatch.setattr(Transport, "fetch", lambda _, url, **options: web.fetch(url, **options))
    (tmp_path / "cosign.pub").write_bytes(pem(KEY))
    (tmp_path / "policy.yaml").write_text('scopes: [{images: ["ghcr.io/schedkit/**"], keys: [{path: cosign.pub}]}]')
    monkeypatch.setenv("SCHEDCTL_TRUST_POLICY", str(tmp_path / "policy.yaml"))
    web.put(OLD, sign_file(OLD, KEY))
    assert "verified: key SHA256:" in call("catalog", "update").stderr
    return web


def find(tmp_path: Path) -> str:
    return str(load_catalog([], tmp_path / "schedkit").find("own"))


def test_catalog_with_a_good_signature_is_used(web: Web, tmp_path: Path) -> None:
    web.put(NEW, sign_file(NEW, KEY))
    assert call("catalog", "update").stdout == f"the catalog {PUBLISHED}: changed: own\n"
    assert find(tmp_path) == "example.com/own:v2"
    assert "unchanged" in call("catalog", "update").stdout


@pytest.mark.parametrize(
    ("bundle", "code", "retry"),
    [
        (None, 21, True),
        (sign_file(NEW, make_key()), 22, False),
        (sign_file(OLD, KEY), 25, True),  # of the one before: between two uploads
        (sign_bundle(PIN, KEY), 25, True),
        ({"mediaType": "application/json"}, 25, True),
    ],
    ids=["none", "others", "old", "of an image", "malformed"],
)
def test_every_refusal_keeps_the_last_good_copy_and_names_the_only_way_around(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bundle: dict[str, Any] | None, code: int, retry: bool
) -> None:
    web.put(NEW, bundle)
    monkeypatch.setenv("SCHEDCTL_ALLOW_UNSIGNED", "1")
    refused = call("catalog", "update", code=code).exception
    assert isinstance(refused, SchedkitError)
    assert refused.message.startswith(f"the catalog {PUBLISHED} ({PIN}) ")
    assert refused.message.endswith("; its last good copy stays")
    assert "image" not in refused.message
    assert "schedctl catalog update --digest sha256:HEX" in refused.hint
    assert refused.hint.startswith("retry in a minute") is retry
    assert "image" not in refused.hint
    assert find(tmp_path) == "example.com/own:v1"
    web.asked.clear()
    call("catalog", "update", "--digest", PIN)
    assert web.asked == [PUBLISHED]
    assert find(tmp_path) == "example.com/own:v2"


def test_policy_of_the_command_line_decides_and_the_built_in_one_without_any(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other.yaml").write_text('scopes: [{images: ["registry.lan/**"], keys: [{path: cosign.pub}]}]')
    web.put(NEW, sign_file(NEW, KEY))
    refused = call("catalog", "update", "--trust-policy", str(tmp_path / "other.yaml"), code=22).exception
    assert isinstance(refused, SchedkitError)
    assert f"has no rule for {CATALOG_REPOSITORY}" in refused.message
    call("catalog", "update", "--trust-policy", str(tmp_path / "missing.yaml"), code=66)
    monkeypatch.delenv("SCHEDCTL_TRUST_POLICY")
    refused = call("catalog", "update", code=22).exception
    assert isinstance(refused, SchedkitError)
    assert str(DEFAULT_POLICY.rules[0]) in refused.message
    assert find(tmp_path) == "example.com/own:v1"


def test_catalogs_of_others_are_updated_though_the_published_one_is_refused(web: Web, tmp_path: Path) -> None:
    own = "https://example.com/c.json"
    web.put(NEW, None)
    web.files[own] = OLD
    refused = call("--catalog", own, "catalog", "update", code=21).exception
    assert isinstance(refused, SchedkitError)
    assert refused.message.endswith(f"; the catalog {own}: new: own")
    assert own in [entry.origin for entry in load_catalog([own], tmp_path / "schedkit").entries.values()]
    assert f"{own}.sigstore.json" not in web.asked


def test_catalog_that_a_configuration_names_too_is_fetched_once(web: Web) -> None:
    web.asked.clear()
    call("--catalog", PUBLISHED, "catalog", "update")
    assert web.asked == [PUBLISHED, f"{PUBLISHED}.sigstore.json"]


def test_catalog_that_is_unchanged_is_judged_by_the_policy_of_today(web: Web, tmp_path: Path) -> None:
    (tmp_path / "cosign.pub").write_bytes(pem(make_key()))
    refused = call("catalog", "update", code=22).exception
    assert isinstance(refused, SchedkitError)
    assert "its last good copy stays" in refused.message


def test_pin_of_the_published_catalog_holds_when_there_is_a_newer_one(web: Web, tmp_path: Path) -> None:
    pinned = f"{PUBLISHED}#sha256={hashlib.sha256(OLD).hexdigest()}"
    web.put(NEW, sign_file(NEW, KEY))
    call("--catalog", pinned, "catalog", "update", code=65)
    found = load_catalog([pinned], tmp_path / "schedkit")
    assert (str(found.find("own")), found.warnings) == ("example.com/own:v1", ())


def test_bad_signature_is_what_is_told_first(web: Web) -> None:
    web.put(NEW, sign_file(OLD, KEY))
    refused = call("--catalog", "https://example.com/missing.json", "catalog", "update", code=25).exception
    assert isinstance(refused, SchedkitError)
    assert "https://example.com/missing.json does not exist" in refused.message
    assert "--digest" in refused.hint


def test_catalog_that_is_missing_may_be_about_to_come(web: Web) -> None:
    web.files = {}
    refused = call("catalog", "update", code=66).exception
    assert isinstance(refused, SchedkitError)
    assert refused.hint.startswith("retry in a minute")
