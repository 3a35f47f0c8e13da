"""Public keys on NIST's curves as SubjectPublicKeyInfo in DER (RFC 5480), which cosign, Fulcio and Rekor use.

cryptography's own reader of these comes with all of SSH and with dataclasses: a tenth of `schedctl verify`. For one
curve, all but the point is always the same; what is written in any other way is left to cryptography.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

# What stands before the point: the lengths, id-ecPublicKey, the curve, and no unused bits.
HEADERS = {
    "secp256r1": bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200"),
    "secp384r1": bytes.fromhex("3076301006072a8648ce3d020106052b81040022036200"),
    "secp521r1": bytes.fromhex("30819b301006072a8648ce3d020106052b8104002303818600"),
}
UNCOMPRESSED = b"\4"  # both coordinates follow


def parse_curve_key(der: bytes) -> "EllipticCurvePublicKey | None":
    """The key; None if it is of another kind or written in another way, ValueError if it is not on its curve."""
    from cryptography.hazmat.primitives.asymmetric import ec

    for curve in (ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()):
        header = HEADERS[curve.name]
        point = der.removeprefix(header)
        if point != der and point.startswith(UNCOMPRESSED) and len(point) == 1 + 2 * _size(curve.key_size):
            return ec.EllipticCurvePublicKey.from_encoded_point(curve, point)
    return None


def encode_curve_key(key: "EllipticCurvePublicKey") -> bytes:
    """The same bytes as cryptography's `public_bytes`."""
    size, numbers = _size(key.curve.key_size), key.public_numbers()
    point = UNCOMPRESSED + numbers.x.to_bytes(size, "big") + numbers.y.to_bytes(size, "big")
    return HEADERS[key.curve.name] + point


def _size(bits: int) -> int:
    """The bytes of one coordinate."""
    return (bits + 7) // 8
