"""Short-lived certificates: issued by a trusted authority, valid when it was signed, and in a CT log."""

import struct
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from schedkit.trust.errors import Problem, bad_signature
from schedkit.trust.keys import KeyProblem, check_key, encode_key, is_signed_by
from schedkit.trust.model import RefusalReason
from schedkit.trust.reading import MalformedError
from schedkit.trust.trusted_root import Authority, Log, TrustedRoot

if TYPE_CHECKING:
    from cryptography.x509 import Certificate
    from cryptography.x509.certificate_transparency import SignedCertificateTimestamp

    from schedkit.trust.keys import PublicKey

MOST_CERTIFICATE_TIMESTAMPS = 8


def parse_certificate(data: bytes) -> "Certificate":
    """A signer's certificate, from DER."""
    from cryptography.x509 import InvalidVersion, load_der_x509_certificate

    try:
        return load_der_x509_certificate(data)
    except (ValueError, InvalidVersion) as error:
        raise MalformedError("the certificate cannot be read") from error


def get_key(certificate: "Certificate") -> "PublicKey":
    """The key that the certificate speaks for."""
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return check_key(certificate.public_key())
    except (KeyProblem, ValueError, UnsupportedAlgorithm) as error:
        raise MalformedError(f"the certificate's key cannot be used: {error}") from error


def check_certificate(certificate: "Certificate", times: Sequence[datetime], root: TrustedRoot) -> None:
    """That this certificate could sign code at each of these times."""
    authority = _find_issuer(certificate, root)
    for time in times:
        _check_time(certificate, authority, time)
        _check_path(certificate, authority, time)
    if not _may_sign_code(certificate):
        raise bad_signature("its certificate is not for code signing")
    # A root that names no CT log is one of a private installation that has none.
    if root.needs_sct:
        _check_logged(certificate, authority.chain[0], root.certificate_logs)


def _find_issuer(certificate: "Certificate", root: TrustedRoot) -> Authority:
    found = [one for one in root.authorities if _is_issued_by(certificate, one.chain[0])]
    if not found:
        raise Problem(
            RefusalReason.UNTRUSTED, f"its certificate is issued by no trusted certificate authority ({root.origin})"
        )
    # The same authority may be there for several periods: the one that was trusted then.
    return next((one for one in found if one.period.holds(certificate.not_valid_before_utc)), found[0])


def _is_issued_by(certificate: "Certificate", issuer: "Certificate") -> bool:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        certificate.verify_directly_issued_by(issuer)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError):
        return False
    return True


def _check_time(certificate: "Certificate", authority: Authority, time: datetime) -> None:
    if not certificate.not_valid_before_utc <= time <= certificate.not_valid_after_utc:
        raise Problem(
            RefusalReason.EXPIRED,
            f"it was signed at {_tell(time)}, and its certificate was valid from "
            f"{_tell(certificate.not_valid_before_utc)} to {_tell(certificate.not_valid_after_utc)}",
        )
    chain_holds = all(one.not_valid_before_utc <= time <= one.not_valid_after_utc for one in authority.chain)
    if not authority.period.holds(time) or not chain_holds:
        raise Problem(
            RefusalReason.EXPIRED,
            f"it was signed at {_tell(time)}, when the certificate authority was not trusted",
        )


def _check_path(certificate: "Certificate", authority: Authority, time: datetime) -> None:
    """RFC 5280, from the certificate up to the authority's root."""
    from cryptography.x509 import ExtendedKeyUsage, UnsupportedGeneralNameType
    from cryptography.x509.verification import Criticality, ExtensionPolicy, PolicyBuilder, Store, VerificationError

    # As it stands, cryptography wants certificates of web clients; that these are for code is checked apart.
    own = ExtensionPolicy.webpki_defaults_ee().may_be_present(ExtendedKeyUsage, Criticality.AGNOSTIC, None)
    above = ExtensionPolicy.webpki_defaults_ca().may_be_present(ExtendedKeyUsage, Criticality.AGNOSTIC, None)
    verifier = (
        PolicyBuilder()
        .store(Store([authority.chain[-1]]))
        .time(time)
        .extension_policies(ca_policy=above, ee_policy=own)
        .build_client_verifier()
    )
    try:
        verifier.verify(certificate, list(authority.chain[:-1]))
    except (VerificationError, UnsupportedGeneralNameType, ValueError) as error:
        raise bad_signature(f"the chain of its certificate does not hold: {error}") from error


def _may_sign_code(certificate: "Certificate") -> bool:
    from cryptography.x509 import ExtendedKeyUsage, ExtensionNotFound, KeyUsage
    from cryptography.x509.oid import ExtendedKeyUsageOID

    try:
        usage = certificate.extensions.get_extension_for_class(KeyUsage).value
        purposes = certificate.extensions.get_extension_for_class(ExtendedKeyUsage).value
    except (ExtensionNotFound, ValueError):
        return False
    return usage.digital_signature and ExtendedKeyUsageOID.CODE_SIGNING in list(purposes)


def _check_logged(certificate: "Certificate", issuer: "Certificate", logs: Sequence[Log]) -> None:
    """That a CT log promised to hold it (SCT; RFC 6962, 3.2): so that its owner can find out about it."""
    from cryptography.x509 import ExtensionNotFound, PrecertificateSignedCertificateTimestamps

    try:
        kind = PrecertificateSignedCertificateTimestamps
        stamps = list(certificate.extensions.get_extension_for_class(kind).value)
    except (ExtensionNotFound, ValueError) as error:
        raise bad_signature("its certificate has no SCT: it is in no CT log") from error
    for stamp in stamps[:MOST_CERTIFICATE_TIMESTAMPS]:
        log = next((log for log in logs if log.id == stamp.log_id), None)
        if log and _is_promised(stamp, certificate, issuer, log):
            return
    raise bad_signature("its certificate has no SCT of a trusted CT log")


def _is_promised(
    stamp: "SignedCertificateTimestamp", certificate: "Certificate", issuer: "Certificate", log: Log
) -> bool:
    from hashlib import sha256

    from cryptography.x509.certificate_transparency import LogEntryType

    if stamp.entry_type is not LogEntryType.PRE_CERTIFICATE:
        return False
    body = certificate.tbs_precertificate_bytes
    time = stamp.timestamp.replace(tzinfo=UTC)
    milliseconds = int(time.timestamp()) * 1000 + time.microsecond // 1000
    signed = b"".join(
        (
            struct.pack("!BBQH", stamp.version.value, 0, milliseconds, stamp.entry_type.value),
            sha256(encode_key(get_key(issuer))).digest(),
            len(body).to_bytes(3, "big"),
            body,
            struct.pack("!H", len(stamp.extension_bytes)),
            stamp.extension_bytes,
        )
    )
    return log.period.holds(time) and is_signed_by(log.key, stamp.signature, signed)


def _tell(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
