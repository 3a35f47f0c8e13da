"""The sigstore bundle of cosign v3: a signed statement about an image, or a file's signature, and what proves it."""

import hashlib

from schedkit.trust.evidence import MOST_ENTRIES, MOST_HASHES, MOST_TIMESTAMPS, Evidence, EvidenceEntry, Proof
from schedkit.trust.model import Format
from schedkit.trust.reading import Fields, MalformedError, decode_base64, parse_object

PREFIX = "application/vnd.dev.sigstore.bundle"
PREDICATE_ANNOTATION = "dev.sigstore.bundle.predicateType"
SIGN = "https://sigstore.dev/cosign/sign/v1"
STATEMENT_TYPE = "application/vnd.in-toto+json"
STATEMENTS = ("https://in-toto.io/Statement/v1", "https://in-toto.io/Statement/v0.1")
# Media type → whether a log entry in it must come with a proof of inclusion.
KINDS = {
    f"{PREFIX}+json;version=0.1": False,
    f"{PREFIX}+json;version=0.2": True,
    f"{PREFIX}+json;version=0.3": True,
    f"{PREFIX}.v0.3+json": True,
}
LARGEST_BUNDLE = 1 << 20
MOST_SUBJECTS = 64
MOST_CERTIFICATES = 8


class AttestationError(MalformedError):
    """A statement about the image that is not a signature of it; no try, and no failure either."""


def parse_bundle(data: bytes, digest: str) -> Evidence:
    """A bundle that shall be a signature of `digest`; MalformedError where it makes no sense."""
    document = _parse_document(data)
    if not document.has("dsseEnvelope"):
        raise MalformedError("the bundle signs bytes, and makes no statement about an image")
    envelope = document.inner("dsseEnvelope")
    payload, payload_type = envelope.bytes("payload"), envelope.text("payloadType")
    if payload_type != STATEMENT_TYPE:
        raise MalformedError(f"the bundle's envelope holds {payload_type[:100]!r}, not a statement")
    signatures = list(envelope.each("signatures", 2))
    if len(signatures) != 1:
        raise MalformedError("the bundle's envelope must hold exactly one signature")
    message = encode_message(payload_type, payload)
    return _make_evidence(document, parse_statement(payload, digest), message, payload, signatures[0].bytes("sig"))


def parse_file_bundle(data: bytes, content: bytes) -> Evidence:
    """A bundle that shall be a signature of a file, as `cosign sign-blob` writes it; MalformedError likewise."""
    document = _parse_document(data)
    if not document.has("messageSignature"):
        raise MalformedError("the bundle does not sign a file: it has no messageSignature")
    signed = document.inner("messageSignature")
    digest = _parse_message_digest(signed.inner("messageDigest"), content)
    return _make_evidence(document, digest, content, content, signed.bytes("signature"))


def _parse_document(data: bytes) -> Fields:
    document = parse_object(data, "the bundle")
    kind = document.text("mediaType")
    if kind not in KINDS:
        raise MalformedError(f"the bundle is of a kind that we do not know: {kind[:100]!r}")
    return document


def _make_evidence(document: Fields, digest: str, message: bytes, payload: bytes, signature: bytes) -> Evidence:
    """What is the same in all bundles, with what is not."""
    material = document.inner("verificationMaterial")
    certificate, hint = _parse_signer(material)
    stamps = material.inner("timestampVerificationData") if material.has("timestampVerificationData") else None
    return Evidence(
        format=Format.BUNDLE,
        digest=digest,
        message=message,
        payload=payload,
        signature=signature,
        certificate=certificate,
        hint=hint,
        entries=tuple(_parse_entry(entry) for entry in material.each("tlogEntries", MOST_ENTRIES)),
        timestamps=tuple(
            stamp.bytes("signedTimestamp")
            for stamp in (stamps.each("rfc3161Timestamps", MOST_TIMESTAMPS) if stamps else ())
        ),
        proof_needed=KINDS[document.text("mediaType")],
    )


def _parse_message_digest(named: Fields, content: bytes) -> str:
    """The SHA-256 digest of the content if the named one, of any algorithm, agrees with it; else the named one."""
    from schedkit.trust.log_body import HASHES

    algorithm, value = named.text("algorithm"), named.bytes("digest")
    if algorithm not in HASHES:
        raise MalformedError(f"the bundle has a hash that we do not know: {algorithm[:20]!r}")
    if hashlib.new(HASHES[algorithm], content).digest() != value:
        return f"{HASHES[algorithm]}:{value.hex()}"
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def parse_statement(payload: bytes, digest: str) -> str:
    """The digest that a signing statement names: `digest`, if that is among them."""
    statement = parse_object(payload, "the statement")
    if statement.text("_type") not in STATEMENTS:
        raise MalformedError(f"the statement is of a kind that we do not know: {statement.text('_type')[:100]!r}")
    if statement.text("predicateType") != SIGN:
        raise AttestationError(f"it attests {statement.text('predicateType')[:100]!r}, and signs nothing")
    named = []
    algorithm, _, expected = digest.partition(":")
    for subject in statement.each("subject", MOST_SUBJECTS):
        digests = subject.inner("digest")
        if digests.has(algorithm):
            named.append(f"{algorithm}:{digests.text(algorithm)}")
    if not named:
        raise MalformedError(f"the statement names no {algorithm} digest")
    return digest if f"{algorithm}:{expected}" in named else named[0]


def encode_message(payload_type: str, payload: bytes) -> bytes:
    """What is signed of an envelope (DSSE's pre-authentication encoding)."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def _parse_signer(material: Fields) -> tuple[bytes | None, str]:
    """The certificate in DER, or the hint at a key."""
    if material.has("certificate"):
        return material.inner("certificate").bytes("rawBytes"), ""
    if material.has("x509CertificateChain"):
        chain = list(material.inner("x509CertificateChain").each("certificates", MOST_CERTIFICATES))
        if not chain:
            raise MalformedError("the bundle's chain of certificates is empty")
        return chain[0].bytes("rawBytes"), ""
    if material.has("publicKey"):
        key = material.inner("publicKey")
        return None, key.text("hint") if key.has("hint") else ""
    raise MalformedError("the bundle says neither which certificate nor which key signed it")


def _parse_entry(entry: Fields) -> EvidenceEntry:
    promise = entry.inner("inclusionPromise") if entry.has("inclusionPromise") else None
    return EvidenceEntry(
        body=entry.bytes("canonicalizedBody"),
        log_id=entry.inner("logId").bytes("keyId"),
        log_index=entry.number("logIndex") if entry.has("logIndex") else 0,
        integrated=(entry.number("integratedTime") or None) if entry.has("integratedTime") else None,
        promise=promise.bytes("signedEntryTimestamp") if promise else None,
        proof=_parse_proof(entry.inner("inclusionProof")) if entry.has("inclusionProof") else None,
    )


def _parse_proof(proof: Fields) -> Proof:
    return Proof(
        log_index=proof.number("logIndex") if proof.has("logIndex") else 0,
        tree_size=proof.number("treeSize"),
        root=proof.bytes("rootHash"),
        hashes=tuple(decode_base64(text, "the proof") for text in proof.texts("hashes", MOST_HASHES)),
        checkpoint=proof.inner("checkpoint").text("envelope") if proof.has("checkpoint") else "",
    )
