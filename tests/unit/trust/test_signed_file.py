"""Files with a bundle as `cosign sign-blob` makes it; tests/integration/trust has them from the real one."""

import hashlib
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes

from schedkit.errors import BadDataError, ExitCode, UnavailableError
from schedkit.trust.bundle import LARGEST_BUNDLE
from schedkit.trust.errors import (
    BadSignatureError,
    ExpiredError,
    NoLogEntryError,
    Refusal,
    UnsignedError,
    UntrustedError,
)
from schedkit.trust.model import Signature, SignerKind
from schedkit.trust.policy import DEFAULT_POLICY, Policy
from schedkit.trust.roots import Roots
from schedkit.trust.signed_file import SignedFile, verify_file
from schedkit.trust.trusted_root import parse_trusted_root
from tests.unit.trust.material import (
    ISSUER,
    NOW,
    SUBJECT,
    Sigstore,
    b64,
    hashedrekord,
    hashedrekord_2,
    make_key,
    sign,
    sign_bundle,
    sign_file,
)
from tests.unit.trust.rules import OURS, trust
from tests.unit.trust.shelf import digest_of

CONTENT = b'{"scx_rusty": {"imageURI": "ghcr.io/schedkit/scx_rusty"}}'
OTHER = CONTENT.replace(b"schedkit", b"evil")
REPOSITORY = "ghcr.io/schedkit/catalog"
Bundle = dict[str, Any] | bytes | None


@pytest.fixture
def keyless(sigstore: Sigstore) -> Policy:
    return trust(sigstore=sigstore, identities=(OURS,))


def check(
    bundle: Bundle, policy: Policy, content: bytes = CONTENT, roots: Roots | None = None
) -> tuple[Signature, ...]:
    data = json.dumps(bundle).encode() if isinstance(bundle, dict) else bundle
    file = SignedFile("the catalog", REPOSITORY, content, lambda _: data)
    return verify_file(file, policy, roots or Roots(None, offline=True))


def refuse(bundle: Bundle, policy: Policy, content: bytes = CONTENT) -> Refusal:
    """The refusal there must be."""
    with pytest.raises(Refusal) as refused:
        check(bundle, policy, content)
    return refused.value


def test_key_of_the_rule_for_the_repository_counts() -> None:
    key, other = make_key(), make_key()
    (ours,), (rest,) = trust(key).rules, trust(other).rules
    policy = Policy("policy.yaml", (ours._replace(images=("ghcr.io/schedkit/**",)), rest))
    (found,) = check(sign_file(CONTENT, key), policy)
    assert (found.how, found.on) == (SignerKind.KEY, digest_of(CONTENT))
    assert isinstance(refuse(sign_file(CONTENT, other), policy), UntrustedError)


def test_built_in_policy_takes_workflows_of_the_project_and_no_others(sigstore: Sigstore) -> None:
    roots = Roots(None, offline=True)
    roots._known[None] = parse_trusted_root(sigstore.trusted_root(), "public")
    (found,) = check(sign_file(CONTENT, sigstore.issue(), sigstore), DEFAULT_POLICY, roots=roots)
    assert (found.who, found.how, found.signed_at) == (f"{SUBJECT} ({ISSUER})", SignerKind.KEYLESS, NOW)
    stranger = sigstore.issue("https://github.com/evil/catalog/.github/workflows/catalog.yml@refs/heads/main")
    with pytest.raises(UntrustedError, match=r"is signed by https://github\.com/evil/"):
        check(sign_file(CONTENT, stranger, sigstore), DEFAULT_POLICY, roots=roots)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("logged", "accepted"), [(CONTENT, True), (OTHER, False)])
def test_log_entry_must_be_of_this_content(
    sigstore: Sigstore, keyless: Policy, version: int, logged: bytes, accepted: bool
) -> None:
    leaf = sigstore.issue()
    signature = sign(leaf.key, CONTENT)
    verifier = {"x509Certificate": {"rawBytes": b64(leaf.der)}}
    bodies = {1: hashedrekord(logged, signature, leaf.pem), 2: hashedrekord_2(logged, signature, verifier)}
    bundle = sign_file(CONTENT, leaf)
    bundle["messageSignature"]["signature"] = b64(signature)
    bundle["verificationMaterial"]["tlogEntries"] = [sigstore.log(bodies[version]).for_bundle()]
    if accepted:
        assert check(bundle, keyless)
        return
    refusal = refuse(bundle, keyless)
    assert isinstance(refusal, BadSignatureError)
    assert "its log entry is of another content" in refusal.message


def test_changed_file_is_refused_by_both_digests(sigstore: Sigstore, keyless: Policy) -> None:
    """As is one whose bundle is still, or only now, that of another version."""
    refusal = refuse(sign_file(CONTENT, sigstore.issue(), sigstore), keyless, OTHER)
    assert isinstance(refusal, BadSignatureError)
    assert f"it is a signature of {digest_of(CONTENT)}, not of {digest_of(OTHER)}" in refusal.message
    assert refusal.hint.startswith("the file was changed, or has the signature of another file")


def test_digest_in_the_bundle_is_no_proof(sigstore: Sigstore, keyless: Policy) -> None:
    for signer, policy in ((sigstore.issue(), keyless), (key := make_key(), trust(key))):
        bundle = sign_file(CONTENT, signer, sigstore)
        bundle["messageSignature"]["messageDigest"] = sign_file(OTHER, signer)["messageSignature"]["messageDigest"]
        refusal = refuse(bundle, policy, OTHER)
        assert isinstance(refusal, BadSignatureError)
        assert "the signature was not made with" in refusal.message


def test_digest_may_be_of_the_size_of_the_curve() -> None:
    """As cosign v3 writes it with such a key."""
    key = make_key("p384")
    bundle = sign_file(CONTENT, key)
    bundle["messageSignature"] = {
        "messageDigest": {"algorithm": "SHA2_384", "digest": b64(hashlib.sha384(CONTENT).digest())},
        "signature": b64(sign(key, CONTENT, hashes.SHA384())),
    }
    (found,) = check(bundle, trust(key))
    assert found.on == digest_of(CONTENT)
    assert "it is a signature of sha384:" in refuse(bundle, trust(key), OTHER).message


@pytest.mark.parametrize(
    ("kind", "accepted"),
    [
        ("application/vnd.dev.sigstore.bundle+json;version=0.1", True),
        ("application/vnd.dev.sigstore.bundle+json;version=0.2", True),
        ("application/vnd.dev.sigstore.bundle+json;version=0.3", True),
        ("application/vnd.dev.sigstore.bundle.v0.3+json", True),
        ("application/vnd.dev.sigstore.bundle.v0.4+json", False),
        ("application/json", False),
    ],
)
def test_every_version_of_the_bundle_that_is_known_counts(
    sigstore: Sigstore, keyless: Policy, kind: str, accepted: bool
) -> None:
    bundle = sign_file(CONTENT, sigstore.issue(), sigstore) | {"mediaType": kind}
    if accepted:
        assert check(bundle, keyless)
    else:
        assert "a kind that we do not know" in refuse(bundle, keyless).message


def change(name: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda bundle: bundle["messageSignature"].update({name: value})


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (change("messageDigest", None), "messageDigest is missing"),
        (change("messageDigest", {"algorithm": "MD5", "digest": "AAAA"}), "a hash that we do not know: 'MD5'"),
        (change("messageDigest", {"algorithm": "SHA2_256", "digest": "?"}), "digest is not base64"),
        (change("messageDigest", {"algorithm": "SHA2_256", "digest": "AAAA"}), "it is a signature of sha256:000000"),
        (change("signature", 1), "signature is missing or not a text"),
        (lambda bundle: bundle.pop("messageSignature"), "does not sign a file"),
        (lambda bundle: bundle.pop("mediaType"), "mediaType is missing"),
        (lambda bundle: bundle.pop("verificationMaterial"), "verificationMaterial is missing"),
    ],
)
def test_malformed_bundle_is_one_clear_refusal(damage: Callable[[dict[str, Any]], object], problem: str) -> None:
    key = make_key()
    bundle = sign_file(CONTENT, key)
    damage(bundle)
    refusal = refuse(bundle, trust(key))
    assert isinstance(refusal, BadSignatureError)
    assert problem in refusal.message
    assert "image" not in refusal.message


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"<html>log in</html>", b'{"base64Signature": "AAAA"}'])
def test_what_is_no_bundle_is_a_bad_signature(data: bytes) -> None:
    assert isinstance(refuse(data, trust(make_key())), BadSignatureError)


def test_statement_about_an_image_does_not_sign_a_file(sigstore: Sigstore, keyless: Policy) -> None:
    refusal = refuse(sign_bundle(digest_of(CONTENT), sigstore.issue(), sigstore), keyless)
    assert isinstance(refusal, BadSignatureError)
    assert "the bundle does not sign a file: it has no messageSignature" in refusal.message


def test_file_without_a_bundle_is_unsigned_whatever_the_policy_allows_for_images() -> None:
    policy = trust(make_key())._replace(allow_unsigned=("**",))
    refusal = refuse(None, policy)
    assert isinstance(refusal, UnsignedError)
    assert refusal.message == f"the catalog ({digest_of(CONTENT)}) is not signed"
    assert refusal.exit_code == ExitCode.UNSIGNED


def test_times_and_log_are_required_as_for_images(sigstore: Sigstore, keyless: Policy) -> None:
    old = sigstore.issue(start=NOW - timedelta(hours=1))
    assert isinstance(refuse(sign_file(CONTENT, old, sigstore), keyless), ExpiredError)
    assert isinstance(refuse(sign_file(CONTENT, sigstore.issue()), keyless), NoLogEntryError)
    assert isinstance(refuse(sign_file(CONTENT, sigstore.issue(), Sigstore()), keyless), NoLogEntryError)
    key = make_key()
    assert isinstance(refuse(sign_file(CONTENT, key), trust(key, sigstore=sigstore, require_log=True)), NoLogEntryError)


def test_threshold_that_one_signature_cannot_reach_is_told() -> None:
    key = make_key()
    refusal = refuse(sign_file(CONTENT, key), trust(key, make_key(), threshold=2))
    assert isinstance(refusal, UntrustedError)
    assert "by 1 of the 2 signers" in refusal.message


def test_policy_without_a_rule_for_it_trusts_nobody() -> None:
    key = make_key()
    (rule,) = trust(key).rules
    policy = Policy("policy.yaml", (rule._replace(images=("registry.lan/**",)),), allow_unsigned=("**",))
    refusal = refuse(sign_file(CONTENT, key), policy)
    assert isinstance(refusal, UntrustedError)
    assert refusal.message == f"the catalog: the trust policy policy.yaml has no rule for {REPOSITORY}"


def test_bundle_beyond_the_limit_is_a_bad_signature_and_a_server_that_is_away_is_not() -> None:
    asked: list[int] = []

    def verify(error: Exception) -> None:
        def fetch(limit: int) -> bytes:
            asked.append(limit)
            raise error

        verify_file(SignedFile("it", REPOSITORY, CONTENT, fetch), trust(make_key()), Roots(None, offline=True))

    with pytest.raises(BadSignatureError, match="more than 1048576 bytes"):
        verify(BadDataError("it sent more than 1048576 bytes"))
    with pytest.raises(UnavailableError, match="no network"):
        verify(UnavailableError("no network"))
    assert asked == [LARGEST_BUNDLE] * 2
