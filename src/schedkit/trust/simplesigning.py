"""cosign v2: a layer whose blob is a payload that names the image, and whose annotations hold the signature."""

from collections.abc import Mapping
from contextlib import suppress

from schedkit.trust.evidence import Evidence, EvidenceEntry
from schedkit.trust.model import Format
from schedkit.trust.reading import MalformedError, decode_base64, decode_pem, parse_object

SIGNATURES = "application/vnd.dev.cosign.artifact.sig.v1+json"  # the artifact, where it refers to its image
LAYER = "application/vnd.dev.cosign.simplesigning.v1+json"
SIGNATURE = "dev.cosignproject.cosign/signature"
CERTIFICATE = "dev.sigstore.cosign/certificate"
LOG = "dev.sigstore.cosign/bundle"
TIMESTAMP = "dev.sigstore.cosign/rfc3161timestamp"
# What the payload says it is. The second is what cosign v3 writes there.
TYPES = ("cosign container image signature", "https://sigstore.dev/cosign/sign/v1")
LARGEST_PAYLOAD = 64 * 1024


def parse_simple_signature(payload: bytes, annotations: Mapping[str, str]) -> Evidence:
    """Parse a layer's bytes and annotations; MalformedError where they make no sense."""
    if SIGNATURE not in annotations:
        raise MalformedError("the layer carries no signature")
    log, timestamp = annotations.get(LOG, "").strip(), annotations.get(TIMESTAMP, "").strip()
    certificate = annotations.get(CERTIFICATE, "").strip()
    return Evidence(
        format=Format.COSIGN_V2,
        digest=parse_payload(payload),
        message=payload,
        payload=payload,
        signature=decode_base64(annotations[SIGNATURE], "the signature"),
        certificate=_parse_certificate(certificate) if certificate else None,
        hint="",
        entries=(_parse_entry(log),) if log and log != "null" else (),
        timestamps=(_parse_timestamp(timestamp),) if timestamp and timestamp != "null" else (),
        proof_needed=False,
    )


def parse_payload(payload: bytes) -> str:
    """The digest that a payload names."""
    critical = parse_object(payload, "the payload").inner("critical")
    if critical.text("type") not in TYPES:
        raise MalformedError(f"the payload is a {critical.text('type')[:100]!r}, not a signature of an image")
    return critical.inner("image").text("docker-manifest-digest")


def _parse_certificate(text: str) -> bytes:
    from cryptography.x509 import InvalidVersion, load_pem_x509_certificate

    try:
        certificate = load_pem_x509_certificate(text.encode())
        with suppress(MalformedError):  # more than one: the first counts, as in cosign
            der = decode_pem(text.encode(), "CERTIFICATE")
            if der is not None:  # as cosign writes it: without the import below
                return der
        from cryptography.hazmat.primitives.serialization import Encoding

        return certificate.public_bytes(Encoding.DER)
    except (ValueError, InvalidVersion) as error:
        raise MalformedError("the certificate cannot be read") from error


def _parse_entry(text: str) -> EvidenceEntry:
    document = parse_object(text, "the log entry")
    payload = document.inner("Payload")
    return EvidenceEntry(
        body=payload.bytes("body"),
        log_id=payload.hexadecimal("logID"),
        log_index=payload.number("logIndex"),
        integrated=payload.number("integratedTime"),
        promise=document.bytes("SignedEntryTimestamp"),
        proof=None,
    )


def _parse_timestamp(text: str) -> bytes:
    return parse_object(text, "the timestamp").bytes("SignedRFC3161Timestamp")
