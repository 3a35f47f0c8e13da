"""Certificates for a cluster that lives for a day: authorities, pairs, kubeconfigs."""

import base64
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = timedelta(days=365)
# A machine resumed from a snapshot believes for a moment that it is the day the snapshot was taken.
BACKDATED = timedelta(days=90)


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key, in PEM."""

    certificate: str
    key: str


def make_authority(name: str) -> Pair:
    """A self-signed authority that can sign certificates and nothing else."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    builder = _builder(subject, subject, key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return Pair(_certificate_text(builder.sign(key, hashes.SHA256())), _key_text(key))


def make_certificate(authority: Pair, common_name: str, *, group: str = "", hosts: Sequence[str] = ()) -> Pair:
    """A certificate for a client and, when it names `hosts` (names or addresses), for a server too."""
    issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
    issuer_key = serialization.load_pem_private_key(authority.key.encode(), password=None)
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey), "authorities made here have such keys"
    key = ec.generate_private_key(ec.SECP256R1())
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
    builder = _builder(_name(common_name, group), issuer.subject, key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    builder = builder.add_extension(identifier, critical=False)
    if hosts:
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return Pair(_certificate_text(builder.sign(issuer_key, hashes.SHA256())), _key_text(key))


def make_key() -> str:
    """A private key alone: what signs the tokens of service accounts."""
    return _key_text(ec.generate_private_key(ec.SECP256R1()))


def render_kubeconfig(server: str, authority_certificate: str, pair: Pair) -> str:
    """A self-contained kubeconfig. JSON is YAML, and every client reads it."""
    cluster = {"server": server, "certificate-authority-data": _base64(authority_certificate)}
    user = {"client-certificate-data": _base64(pair.certificate), "client-key-data": _base64(pair.key)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": "lab", "user": user}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
    }
    return json.dumps(config, indent=1) + "\n"


def write_pair(folder: Path, name: str, pair: Pair) -> None:
    """Write NAME.crt and NAME.key."""
    (folder / f"{name}.crt").write_text(pair.certificate)
    write_secret(folder / f"{name}.key", pair.key)


def read_pair(folder: Path, name: str) -> Pair:
    """Read what write_pair wrote."""
    return Pair((folder / f"{name}.crt").read_text(), (folder / f"{name}.key").read_text())


def write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner can read, and never could be read by others."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - BACKDATED).not_valid_after(now + VALID)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str, group: str = "") -> x509.Name:
    organization = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    return x509.Name([*organization, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _certificate_text(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_text(key: ec.EllipticCurvePrivateKey) -> str:
    form = serialization.PrivateFormat.TraditionalOpenSSL  # PKCS 8 is no service account key to the API server
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
