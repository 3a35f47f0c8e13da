"""Keyless signatures and the attacks on them; tests/integration/trust has them from sigstore-go's authority."""

import base64
import json
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from schedkit.images.image import Image
from schedkit.trust.bundle import encode_message, parse_bundle
from schedkit.trust.errors import (
    BadSignatureError,
    ExpiredError,
    NoLogEntryError,
    PolicyError,
    Problem,
    UntrustedError,
)
from schedkit.trust.log import check_periods
from schedkit.trust.model import Format, SignerKind
from schedkit.trust.policy import DEFAULT_POLICY, Policy, Root
from schedkit.trust.trusted_root import parse_trusted_root
from tests.unit.trust.material import (
    ISSUER,
    NOW,
    SUBJECT,
    Leaf,
    Sigstore,
    b64,
    dsse,
    hashedrekord,
    hashedrekord_2,
    make_bundle,
    make_key,
    make_statement,
    sign,
    sign_bundle,
    sign_simply,
)
from tests.unit.trust.rules import OURS, check, refuse, trust
from tests.unit.trust.shelf import Shelf, make_image

HOUR = timedelta(hours=1)


@pytest.fixture
def policy(sigstore: Sigstore) -> Policy:
    return trust(sigstore=sigstore, identities=(OURS,))


@pytest.fixture(params=["simple", "bundle"])
def put(request: pytest.FixtureRequest, shelf: Shelf, sigstore: Sigstore) -> Callable[..., Image]:
    """Put an image on the shelf, signed in each of the two formats."""

    def put(leaf: Leaf, log: Sigstore | None = sigstore, **options: Any) -> Image:
        image = make_image(shelf)
        if request.param == "simple":
            shelf.add_simple(image.digest, sign_simply(image.digest, leaf, log, **options))
        else:
            shelf.add_bundle(image.digest, sign_bundle(image.digest, leaf, log, **options))
        return image

    return put


def put_bundle(shelf: Shelf, sigstore: Sigstore, change: Callable[[dict[str, Any]], object]) -> Image:
    """An image signed as it should be, but for one change in the bundle."""
    image = make_image(shelf)
    bundle = sign_bundle(image.digest, sigstore.issue(), sigstore)
    change(bundle)
    shelf.add_bundle(image.digest, bundle)
    return image


def test_identity_and_time_are_told(put: Callable[..., Image], sigstore: Sigstore, policy: Policy) -> None:
    (found,) = check(put(sigstore.issue()), policy).signatures
    assert (found.who, found.how, found.signed_at) == (f"{SUBJECT} ({ISSUER})", SignerKind.KEYLESS, NOW)
    assert found.format in Format
    assert found.log is not None
    assert (found.log.log_index, found.log.integrated) == (3, NOW)


def test_certificate_from_before_2023_names_its_issuer_in_the_old_field(
    put: Callable[..., Image], sigstore: Sigstore, policy: Policy
) -> None:
    assert check(put(sigstore.issue(issuer="", old_issuer=ISSUER)), policy)


def test_the_new_field_of_the_issuer_counts_before_the_old_one(
    put: Callable[..., Image], sigstore: Sigstore, policy: Policy
) -> None:
    leaf = sigstore.issue(issuer="https://evil.example", old_issuer=ISSUER)
    assert isinstance(refuse(put(leaf), policy), UntrustedError)


@pytest.mark.parametrize(
    ("subject", "issuer"),
    [
        ("https://github.com/evil/x/.github/workflows/release.yml@refs/heads/main", ISSUER),
        ("https://evil.example/?https://github.com/schedkit/", ISSUER),
        ("somebody@example.com", ISSUER),
        (SUBJECT, "https://accounts.google.com"),
        (SUBJECT, f"{ISSUER}.evil.example"),
    ],
)
def test_others_are_refused_by_name(
    put: Callable[..., Image], sigstore: Sigstore, policy: Policy, subject: str, issuer: str
) -> None:
    refusal = refuse(put(sigstore.issue(subject, issuer)), policy)
    assert isinstance(refusal, UntrustedError)
    assert f"is signed by {subject} ({issuer})" in refusal.message
    assert "wants /^https://github.com/schedkit/" in refusal.message


def test_certificate_that_had_expired_when_it_was_logged_does_not_count(
    put: Callable[..., Image], sigstore: Sigstore, policy: Policy
) -> None:
    assert isinstance(refuse(put(sigstore.issue(start=NOW - HOUR)), policy), ExpiredError)
    assert isinstance(refuse(put(sigstore.issue(start=NOW + HOUR)), policy), ExpiredError)


def test_authority_that_did_not_count_at_that_time_does_not_count(
    put: Callable[..., Image], sigstore: Sigstore
) -> None:
    root = json.loads(sigstore.trusted_root())
    root["certificateAuthorities"][0]["validFor"]["end"] = "2025-01-01T00:00:00Z"
    policy = trust(identities=(OURS,), root=Root("root.json", json.dumps(root).encode()))
    assert isinstance(refuse(put(sigstore.issue()), policy), ExpiredError)


def test_certificate_of_another_authority_does_not_count(put: Callable[..., Image], sigstore: Sigstore) -> None:
    impostor = Sigstore(log_key=sigstore.log_key, ct_key=sigstore.ct_key)
    policy = trust(sigstore=sigstore, identities=(OURS,))
    assert isinstance(refuse(put(impostor.issue()), policy), UntrustedError)


def test_certificate_for_something_else_than_code_does_not_count(
    put: Callable[..., Image], sigstore: Sigstore, policy: Policy
) -> None:
    assert isinstance(refuse(put(sigstore.issue(purpose=ExtendedKeyUsageOID.CLIENT_AUTH)), policy), BadSignatureError)


def test_certificate_must_be_in_a_log_of_certificates_where_the_root_has_one(
    put: Callable[..., Image], sigstore: Sigstore, policy: Policy
) -> None:
    image = put(sigstore.issue(sct=False))
    assert "has no SCT" in refuse(image, policy).message
    private = trust(identities=(OURS,), root=Root("root.json", sigstore.trusted_root(ctlogs=False)))
    assert check(image, private)


def test_promise_of_another_log_of_certificates_does_not_count(put: Callable[..., Image], sigstore: Sigstore) -> None:
    other = Sigstore(sigstore.log_key, make_key(), sigstore.root_key, sigstore.issuer_key)
    policy = trust(sigstore=sigstore, identities=(OURS,))
    assert "no SCT of a trusted CT log" in refuse(put(other.issue()), policy).message


def test_nothing_counts_without_a_log_entry(put: Callable[..., Image], sigstore: Sigstore, policy: Policy) -> None:
    assert isinstance(refuse(put(sigstore.issue(), None), policy), NoLogEntryError)


def test_without_a_log_a_time_must_come_from_elsewhere(put: Callable[..., Image], sigstore: Sigstore) -> None:
    policy = trust(sigstore=sigstore, identities=(OURS,), require_log=False)
    refusal = refuse(put(sigstore.issue(), None), policy)
    assert isinstance(refusal, NoLogEntryError)
    assert "when it was signed" in refusal.message
    assert check(put(sigstore.issue()), policy)


def test_entry_of_a_log_that_does_not_count_is_none(
    put: Callable[..., Image], sigstore: Sigstore, policy: Policy
) -> None:
    assert isinstance(refuse(put(sigstore.issue(), Sigstore()), policy), NoLogEntryError)


def test_only_the_log_at_rekor_url_counts(put: Callable[..., Image], sigstore: Sigstore) -> None:
    image = put(sigstore.issue())
    assert check(image, trust(sigstore=sigstore, identities=(OURS,), rekor_url=sigstore.url))
    with pytest.raises(PolicyError, match=r"no log at rekorURL https://other\.test"):
        check(image, trust(sigstore=sigstore, identities=(OURS,), rekor_url="https://other.test"))


def test_keyless_signature_is_told_where_the_policy_wants_keys(put: Callable[..., Image], sigstore: Sigstore) -> None:
    refusal = refuse(put(sigstore.issue()), trust(make_key()))
    assert isinstance(refusal, UntrustedError)
    assert f"claims to be signed by {SUBJECT}" in refusal.message, "its chain was not checked"
    assert f"that claims to be by {SUBJECT}" in refusal.log[0]


@pytest.mark.parametrize("keys", [1, 0])
def test_consent_does_not_cover_a_certificate_with_a_bad_signature_where_no_certificate_is_trusted(
    shelf: Shelf, sigstore: Sigstore, keys: int
) -> None:
    image, leaf = make_image(shelf), sigstore.issue()
    statement = make_statement(image.digest)
    signature = sign(make_key(), encode_message("application/vnd.in-toto+json", statement))
    shelf.add_bundle(image.digest, make_bundle(statement, signature, leaf))
    refusal = refuse(image, trust(*(make_key() for _ in range(keys))))
    assert isinstance(refusal, BadSignatureError)
    assert not refusal.may_be_allowed


def test_name_in_a_certificate_of_an_unknown_authority_is_only_a_claim(
    put: Callable[..., Image], sigstore: Sigstore, policy: Policy
) -> None:
    impostor = Sigstore(log_key=sigstore.log_key, ct_key=sigstore.ct_key)
    assert f"claims to be signed by {SUBJECT}" in refuse(put(impostor.issue()), policy).message


def test_certificate_does_not_lend_its_name_to_another_key(shelf: Shelf, sigstore: Sigstore, policy: Policy) -> None:
    image, leaf = make_image(shelf), sigstore.issue()
    statement = make_statement(image.digest)
    signature = sign(make_key(), encode_message("application/vnd.in-toto+json", statement))
    entry = sigstore.log(dsse(statement, signature, leaf.pem)).for_bundle()
    shelf.add_bundle(image.digest, make_bundle(statement, signature, leaf, [entry]))
    assert "not made with the key of its certificate" in refuse(image, policy).message


def test_entry_of_another_artefact_does_not_count(shelf: Shelf, sigstore: Sigstore, policy: Policy) -> None:
    image, leaf = make_image(shelf), sigstore.issue()
    other = sign_bundle("sha256:" + "a" * 64, leaf, sigstore)

    bundle = sign_bundle(image.digest, leaf)
    bundle["verificationMaterial"]["tlogEntries"] = other["verificationMaterial"]["tlogEntries"]
    shelf.add_bundle(image.digest, bundle)
    payload, annotations = sign_simply(image.digest, leaf)
    _, others = sign_simply("sha256:" + "a" * 64, leaf, sigstore)
    annotations["dev.sigstore.cosign/bundle"] = others["dev.sigstore.cosign/bundle"]
    shelf.add_simple(image.digest, (payload, annotations))
    refusal = refuse(image, policy)
    assert isinstance(refusal, BadSignatureError)
    assert ["another content" in attempt.problem for attempt in refusal.attempts] == [True, True]


def test_entry_with_another_certificate_of_the_same_name_does_not_count(
    shelf: Shelf, sigstore: Sigstore, policy: Policy
) -> None:
    image, leaf = make_image(shelf), sigstore.issue()
    statement = make_statement(image.digest)
    message = encode_message("application/vnd.in-toto+json", statement)
    signature = sign(leaf.key, message)
    stale = sigstore.issue()
    for body in (dsse(statement, signature, stale.pem), hashedrekord(message, signature, stale.pem)):
        shelf.add_bundle(image.digest, make_bundle(statement, signature, leaf, [sigstore.log(body).for_bundle()]))
    assert ["another signer" in one.problem for one in refuse(image, policy).attempts] == [True, True]


def test_certificate_with_others_below_it_is_the_first(shelf: Shelf, sigstore: Sigstore, policy: Policy) -> None:
    image, leaf = make_image(shelf), sigstore.issue()
    payload, annotations = sign_simply(image.digest, leaf, sigstore)
    annotations["dev.sigstore.cosign/certificate"] += sigstore.issue().pem.decode()
    shelf.add_simple(image.digest, (payload, annotations))
    assert check(image, policy).signatures


def test_rekor_2_entry_needs_a_timestamp_as_its_log_vouches_for_no_time(
    shelf: Shelf, sigstore: Sigstore, policy: Policy
) -> None:
    image, leaf = make_image(shelf), sigstore.issue()
    statement = make_statement(image.digest)
    message = encode_message("application/vnd.in-toto+json", statement)
    signature = sign(leaf.key, message)
    body = hashedrekord_2(message, signature, {"x509Certificate": {"rawBytes": b64(leaf.der)}})
    entry = sigstore.log(body).for_bundle(promise=False)
    shelf.add_bundle(image.digest, make_bundle(statement, signature, leaf, [entry]))
    assert "says when it was signed" in refuse(image, policy).message


def _change_hint(entry: dict[str, Any]) -> None:
    text = entry["inclusionProof"]["checkpoint"]["envelope"].split(" ")[-1].strip()
    signed = base64.b64decode(text)
    _edit_note(entry, text, b64(bytes([signed[0] ^ 1]) + signed[1:]))


def _edit_note(entry: dict[str, Any], old: str, new: str) -> None:
    checkpoint = entry["inclusionProof"]["checkpoint"]
    assert old in checkpoint["envelope"]
    checkpoint["envelope"] = checkpoint["envelope"].replace(old, new)


TAMPERED: dict[str, Callable[[dict[str, Any]], object]] = {
    "time": lambda entry: entry.update(integratedTime=str(int(entry["integratedTime"]) - 60)),
    "index": lambda entry: entry.update(logIndex="4"),
    "body": lambda entry: entry.update(canonicalizedBody=b64(b'{"kind":"dsse","apiVersion":"0.0.1","spec":{}}')),
    "promise": lambda entry: entry["inclusionPromise"].update(signedEntryTimestamp=b64(b"0" * 70)),
    "proof's index": lambda entry: entry["inclusionProof"].update(logIndex="2"),
    "proof's index outside": lambda entry: entry["inclusionProof"].update(logIndex="6"),
    "proof's root": lambda entry: entry["inclusionProof"].update(rootHash=b64(b"0" * 32)),
    "proof's hashes": lambda entry: entry["inclusionProof"]["hashes"].pop(),
    "proof's order": lambda entry: entry["inclusionProof"]["hashes"].reverse(),
    "more hashes": lambda entry: entry["inclusionProof"]["hashes"].append(b64(b"0" * 32)),
    "checkpoint's size": lambda entry: _edit_note(entry, "\n6\n", "\n7\n"),
    "checkpoint's origin": lambda entry: _edit_note(entry, "rekor.test - 1", "rekor.test - 2"),
    "checkpoint's signature": lambda entry: _edit_note(entry, "— rekor.test ", "— rekor.test A"),
    "checkpoint's key hint": _change_hint,
    "checkpoint's signature's name": lambda entry: _edit_note(entry, "— rekor.test ", "— rekor.evil "),
    "no checkpoint": lambda entry: entry["inclusionProof"].pop("checkpoint"),
    "no proof": lambda entry: entry.pop("inclusionProof"),
    "no time": lambda entry: entry.pop("integratedTime"),
    "log": lambda entry: entry["logId"].update(keyId=b64(b"0" * 32)),
}


@pytest.mark.parametrize("part", TAMPERED)
def test_tampered_log_entry_does_not_count(shelf: Shelf, sigstore: Sigstore, policy: Policy, part: str) -> None:
    image = put_bundle(shelf, sigstore, lambda bundle: TAMPERED[part](bundle["verificationMaterial"]["tlogEntries"][0]))
    assert isinstance(refuse(image, policy), BadSignatureError | NoLogEntryError)


def test_untampered_bundle_counts(shelf: Shelf, sigstore: Sigstore, policy: Policy) -> None:
    assert check(put_bundle(shelf, sigstore, lambda _: None), policy)


def test_checkpoint_of_another_state_of_the_log_does_not_count(
    shelf: Shelf, sigstore: Sigstore, policy: Policy
) -> None:
    def change(bundle: dict[str, Any]) -> None:
        checkpoint = bundle["verificationMaterial"]["tlogEntries"][0]["inclusionProof"]["checkpoint"]
        checkpoint["envelope"] = sigstore.sign_note(f"rekor.test - 1\n6\n{b64(b'1' * 32)}\n")

    assert "another state of the log" in refuse(put_bundle(shelf, sigstore, change), policy).message


def test_checkpoint_of_another_size_than_the_proof_does_not_count(shelf: Shelf, sigstore: Sigstore) -> None:
    """Signed by the log and with the same root: without a SET, whoever brings it would choose the entry's place."""
    key, image = make_key(), make_image(shelf)
    policy = trust(key, sigstore=sigstore, require_log=True)
    bundle = sign_bundle(image.digest, key, sigstore)
    entry = bundle["verificationMaterial"]["tlogEntries"][0]
    entry.pop("inclusionPromise")
    proof = entry["inclusionProof"]
    for size in (12, int(proof["treeSize"])):
        proof["checkpoint"]["envelope"] = sigstore.sign_note(f"rekor.test - 1\n{size}\n{proof['rootHash']}\n")
        shelf.referrers.clear()
        shelf.add_bundle(image.digest, bundle)
        if size == 12:
            assert "another state of the log" in refuse(image, policy).message
    (signature,) = check(image, policy).signatures
    assert signature.log is not None
    assert signature.log.log_index == 3


@pytest.mark.parametrize("promise", [True, False])
def test_entry_of_a_log_that_had_ended_does_not_count(shelf: Shelf, sigstore: Sigstore, promise: bool) -> None:
    """A retired log's key may be stolen, and what it signs then nobody sees; also where only a timestamp says when."""
    bundle = sign_bundle("sha256:" + "a" * 64, sigstore.issue(), sigstore)
    if not promise:
        bundle["verificationMaterial"]["tlogEntries"][0].pop("inclusionPromise")
    evidence = parse_bundle(json.dumps(bundle).encode(), "sha256:" + "a" * 64)
    document = json.loads(sigstore.trusted_root())
    for end, trusted in (("2026-02-28T00:00:00Z", False), ("2026-03-02T00:00:00Z", True)):
        document["tlogs"][0]["publicKey"]["validFor"]["end"] = end
        logs = parse_trusted_root(json.dumps(document).encode(), "root.json").logs
        with nullcontext() if trusted else pytest.raises(Problem, match="was not trusted"):
            check_periods(evidence, logs, [NOW])
    image = put_bundle(shelf, sigstore, lambda _: None)
    document["tlogs"][0]["publicKey"]["validFor"]["end"] = "2026-02-28T00:00:00Z"
    root = Root("root.json", json.dumps(document).encode())
    assert "was not trusted" in refuse(image, trust(identities=(OURS,), root=root)).message


def test_a_second_entry_of_an_unknown_log_does_no_harm(shelf: Shelf, sigstore: Sigstore, policy: Policy) -> None:
    """Nobody can check it; so with rekorURL, a bundle may have entries of other logs too."""

    def change(bundle: dict[str, Any]) -> None:
        entries = bundle["verificationMaterial"]["tlogEntries"]
        entries.insert(0, Sigstore().log(dsse(b"other", b"other", sigstore.issue().pem)).for_bundle())

    image = put_bundle(shelf, sigstore, change)
    (signature,) = check(image, policy).signatures
    assert signature.log is not None
    assert signature.log.log_id == sigstore.log_id.hex()


def test_a_second_entry_that_is_wrong_spoils_the_first(shelf: Shelf, sigstore: Sigstore, policy: Policy) -> None:
    def change(bundle: dict[str, Any]) -> None:
        entries = bundle["verificationMaterial"]["tlogEntries"]
        entries.append(sigstore.log(dsse(b"other", b"other", sigstore.issue().pem)).for_bundle())

    assert isinstance(refuse(put_bundle(shelf, sigstore, change), policy), BadSignatureError)


@pytest.mark.parametrize("size", range(1, 18))
def test_proofs_hold_at_every_place_of_a_log(sigstore: Sigstore, size: int) -> None:
    from schedkit.trust.evidence import Proof
    from schedkit.trust.log import check_inclusion

    for index in range(size):
        made = sigstore.log({"n": index}, neighbours=size - 1, index=index)
        proof = Proof(index, size, made.root, made.hashes, made.checkpoint)
        check_inclusion(made.body, proof)


def test_default_policy_trusts_our_own_workflows_only() -> None:
    (rule,) = DEFAULT_POLICY.rules
    assert rule.identities == (OURS,)
    assert not rule.keys
    assert rule.needs_log_for_identities
