"""Certificates to serve with: given files that may rotate, or one of our own making."""

import logging
import os
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from schedkit.errors import SchedkitError
from schedkit.sked.kube.connection import load_pair
from schedkit.sked.kube.credentials import CertificatePair
from schedkit.sked.kube.errors import ConfigError
from schedkit.sked.kube.logs import fields
from schedkit.sked.kube.objects import utc_now

SELF_SIGNED_DAYS = 365
_KEY_BEGINS = b"-----BEGIN PRIVATE KEY-----"
_logger = logging.getLogger(__name__)
_Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class CertificateFiles:
    """A certificate with its chain, and its key."""

    certificate: Path
    key: Path


class ServingCertificate:
    """A TLS context that always serves the newest of what is in its files."""

    def __init__(self, files: CertificateFiles) -> None:
        self._files = files
        self._stamps = _read_stamps(files)
        self._newest = _make_context(_read_pair(files))
        # The one that listens keeps listening; it hands each handshake over to the newest.
        self.context = _make_context(_read_pair(files))
        self.context.sni_callback = self._choose

    def reload(self) -> None:
        """Take in the files if they have changed; an incomplete pair, as amid a rotation, waits."""
        try:
            stamps = _read_stamps(self._files)
            if stamps == self._stamps:
                return
            self._newest = _make_context(_read_pair(self._files))
        except SchedkitError as error:
            _logger.warning("certificate not reloaded", extra=fields(error=error.message))
        else:
            self._stamps = stamps
            _logger.info("certificate reloaded", extra=fields(file=self._files.certificate))

    def _choose(self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _context: ssl.SSLContext) -> None:
        self.reload()
        connection.context = self._newest


def make_self_signed_context(name: str) -> ssl.SSLContext:
    """A TLS context with a certificate that nobody can check: it keeps listeners out, not impostors."""
    return _make_context(_make_self_signed_apart(name))


def _make_self_signed_apart(name: str) -> CertificatePair:
    """Make a pair in a child that ends with it: the library takes 10 MB, and would stay for good."""
    if threading.active_count() > 1:  # whose locks a child would inherit and never see opened
        return make_self_signed(name)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(BaseException), os.fdopen(writer, "wb") as pipe:
            pair = make_self_signed(name)
            pipe.write(pair.certificate + pair.key)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        certificate, begin, key = pipe.read().partition(_KEY_BEGINS)
    os.waitpid(child, 0)
    # Where a child cannot be had or is killed, the same without one, and its errors told.
    return CertificatePair(certificate, begin + key) if key else make_self_signed(name)


def make_self_signed(name: str) -> CertificatePair:
    """A certificate and its key, for a name."""
    from cryptography import x509  # heavy, and not needed by those who bring their own
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    now = utc_now()
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # a scraper's clock may be behind
        .not_valid_after(now + timedelta(days=SELF_SIGNED_DAYS))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return CertificatePair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, form, plain),
    )


def _make_context(pair: CertificatePair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    load_pair(context, pair)
    return context


def _read_pair(files: CertificateFiles) -> CertificatePair:
    try:
        return CertificatePair(files.certificate.read_bytes(), files.key.read_bytes())
    except OSError as error:
        raise ConfigError(f"the certificate file {error.filename} cannot be read: {error.strerror}") from error


def _read_stamps(files: CertificateFiles) -> tuple[_Stamp, _Stamp]:
    """What changes when a file does; mounted Secrets change by a symbolic link, which stat follows."""
    try:
        found = (files.certificate.stat(), files.key.stat())
    except OSError as error:
        raise ConfigError(f"the certificate file {error.filename} cannot be read: {error.strerror}") from error
    first, second = ((status.st_ino, status.st_mtime_ns, status.st_size) for status in found)
    return first, second
