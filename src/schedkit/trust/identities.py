"""Identities: who a certificate says has signed, and whether a policy means them."""

import re
from typing import TYPE_CHECKING, NamedTuple

from schedkit.trust.reading import MalformedError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

ISSUER = "1.3.6.1.4.1.57264.1.8"  # DER text
ISSUER_BEFORE_2023 = "1.3.6.1.4.1.57264.1.1"  # raw text
LONGEST = 2048


class Pattern(NamedTuple):
    """A text that must be equal, or a regular expression that must match from the start on."""

    text: str
    is_expression: bool = False

    def matches(self, value: str) -> bool:
        if not self.is_expression:
            return value == self.text
        # From the start of the name, each branch of `a|b` too, with or without `^`: matched anywhere, as cosign does,
        # `https://github.com/me/` would also mean `https://evil.example/?https://github.com/me/`. ASCII, as in RE2.
        return re.match(self.text, value, re.ASCII) is not None

    def __str__(self) -> str:
        return f"/{self.text}/" if self.is_expression else self.text


class Identity(NamedTuple):
    """Whom a policy trusts."""

    issuer: Pattern
    subject: Pattern

    def matches(self, signer: "Signer") -> bool:
        """Whether one of the certificate's names, and its issuer, are meant."""
        return self.issuer.matches(signer.issuer) and any(self.subject.matches(name) for name in signer.subjects)

    def __str__(self) -> str:
        return f"{self.subject} ({self.issuer})"


class Signer(NamedTuple):
    """Whom a certificate names."""

    subjects: tuple[str, ...]
    issuer: str  # who said that it is them: the OIDC provider

    def __str__(self) -> str:
        return f"{', '.join(self.subjects)} ({self.issuer})"


def read_signer(certificate: "Certificate") -> Signer:
    """Subject alternative names and the OIDC issuer; MalformedError where there are none, or none to be shown."""
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        subjects = (
            *names.get_values_for_type(x509.UniformResourceIdentifier),
            *names.get_values_for_type(x509.RFC822Name),
            *names.get_values_for_type(x509.DNSName),
        )
    except (ValueError, x509.ExtensionNotFound, x509.UnsupportedGeneralNameType, x509.DuplicateExtension) as error:
        raise MalformedError("the certificate has no subject alternative name") from error
    signer = Signer(subjects, _read_issuer(certificate))
    said = (*signer.subjects, signer.issuer)
    if not subjects or not all(text and text.isprintable() and len(text) <= LONGEST for text in said):
        raise MalformedError("the certificate has a subject or issuer that cannot be shown")
    return signer


def _read_issuer(certificate: "Certificate") -> str:
    from cryptography import x509

    values = {
        extension.oid.dotted_string: extension.value.value
        for extension in certificate.extensions
        if isinstance(extension.value, x509.UnrecognizedExtension)
    }
    try:
        if ISSUER in values:
            return _decode_der_text(values[ISSUER])
        return values[ISSUER_BEFORE_2023].decode()
    except (KeyError, ValueError) as error:
        raise MalformedError("the certificate has no OIDC issuer") from error


def _decode_der_text(data: bytes) -> str:
    """A DER UTF8String."""
    if len(data) < 2 or data[0] != 0x0C:
        raise ValueError("not a text")
    length, start = data[1], 2
    if length & 0x80:
        start = 2 + (length & 0x7F)
        length = int.from_bytes(data[2:start], "big")
    if len(data) != start + length:
        raise ValueError("of another length than it says")
    return data[start:].decode()
