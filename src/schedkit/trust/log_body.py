"""What a log entry is about: it must be this signature, of this content, by this signer, and no other."""

import hashlib
from typing import TYPE_CHECKING

from schedkit.trust.errors import bad_signature
from schedkit.trust.evidence import Evidence
from schedkit.trust.reading import Fields, MalformedError, decode_base64, decode_pem, parse_object

if TYPE_CHECKING:
    from collections.abc import Callable

HASHES = {"sha256": "sha256", "sha384": "sha384", "sha512": "sha512"}
HASHES |= {"SHA2_256": "sha256", "SHA2_384": "sha384", "SHA2_512": "sha512"}
MOST_SIGNATURES = 8


def check_body(body: bytes, evidence: Evidence, signer: bytes) -> None:
    """Problem unless the entry is of this evidence; `signer` is the certificate or the key in DER."""
    document = parse_object(body, "the log entry")
    kind = document.text("kind"), document.text("apiVersion")
    if kind not in KINDS:
        raise bad_signature(f"its log entry is of a kind that does not bind it: {kind[0][:40]!r} {kind[1][:20]!r}")
    content, signature, signers = KINDS[kind](document.inner("spec"), evidence)
    if not content:
        raise bad_signature("its log entry is of another content than this signature")
    if not signature:
        raise bad_signature("its log entry is of another signature")
    if signers != [signer]:
        raise bad_signature("its log entry is of another signer")


# Each tells whether the entry is of this content and of this signature, and whom (in DER) it names as signers.
Bound = tuple[bool, bool, list[bytes]]


def _read_hashedrekord_1(spec: Fields, evidence: Evidence) -> Bound:
    digest, signature = spec.inner("data").inner("hash"), spec.inner("signature")
    return (
        _hash(digest.text("algorithm"), evidence.message).hex() == digest.text("value"),
        signature.bytes("content") == evidence.signature,
        [_decode_signer(signature.inner("publicKey").bytes("content"))],
    )


def _read_hashedrekord_2(spec: Fields, evidence: Evidence) -> Bound:
    entry = spec.inner("hashedRekordV002")
    data, signature = entry.inner("data"), entry.inner("signature")
    verifier = signature.inner("verifier")
    name = "x509Certificate" if verifier.has("x509Certificate") else "publicKey"
    return (
        _hash(data.text("algorithm"), evidence.message) == data.bytes("digest"),
        signature.bytes("content") == evidence.signature,
        [verifier.inner(name).bytes("rawBytes")],
    )


def _read_dsse(spec: Fields, evidence: Evidence) -> Bound:
    digest = spec.inner("payloadHash")
    signatures = list(spec.each("signatures", MOST_SIGNATURES))
    return (
        _hash(digest.text("algorithm"), evidence.payload).hex() == digest.text("value"),
        [one.bytes("signature") for one in signatures] == [evidence.signature],
        [_decode_signer(one.bytes("verifier")) for one in signatures],
    )


def _read_intoto(spec: Fields, evidence: Evidence) -> Bound:
    content = spec.inner("content")
    digest, signatures = (
        content.inner("payloadHash"),
        list(content.inner("envelope").each("signatures", MOST_SIGNATURES)),
    )
    # The signature is base64 in the envelope, and that text is put into base64 once more in the entry.
    found = [decode_base64(one.bytes("sig").decode("ascii", "replace"), "the signature") for one in signatures]
    return (
        _hash(digest.text("algorithm"), evidence.payload).hex() == digest.text("value"),
        found == [evidence.signature],
        [_decode_signer(one.bytes("publicKey")) for one in signatures],
    )


KINDS: "dict[tuple[str, str], Callable[[Fields, Evidence], Bound]]" = {
    ("hashedrekord", "0.0.1"): _read_hashedrekord_1,
    ("hashedrekord", "0.0.2"): _read_hashedrekord_2,
    ("dsse", "0.0.1"): _read_dsse,
    ("intoto", "0.0.2"): _read_intoto,
}


def _decode_signer(data: bytes) -> bytes:
    der = decode_pem(data, "CERTIFICATE", "PUBLIC KEY")
    if der is None:
        raise MalformedError("the log entry names a signer that is neither one certificate nor one key")
    return der


def _hash(algorithm: str, data: bytes) -> bytes:
    if algorithm not in HASHES:
        raise MalformedError(f"the log entry has a hash that we do not know: {algorithm[:20]!r}")
    return hashlib.new(HASHES[algorithm], data).digest()
