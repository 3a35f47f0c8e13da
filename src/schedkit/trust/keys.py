"""Public keys: read, named by their fingerprint, and asked whether they made a signature."""

import base64
import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from schedkit.trust.curve_keys import HEADERS, encode_curve_key, parse_curve_key
from schedkit.trust.reading import MalformedError, decode_pem

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey

SMALLEST_RSA = 2048
LARGEST_RSA = 8192  # checking takes longer with each bit


class KeyProblem(ValueError):
    """Why something is not a key that we take."""


class VerificationKey:
    """A key that a policy names."""

    def __init__(self, path: str, fingerprint: str, public: "PublicKey") -> None:
        self.path: Final = path  # as the policy writes it
        self.fingerprint: Final = fingerprint  # SHA256:…, as OpenSSH writes one, of the key in DER
        self.public: Final = public

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VerificationKey) and str(other) == str(self)

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __str__(self) -> str:
        return f"key {self.fingerprint} ({self.path})"


def parse_key(data: bytes, path: str) -> VerificationKey:
    """A public key in PEM; KeyProblem for what is none, or none that we take."""
    from cryptography.exceptions import UnsupportedAlgorithm

    if b"PRIVATE KEY" in data:
        raise KeyProblem("it is a private key; use the public key (cosign.pub), and keep this one secret")
    try:
        public = check_key(_load_pem(data))
    except KeyProblem:
        raise
    except (ValueError, UnsupportedAlgorithm) as error:
        raise KeyProblem("it is not a public key in PEM") from error
    return VerificationKey(path, make_fingerprint(encode_key(public)), public)


def load_key(der: bytes) -> object:
    """A public key in DER, of any kind; ValueError or UnsupportedAlgorithm if it is none."""
    key = parse_curve_key(der)
    if key is not None:
        return key
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    return load_der_public_key(der)


def _load_pem(data: bytes) -> object:
    """A public key in PEM: as cosign writes it, or in any other way that cryptography takes."""
    with suppress(MalformedError):
        der = decode_pem(data, "PUBLIC KEY")
        key = parse_curve_key(der) if der else None
        if key is not None:
            return key
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    return load_pem_public_key(data)


def check_key(key: object) -> "PublicKey":
    """The same key, if it is of a kind that we take."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    match key:
        case ec.EllipticCurvePublicKey():
            if key.curve.name not in HEADERS:
                raise KeyProblem(f"its curve is {key.curve.name}, and only P-256, P-384 and P-521 are taken")
            return key
        case rsa.RSAPublicKey():
            if not SMALLEST_RSA <= key.key_size <= LARGEST_RSA:
                raise KeyProblem(f"it is RSA with {key.key_size} bits, and {SMALLEST_RSA} to {LARGEST_RSA} are taken")
            return key
        case ed25519.Ed25519PublicKey():
            return key
    raise KeyProblem("it is neither ECDSA, RSA nor Ed25519")


def encode_key(key: "PublicKey") -> bytes:
    """Encode a key in DER: the same key gives the same bytes, whatever file it came from."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

    if isinstance(key, EllipticCurvePublicKey):
        return encode_curve_key(key)
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def make_fingerprint(der: bytes) -> str:
    """A short name that nobody else's key has."""
    return f"SHA256:{base64.b64encode(hashlib.sha256(der).digest()).decode().rstrip('=')}"


def is_signed_by(key: "PublicKey", signature: bytes, message: bytes) -> bool:
    """Whether this key made this signature of this message, in the ways that cosign signs with such a key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

    def matches(algorithm: hashes.HashAlgorithm | None) -> bool:
        try:
            if isinstance(key, ec.EllipticCurvePublicKey):
                key.verify(signature, message, ec.ECDSA(algorithm or hashes.SHA256()))
            elif isinstance(key, rsa.RSAPublicKey):
                key.verify(signature, message, padding.PKCS1v15(), algorithm or hashes.SHA256())
            else:
                key.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    if not isinstance(key, ec.EllipticCurvePublicKey):
        return matches(None)
    # With the larger curves cosign v2 takes SHA-256 and v3 the hash of the curve's size.
    own = {"secp384r1": hashes.SHA384(), "secp521r1": hashes.SHA512()}.get(key.curve.name)
    return (own is not None and matches(own)) or matches(hashes.SHA256())
