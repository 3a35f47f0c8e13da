"""Cluster authorities as clouds make them: some certificates lack the identifiers that RFC 5280 asks for."""

import asyncio
import datetime
import ipaddress
import ssl

import pytest
from aiohttp import connector
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from schedkit.sked.kube.certificates import make_self_signed
from schedkit.sked.kube.config import Access, make_ssl_context
from schedkit.sked.kube.connection import load_pair
from schedkit.sked.kube.credentials import ApiIdentity, CertificatePair, FixedCredentials

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


def name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def make_plain_authority() -> tuple[bytes, CertificatePair]:
    """An authority without key identifiers, as EKS has it, and a server's certificate that it signed."""
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))

    def builder(subject: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        number = x509.random_serial_number()
        made = x509.CertificateBuilder(name("kubernetes"), name(subject), key.public_key(), number)
        return made.not_valid_before(NOW - DAY).not_valid_after(NOW + DAY)

    authority = (
        builder("kubernetes", authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    server = (
        builder("kube-apiserver", server_key)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pair = CertificatePair(server.public_bytes(pem), server_key.private_bytes(pem, form, plain))
    return authority.public_bytes(pem), pair


@pytest.fixture
def _strict_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts as Python 3.13 and later make them, which the image has: on any Python, the tests see what it would."""
    make = ssl.create_default_context

    def make_strict(*, cadata: str | None = None) -> ssl.SSLContext:
        context = make(cadata=cadata)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", make_strict)


async def shake_hands(authority: bytes, pair: CertificatePair) -> None:
    """Connect to a TLS server that shows the pair's certificate, trusting the authority alone."""

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pair(serving, pair)
    access = Access(server="https://127.0.0.1", credentials=FixedCredentials(ApiIdentity()), authority=authority)
    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=serving) as server:
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=make_ssl_context(access))
        await reader.read()
        writer.close()


@pytest.mark.usefixtures("_strict_by_default")
def test_server_whose_authority_has_no_key_identifiers_is_talked_to() -> None:
    asyncio.run(shake_hands(*make_plain_authority()))


@pytest.mark.usefixtures("_strict_by_default")
def test_server_of_another_authority_is_not_trusted() -> None:
    other, _ = make_plain_authority()
    _, pair = make_plain_authority()
    with pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(shake_hands(other, pair))


@pytest.mark.usefixtures("_strict_by_default")
def test_only_the_strictness_about_forms_is_given_up() -> None:
    authority = make_self_signed("ca").certificate
    access = Access(server="https://here", credentials=FixedCredentials(ApiIdentity()), authority=authority)
    context = make_ssl_context(access)
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)


def test_aiohttp_keeps_no_authorities_of_the_system_and_trusts_nobody_by_itself() -> None:
    contexts = [found for found in vars(connector).values() if isinstance(found, ssl.SSLContext)]
    assert [found.cert_store_stats()["x509"] for found in contexts] == [0, 0]
    default = connector._SSL_CONTEXT_VERIFIED
    assert (default.check_hostname, default.verify_mode) == (True, ssl.CERT_REQUIRED)
