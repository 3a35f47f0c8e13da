"""The project's catalog as its workflow publishes it: signed by real cosign, behind HTTPS and GitHub's redirects."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.signing import Rekor, keyed, make_token
from lab.store import Store
from schedkit.errors import SchedkitError
from schedkit.images.catalog import BUILT_IN_FILE, load_catalog
from schedkit.trust.model import Format
from tests.integration.images.servers import Server, make_tls, serve
from tests.integration.trust.workshop import ISSUER, SUBJECT, Workshop
from tests.unit.schedctl.runner import call

NAME = "catalog.json"
BUNDLE = f"{NAME}.sigstore.json"
series = pytest.mark.parametrize("series", ["v2", "v3"])
Pairs = Callable[[str], tuple[Path, Path]]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Where the release's files are, behind a redirect from where schedctl looks for them."""
    tls, authority = make_tls(tmp_path)
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    (tmp_path / "schedkit").mkdir()
    (tmp_path / "schedkit/config.toml").write_text(f'ca-file = "{authority}"\n')
    with serve(tls) as first, serve(tls) as second:
        for path in (f"/{NAME}", f"/{BUNDLE}"):
            first.says(path, b"", 302, Location=f"https://localhost:{second.address.rpartition(':')[2]}{path}")
        for module in ("catalog", "catalog_remote"):
            monkeypatch.setattr(f"schedkit.images.{module}.PUBLISHED", f"https://{first.address}/{NAME}")
        yield second


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A catalog that nobody signed: the one of this version, and one name more."""
    path = tmp_path / NAME
    entries = json.loads(BUILT_IN_FILE.read_text())
    path.write_text(json.dumps(entries | {"scx_new": {"imageURI": "ghcr.io/schedkit/scx_new"}}))
    return path


def trust_key(public: Path) -> dict[str, object]:
    return {"scopes": [{"images": ["ghcr.io/schedkit/**"], "keys": [{"path": str(public)}]}]}


def trust_identity(workshop: Workshop, subject: str = SUBJECT) -> dict[str, object]:
    identity = {"issuer": ISSUER, "subject": subject}
    return {"identities": [identity], "trustedRoot": str(workshop.sigstore.trusted_root)}


def update(policy: dict[str, object], tmp_path: Path, code: int = 0) -> str:
    """What the command says; with a code, its error and hint."""
    (tmp_path / "policy.yaml").write_text(json.dumps(policy))
    done = call("catalog", "update", "--trust-policy", str(tmp_path / "policy.yaml"), code=code)
    if not isinstance(done.exception, SchedkitError):
        return done.stdout + done.stderr
    return f"{done.exception.message}\n{done.exception.hint}"


def is_used(tmp_path: Path) -> bool:
    return "scx_new" in load_catalog([], tmp_path / "schedkit").entries


def publish(server: Server, *files: Path) -> None:
    for path in files:
        server.says(f"/{path.name}", path.read_bytes())


@series
def test_catalog_signed_with_a_key_is_taken_from_that_key_only(
    workshop: Workshop, pair: Pairs, server: Server, file: Path, tmp_path: Path, series: str
) -> None:
    (private, public), (_, other) = pair("mine"), pair("yours")
    publish(server, file, workshop.cosigns[series].sign_file(file, *keyed(private)))
    said = update(trust_key(other), tmp_path, code=22)
    assert "no key of the policy made this signature" in said
    assert "schedctl catalog update --digest" in said
    assert not is_used(tmp_path)
    said = update(trust_key(public), tmp_path)
    assert "new: scx_new" in said
    assert "verified: key SHA256:" in said
    assert is_used(tmp_path)


@series
def test_keyless_catalog_is_taken_from_that_identity_only(
    workshop: Workshop, server: Server, file: Path, tmp_path: Path, series: str
) -> None:
    """As the workflow signs it."""
    publish(server, file, workshop.cosigns[series].sign_file(file, *workshop.sigstore.keyless(SUBJECT, ISSUER)))
    said = update(trust_identity(workshop, "release@evil.example"), tmp_path, code=22)
    assert f"is signed by {SUBJECT} ({ISSUER})" in said
    assert not is_used(tmp_path)
    assert f"verified: {SUBJECT} ({ISSUER})" in update(trust_identity(workshop), tmp_path)
    assert is_used(tmp_path)


@series
def test_key_that_must_be_in_the_log_is_found_there(
    workshop: Workshop, pair: Pairs, server: Server, file: Path, tmp_path: Path, series: str
) -> None:
    private, public = pair("mine")
    root = str(workshop.sigstore.trusted_root)
    policy: dict[str, object] = {"keys": [{"path": str(public)}], "requireLog": True, "trustedRoot": root}
    publish(server, file, workshop.cosigns[series].sign_file(file, *keyed(private)))
    assert "without an entry of a transparency log" in update(policy, tmp_path, code=24)
    publish(server, workshop.cosigns[series].sign_file(file, *workshop.sigstore.logged(private)))
    assert "verified: key SHA256:" in update(policy, tmp_path)


def test_entry_of_a_real_log_of_the_second_series_is_that_of_the_file(
    workshop: Workshop, store: Store, server: Server, file: Path, tmp_path: Path
) -> None:
    """A hashedrekord 0.0.2, whose log vouches for no time: a timestamp does."""
    sigstore = workshop.sigstore
    with Rekor(store, tmp_path / "rekor") as rekor:
        root = rekor.write_trusted_root(sigstore.trusted_root, tmp_path / "root.json")
        config = sigstore.write_signing_config(
            "rekor-file", ca=sigstore.url, log=rekor.url, log_version=2, tsa=f"{sigstore.url}/timestamp"
        )
        signing = ("--identity-token", make_token(SUBJECT, ISSUER), "--signing-config", config, "--trusted-root", root)
        bundle = workshop.cosigns["v3"].sign_file(file, *signing)
    (entry,) = json.loads(bundle.read_text())["verificationMaterial"]["tlogEntries"]
    assert entry["kindVersion"] == {"kind": "hashedrekord", "version": "0.0.2"}
    publish(server, file, bundle)
    update(trust_identity(workshop), tmp_path, code=24)
    assert f"verified: {SUBJECT}" in update(trust_identity(workshop) | {"trustedRoot": str(root)}, tmp_path)


@series
def test_certificate_that_had_expired_is_refused(
    workshop: Workshop, server: Server, file: Path, tmp_path: Path, series: str
) -> None:
    signing = workshop.sigstore.keyless(SUBJECT, ISSUER, ca="/old")
    publish(server, file, workshop.cosigns[series].sign_file(file, *signing))
    update(trust_identity(workshop), tmp_path, code=23)
    assert not is_used(tmp_path)


def test_tampered_catalog_is_refused_and_the_last_good_copy_stays(
    workshop: Workshop, server: Server, file: Path, tmp_path: Path
) -> None:
    policy = trust_identity(workshop)
    publish(server, file, workshop.cosigns["v3"].sign_file(file, *workshop.sigstore.keyless(SUBJECT, ISSUER)))
    update(policy, tmp_path)
    file.write_text(file.read_text().replace("ghcr.io/schedkit/scx_new", "ghcr.io/evil/scx_new"))
    publish(server, file)
    said = update(policy, tmp_path, code=25)
    assert "it is a signature of sha256:" in said
    assert "its last good copy stays" in said
    assert "retry in a minute" in said
    assert str(load_catalog([], tmp_path / "schedkit").find("scx_new")) == "ghcr.io/schedkit/scx_new:latest"


def test_catalog_without_a_bundle_or_with_that_of_an_image_is_refused(
    workshop: Workshop, pair: Pairs, server: Server, file: Path, tmp_path: Path
) -> None:
    private, public = pair("mine")
    publish(server, file)
    assert "is not signed" in update(trust_key(public), tmp_path, code=21)
    image = workshop.push()
    workshop.sign_with_key("v3", Format.BUNDLE, image, private)
    server.says(f"/{BUNDLE}", json.dumps(image.read_bundle(workshop.registry)).encode())
    assert "does not sign a file" in update(trust_key(public), tmp_path, code=25)
    assert not is_used(tmp_path)
