"""Public keys: read, named by their fingerprint, and asked whether they made a signature."""

import base64
import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey

SMALLEST_RSA = 2048
LARGEST_RSA = 8192  # checking takes longer with each bit
CURVES = ("secp256r1", "secp384r1", "secp521r1")


class KeyProblem(ValueError):
    """Why something is not a key that we take."""


@dataclass(frozen=True)
class VerificationKey:
    """A key that a policy names."""

    path: str  # as the policy writes it
    fingerprint: str  # SHA256:…, as OpenSSH writes one, of the key in DER
    public: "PublicKey" = field(repr=False, compare=False)

    def __str__(self) -> str:
        return f"key {self.fingerprint} ({self.path})"


def parse_key(data: bytes, path: str) -> VerificationKey:
    """A public key in PEM; KeyProblem for what is none, or none that we take."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    if b"PRIVATE KEY" in data:
        raise KeyProblem("it is a private key; use the public key (cosign.pub), and keep this one secret")
    try:
        public = check_key(load_pem_public_key(data))
    except KeyProblem:
        raise
    except (ValueError, UnsupportedAlgorithm) as error:
        raise KeyProblem("it is not a public key in PEM") from error
    return VerificationKey(path, make_fingerprint(encode_key(public)), public)


def check_key(key: object) -> "PublicKey":
    """The same key, if it is of a kind that we take."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    match key:
        case ec.EllipticCurvePublicKey():
            if key.curve.name not in CURVES:
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
