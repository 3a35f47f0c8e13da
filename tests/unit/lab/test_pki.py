import json
import ssl
import stat
from base64 import b64decode
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from lab import pki


def parse(pair: pki.Pair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate.encode())


def usages(pair: pki.Pair) -> set[x509.ObjectIdentifier]:
    return set(parse(pair).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)


def test_certificate_is_accepted_by_its_authority_only() -> None:
    authority, other = pki.make_authority("one"), pki.make_authority("two")
    server = parse(pki.make_certificate(authority, "server", hosts=("localhost", "10.0.2.2")))
    for subject in (x509.DNSName("localhost"), x509.IPAddress(ip_address("10.0.2.2"))):
        PolicyBuilder().store(Store([parse(authority)])).build_server_verifier(subject).verify(server, [])
    stranger = PolicyBuilder().store(Store([parse(other)])).build_server_verifier(x509.DNSName("localhost"))
    with pytest.raises(VerificationError):
        stranger.verify(server, [])
    elsewhere = PolicyBuilder().store(Store([parse(authority)])).build_server_verifier(x509.DNSName("example.test"))
    with pytest.raises(VerificationError):
        elsewhere.verify(server, [])


def test_certificate_without_hosts_cannot_serve() -> None:
    authority = pki.make_authority("one")
    assert usages(pki.make_certificate(authority, "client")) == {ExtendedKeyUsageOID.CLIENT_AUTH}
    both = {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH}
    assert usages(pki.make_certificate(authority, "server", hosts=("localhost",))) == both


def test_certificate_cannot_sign_others() -> None:
    certificate = parse(pki.make_certificate(pki.make_authority("one"), "client"))
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign


def test_subject_carries_user_and_group() -> None:
    pair = pki.make_certificate(pki.make_authority("one"), "system:node:a", group="system:nodes")
    subject = parse(pair).subject
    assert [field.value for field in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["system:node:a"]
    assert [field.value for field in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["system:nodes"]


def test_certificate_is_valid_for_a_clock_that_is_behind() -> None:
    certificate = parse(pki.make_certificate(pki.make_authority("one"), "client"))
    assert certificate.not_valid_before_utc <= datetime.now(UTC) - pki.BACKDATED
    assert certificate.not_valid_after_utc > datetime.now(UTC)


def test_key_belongs_to_certificate(tmp_path: Path) -> None:
    pair = pki.make_certificate(pki.make_authority("one"), "client")
    pki.write_pair(tmp_path, "client", pair)
    ssl.create_default_context().load_cert_chain(tmp_path / "client.crt", tmp_path / "client.key")
    assert pki.read_pair(tmp_path, "client") == pair


def test_key_alone_is_a_private_key() -> None:
    assert serialization.load_pem_private_key(pki.make_key().encode(), password=None)


def test_secret_is_for_its_owner_even_when_the_file_was_open_to_all(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("old")
    secret.chmod(0o644)
    pki.write_secret(secret, "new")
    assert secret.read_text() == "new"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_kubeconfig_is_self_contained() -> None:
    authority = pki.make_authority("one")
    pair = pki.make_certificate(authority, "admin")
    config = json.loads(pki.render_kubeconfig("https://10.0.2.2:6443", authority.certificate, pair))
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    assert cluster["server"] == "https://10.0.2.2:6443"
    assert b64decode(cluster["certificate-authority-data"]).decode() == authority.certificate
    assert b64decode(user["client-certificate-data"]).decode() == pair.certificate
    assert b64decode(user["client-key-data"]).decode() == pair.key
    assert config["contexts"][0]["name"] == config["current-context"]
