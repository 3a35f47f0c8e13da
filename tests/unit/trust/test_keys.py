"""Signatures made with keys, in both formats; tests/integration/trust has the same of real cosign."""

import base64
import subprocess
import sys

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_public_key,
)

from schedkit.errors import ExitCode
from schedkit.trust.bundle import encode_message
from schedkit.trust.curve_keys import encode_curve_key, parse_curve_key
from schedkit.trust.errors import BadSignatureError, NoLogEntryError, UnsignedError, UntrustedError
from schedkit.trust.keys import KeyProblem, is_signed_by, load_key, make_fingerprint, parse_key
from schedkit.trust.model import Format, SignerKind
from tests.unit.trust.material import (
    NOW,
    Sigstore,
    dsse,
    hashedrekord,
    hashedrekord_2,
    intoto,
    make_bundle,
    make_key,
    make_payload,
    make_statement,
    pem,
    sign,
    sign_bundle,
    sign_simply,
    spki,
)
from tests.unit.trust.material import b64 as to_base64
from tests.unit.trust.rules import check, refuse, trust
from tests.unit.trust.shelf import Shelf, make_image

KINDS = ("p256", "p384", "p521", "rsa", "ed25519")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("logged", [False, True])
def test_each_kind_of_key_counts_in_both_formats(shelf: Shelf, sigstore: Sigstore, kind: str, logged: bool) -> None:
    key, image = make_key(kind), make_image(shelf)
    policy = trust(key, sigstore=sigstore, require_log=logged)
    shelf.add_simple(image.digest, sign_simply(image.digest, key, sigstore if logged else None))
    (first,) = check(image, policy).signatures
    shelf.tags.clear()
    shelf.add_bundle(image.digest, sign_bundle(image.digest, key, sigstore if logged else None))
    (second,) = check(image, policy).signatures
    assert (first.format, second.format) == (Format.COSIGN_V2, Format.BUNDLE)
    for found in (first, second):
        assert (found.how, found.on) == (SignerKind.KEY, image.digest)
        assert found.who == f"key {parse_key(pem(key), '').fingerprint} (0.pub)"
        assert found.signed_at == (NOW if logged else None)
        assert (found.log is not None) == logged


@pytest.mark.parametrize(("kind", "algorithm"), [("p384", hashes.SHA384()), ("p521", hashes.SHA512())])
def test_large_curves_sign_with_their_own_hash_too(kind: str, algorithm: hashes.HashAlgorithm) -> None:
    key = make_key(kind)
    assert is_signed_by(key.public_key(), sign(key, b"text", algorithm), b"text")


def test_p256_signs_with_sha256_only() -> None:
    key = make_key()
    assert not is_signed_by(key.public_key(), sign(key, b"text", hashes.SHA512()), b"text")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_no_other_key_of_any_type_made_it(kind: str, other: str) -> None:
    assert not is_signed_by(make_key(other).public_key(), sign(make_key(kind), b"text"), b"text")


def test_image_without_signatures_is_unsigned(shelf: Shelf) -> None:
    refusal = refuse(make_image(shelf), trust(make_key()))
    assert isinstance(refusal, UnsignedError)
    assert (refusal.exit_code, refusal.attempts) == (ExitCode.UNSIGNED, ())


@pytest.mark.parametrize("predicate", [None, "https://slsa.dev/provenance/v1"])
def test_attestation_is_not_a_signature(shelf: Shelf, predicate: str | None) -> None:
    key, image = make_key(), make_image(shelf)
    statement = make_statement(image.digest, "https://slsa.dev/provenance/v1")
    signature = sign(key, encode_message("application/vnd.in-toto+json", statement))
    shelf.add_bundle(image.digest, make_bundle(statement, signature, key), predicate=predicate)
    assert isinstance(refuse(image, trust(key)), UnsignedError)


def test_signature_by_another_key_names_both_keys(shelf: Shelf) -> None:
    key, other, image = make_key(), make_key(), make_image(shelf)
    shelf.add_bundle(image.digest, sign_bundle(image.digest, other))
    refusal = refuse(image, trust(key))
    assert isinstance(refusal, UntrustedError)
    assert parse_key(pem(other), "").fingerprint in refusal.message
    assert parse_key(pem(key), "").fingerprint in refusal.message


def test_signature_copied_from_another_image_does_not_count(shelf: Shelf) -> None:
    key, image = make_key(), make_image(shelf)
    other = "sha256:" + "a" * 64
    shelf.add_simple(image.digest, sign_simply(other, key))
    shelf.add_bundle(image.digest, sign_bundle(other, key))
    refusal = refuse(image, trust(key))
    assert isinstance(refusal, BadSignatureError)
    assert [other in attempt.problem for attempt in refusal.attempts] == [True, True]


def test_payload_that_was_changed_after_signing_does_not_count(shelf: Shelf) -> None:
    key, image = make_key(), make_image(shelf)
    _, annotations = sign_simply("sha256:" + "a" * 64, key)
    shelf.add_simple(image.digest, (make_payload(image.digest), annotations))
    bundle = sign_bundle("sha256:" + "a" * 64, key)
    bundle["dsseEnvelope"]["payload"] = to_base64(make_statement(image.digest))
    shelf.add_bundle(image.digest, bundle)
    refusal = refuse(image, trust(key))
    # The bundle says which key it is of, so that it is known to be broken; the other might be of any key.
    assert [attempt.reason.value for attempt in refusal.attempts] == ["untrusted", "bad-signature"]


def test_payload_of_another_kind_does_not_count(shelf: Shelf) -> None:
    key, image = make_key(), make_image(shelf)
    payload = make_payload(image.digest, "atomic container signature of something else")
    annotations = {"dev.cosignproject.cosign/signature": to_base64(sign(key, payload))}
    shelf.add_simple(image.digest, (payload, annotations))
    assert isinstance(refuse(image, trust(key)), BadSignatureError)


def test_log_is_wanted_only_where_the_policy_says_so(shelf: Shelf, sigstore: Sigstore) -> None:
    key, image = make_key(), make_image(shelf)
    shelf.add_simple(image.digest, sign_simply(image.digest, key))
    assert check(image, trust(key, sigstore=sigstore))
    assert isinstance(refuse(image, trust(key, sigstore=sigstore, require_log=True)), NoLogEntryError)
    named = trust(key, sigstore=sigstore, rekor_url=sigstore.url, require_log=True)
    assert isinstance(refuse(image, named), NoLogEntryError)
    assert check(image, trust(key, sigstore=sigstore, rekor_url=sigstore.url)), "as the Go schedctl does"
    assert check(image, trust(key, sigstore=sigstore, rekor_url=sigstore.url, require_log=False))


def test_all_kinds_of_entries_bind_the_key(shelf: Shelf, sigstore: Sigstore) -> None:
    key, stranger, image = make_key(), make_key(), make_image(shelf)
    statement = make_statement(image.digest)
    message = encode_message("application/vnd.in-toto+json", statement)
    signature, again = sign(key, message), sign(key, message)
    policy = trust(key, sigstore=sigstore, require_log=True)

    def outcome(body: dict[str, object]) -> str:
        shelf.referrers.clear()
        entry = sigstore.log(body).for_bundle()
        shelf.add_bundle(image.digest, make_bundle(statement, signature, key, [entry]))
        try:
            check(image, policy)
        except BadSignatureError as error:
            return error.attempts[0].problem
        return "accepted"

    raw = {"publicKey": {"rawBytes": to_base64(spki(key))}, "keyDetails": "PKIX_ECDSA_P256_SHA_256"}
    of_stranger = {"publicKey": {"rawBytes": to_base64(spki(stranger))}}
    assert outcome(hashedrekord(message, signature, pem(key))) == "accepted"
    assert outcome(hashedrekord_2(message, signature, raw)) == "accepted"
    assert outcome(dsse(statement, signature, pem(key))) == "accepted"
    assert outcome(intoto(statement, signature, pem(key))) == "accepted"
    for body in (
        hashedrekord(b"other", signature, pem(key)),
        hashedrekord_2(b"other", signature, raw),
        dsse(b"other", signature, pem(key)),
        intoto(b"other", signature, pem(key)),
    ):
        assert "another content" in outcome(body)
    for body in (
        hashedrekord(message, again, pem(key)),
        hashedrekord_2(message, again, raw),
        dsse(statement, again, pem(key)),
        intoto(statement, again, pem(key)),
    ):
        assert "another signature" in outcome(body)
    for body in (
        hashedrekord(message, signature, pem(stranger)),
        hashedrekord_2(message, signature, of_stranger),
        dsse(statement, signature, pem(stranger)),
        intoto(statement, signature, pem(stranger)),
    ):
        assert "another signer" in outcome(body)
    assert "kind that does not bind" in outcome({"kind": "rekord", "apiVersion": "0.0.1", "spec": {}})


def test_keyed_check_imports_no_sigstore() -> None:
    code = (
        "import sys\n"
        "from tests.unit.trust.material import *; from tests.unit.trust.rules import *\n"
        "from tests.unit.trust.shelf import *\n"
        "key, shelf, log = make_key(), Shelf(), Sigstore(); image = make_image(shelf)\n"
        "shelf.add_bundle(image.digest, sign_bundle(image.digest, key, log))\n"
        "check(image, trust(key, sigstore=log, require_log=True))\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('sigstore', 'tuf', 'rfc3161_client')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("kind", ["p256", "p384", "p521"])
def test_key_on_a_curve_is_read_and_written_as_cryptography_does(kind: str) -> None:
    for _ in range(20):  # coordinates that begin with zeros among them
        key = make_key(kind)
        found = parse_curve_key(spki(key))
        assert found == key.public_key()
        assert found is not None
        assert encode_curve_key(found) == spki(key)


@pytest.mark.parametrize("kind", ["p256", "p384", "p521"])
def test_key_that_is_not_on_its_curve_is_refused(kind: str) -> None:
    der = spki(make_key(kind))
    wrong = der[:-1] + bytes([der[-1] ^ 1])
    with pytest.raises(ValueError, match=r"\w"):
        load_der_public_key(wrong)
    with pytest.raises(ValueError, match=r"\w"):
        parse_curve_key(wrong)
    text = b"-----BEGIN PUBLIC KEY-----\n" + base64.encodebytes(wrong) + b"-----END PUBLIC KEY-----\n"
    with pytest.raises(KeyProblem, match="not a public key in PEM"):
        parse_key(text, "wrong.pub")


def test_key_in_any_other_form_is_left_to_cryptography() -> None:
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    short = key.public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    compressed = bytes.fromhex("3039301306072a8648ce3d020106082a8648ce3d030107032200") + short
    assert load_key(compressed) == key
    others = (compressed, der[:-1], der + b"\0", b"", spki(make_key("rsa")), spki(make_key("ed25519")))
    assert [parse_curve_key(one) for one in others] == [None] * len(others)
    text = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for written in (text, text.strip(), text.replace(b"\n", b"\r\n"), b"cosign's\n" + text):
        assert parse_key(written, "cosign.pub").fingerprint == make_fingerprint(der)


def test_keys_that_are_not_taken_say_why() -> None:
    private = make_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    small = rsa.generate_private_key(65537, 1024)  # noqa: S505
    other = dsa.generate_private_key(2048).public_key()
    for data, why in (
        (private, "private key"),
        (pem(small), "1024 bits"),
        (other.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo), "neither ECDSA"),
        (b"hello", "not a public key"),
        (b"", "not a public key"),
    ):
        with pytest.raises(KeyProblem, match=why):
            parse_key(data, "key.pub")
