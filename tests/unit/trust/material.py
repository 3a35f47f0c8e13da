"""A little sigstore of our own making: an authority, two logs, keys, and signatures in both formats.

Real cosign's and sigstore-go's are checked in tests/integration/trust; here everything can be bent.
"""

import base64
import hashlib
import json
import struct
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from schedkit.trust.bundle import SIGN, STATEMENT_TYPE, encode_message

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ISSUER = "https://token.actions.githubusercontent.com"
SUBJECT = "https://github.com/schedkit/plumbing/.github/workflows/release.yml@refs/heads/main"
Private = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey

_SCT_LIST = "1.3.6.1.4.1.11129.2.4.2"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def spki(key: Private) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def pem(key: Private) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def make_key(kind: str = "p256") -> Private:
    if kind == "rsa":
        return rsa.generate_private_key(65537, 2048)
    if kind == "ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    return ec.generate_private_key({"p256": ec.SECP256R1(), "p384": ec.SECP384R1(), "p521": ec.SECP521R1()}[kind])


def sign(key: Private, message: bytes, algorithm: hashes.HashAlgorithm | None = None) -> bytes:
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(message)
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(message, padding.PKCS1v15(), algorithm or hashes.SHA256())
    return key.sign(message, ec.ECDSA(algorithm or hashes.SHA256()))


def der_text(text: str) -> bytes:
    data = text.encode()
    length = bytes([len(data)]) if len(data) < 128 else b"\x81" + bytes([len(data)])
    return b"\x0c" + length + data


def octets(data: bytes) -> bytes:
    length = bytes([len(data)]) if len(data) < 128 else b"\x82" + len(data).to_bytes(2, "big")
    return b"\x04" + length + data


@dataclass(frozen=True)
class Leaf:
    """A signer's certificate with its key."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)


@dataclass(frozen=True)
class Proven:
    """A log entry, in the fields of both formats."""

    body: bytes
    log_id: bytes
    index: int
    integrated: int
    promise: bytes
    tree_size: int
    root: bytes
    hashes: tuple[bytes, ...]
    checkpoint: str

    def for_bundle(self, *, promise: bool = True, proof: bool = True) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "logIndex": str(self.index),
            "logId": {"keyId": b64(self.log_id)},
            "kindVersion": {"kind": json.loads(self.body)["kind"], "version": json.loads(self.body)["apiVersion"]},
            "integratedTime": str(self.integrated),
            "canonicalizedBody": b64(self.body),
        }
        if promise:
            entry["inclusionPromise"] = {"signedEntryTimestamp": b64(self.promise)}
        if proof:
            entry["inclusionProof"] = {
                "logIndex": str(self.index),
                "rootHash": b64(self.root),
                "treeSize": str(self.tree_size),
                "hashes": [b64(one) for one in self.hashes],
                "checkpoint": {"envelope": self.checkpoint},
            }
        return entry

    def for_annotation(self) -> str:
        payload = {
            "body": b64(self.body),
            "integratedTime": self.integrated,
            "logIndex": self.index,
            "logID": self.log_id.hex(),
        }
        return json.dumps({"SignedEntryTimestamp": b64(self.promise), "Payload": payload})


@dataclass
class Sigstore:
    """An authority of certificates, a log of them, and a log of signatures."""

    log_key: Private = field(default_factory=make_key)
    ct_key: Private = field(default_factory=make_key)
    root_key: Any = field(default_factory=make_key)
    issuer_key: Any = field(default_factory=make_key)
    url: str = "https://rekor.test"

    def __post_init__(self) -> None:
        self.root = self._authority("root", self.root_key, "root", self.root_key, 1)
        self.issuer = self._authority("issuer", self.issuer_key, "root", self.root_key, 0)

    @property
    def log_id(self) -> bytes:
        return hashlib.sha256(spki(self.log_key)).digest()

    def trusted_root(self, *, ctlogs: bool = True, logs: bool = True) -> bytes:
        def log(key: Private) -> dict[str, Any]:
            return {
                "baseUrl": self.url,
                "hashAlgorithm": "SHA2_256",
                "publicKey": {"rawBytes": b64(spki(key)), "validFor": {"start": "2020-01-01T00:00:00Z"}},
                "logId": {"keyId": b64(hashlib.sha256(spki(key)).digest())},
            }

        chain = [{"rawBytes": b64(one.public_bytes(Encoding.DER))} for one in (self.issuer, self.root)]
        document = {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [log(self.log_key)] if logs else [],
            "certificateAuthorities": [
                {"certChain": {"certificates": chain}, "validFor": {"start": "2020-01-01T00:00:00Z"}}
            ],
            "ctlogs": [log(self.ct_key)] if ctlogs else [],
        }
        return json.dumps(document).encode()

    def issue(
        self,
        subject: str = SUBJECT,
        issuer: str = ISSUER,
        *,
        start: datetime = NOW - timedelta(minutes=5),
        sct: bool = True,
        purpose: x509.ObjectIdentifier = ExtendedKeyUsageOID.CODE_SIGNING,
        old_issuer: str = "",
    ) -> Leaf:
        """A certificate for ten minutes, as Fulcio makes them."""
        key = ec.generate_private_key(ec.SECP256R1())
        name: x509.GeneralName = (
            x509.UniformResourceIdentifier(subject) if "://" in subject else x509.RFC822Name(subject)
        )
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(self.issuer.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(start + timedelta(minutes=10))
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.SubjectAlternativeName([name]), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.issuer_key.public_key()), critical=False
            )
        )
        for oid, value in (
            ("1.3.6.1.4.1.57264.1.1", (old_issuer or issuer).encode()),
            ("1.3.6.1.4.1.57264.1.8", issuer and der_text(issuer)),
        ):
            if value:
                builder = builder.add_extension(
                    x509.UnrecognizedExtension(x509.ObjectIdentifier(oid), value), critical=False
                )
        if sct:
            bare = builder.sign(self.issuer_key, hashes.SHA256())
            stamp = self._promise_certificate(bare.tbs_certificate_bytes)
            extension = x509.UnrecognizedExtension(x509.ObjectIdentifier(_SCT_LIST), octets(stamp))
            builder = builder.add_extension(extension, critical=False)
        return Leaf(key, builder.sign(self.issuer_key, hashes.SHA256()))

    def log(self, body: dict[str, Any], at: datetime = NOW, *, neighbours: int = 5, index: int = 3) -> Proven:
        """An entry among others, proven."""
        data = json.dumps(body, separators=(",", ":"), sort_keys=True).encode()
        leaves = [hashlib.sha256(b"\0" + bytes([n])).digest() for n in range(neighbours + 1)]
        leaves[index] = hashlib.sha256(b"\0" + data).digest()
        root, path = _tree(leaves), _path(leaves, index)
        seconds = int(at.timestamp())
        promised = {"body": b64(data), "integratedTime": seconds, "logID": self.log_id.hex(), "logIndex": index}
        canonical = json.dumps(promised, separators=(",", ":"), sort_keys=True).encode()
        note = f"rekor.test - 1\n{len(leaves)}\n{b64(root)}\n"
        checkpoint = self.sign_note(note)
        return Proven(
            data, self.log_id, index, seconds, sign(self.log_key, canonical), len(leaves), root, path, checkpoint
        )

    def sign_note(self, note: str) -> str:
        return f"{note}\n— rekor.test {b64(self.log_id[:4] + sign(self.log_key, note.encode()))}\n"

    def _promise_certificate(self, tbs: bytes) -> bytes:
        milliseconds = int(NOW.timestamp() * 1000)
        signed = (
            struct.pack("!BBQH", 0, 0, milliseconds, 1)
            + hashlib.sha256(spki(self.issuer_key)).digest()
            + len(tbs).to_bytes(3, "big")
            + tbs
            + b"\0\0"
        )
        signature = sign(self.ct_key, signed)
        log_id = hashlib.sha256(spki(self.ct_key)).digest()
        stamp = (
            b"\0"
            + log_id
            + struct.pack("!QH", milliseconds, 0)
            + b"\x04\x03"
            + len(signature).to_bytes(2, "big")
            + signature
        )
        listed = len(stamp).to_bytes(2, "big") + stamp
        return len(listed).to_bytes(2, "big") + listed

    def _authority(self, name: str, key: Any, issuer: str, issuer_key: Any, depth: int) -> x509.Certificate:
        def named(text: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

        return (
            x509.CertificateBuilder()
            .subject_name(named(name))
            .issuer_name(named(issuer))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(datetime(2021, 1, 1, tzinfo=UTC))
            .not_valid_after(datetime(2031, 1, 1, tzinfo=UTC))
            .add_extension(x509.BasicConstraints(ca=True, path_length=depth), critical=True)
            .add_extension(_usage(key_cert_sign=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
            .sign(issuer_key, hashes.SHA256())
        )


def _usage(**which: bool) -> x509.KeyUsage:
    names = [
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
        *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    ]
    return x509.KeyUsage(**(dict.fromkeys(names, False) | which))


def _tree(leaves: list[bytes]) -> bytes:
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    return hashlib.sha256(b"\1" + _tree(leaves[:split]) + _tree(leaves[split:])).digest()


def _path(leaves: list[bytes], index: int) -> tuple[bytes, ...]:
    if len(leaves) == 1:
        return ()
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    if index < split:
        return (*_path(leaves[:split], index), _tree(leaves[split:]))
    return (*_path(leaves[split:], index - split), _tree(leaves[:split]))


# --- signatures -------------------------------------------------------------------------------------------------------


def make_payload(digest: str, kind: str = "cosign container image signature") -> bytes:
    critical = {"identity": {"docker-reference": ""}, "image": {"docker-manifest-digest": digest}, "type": kind}
    return json.dumps({"critical": critical, "optional": None}).encode()


def make_statement(digest: str, predicate: str = SIGN) -> bytes:
    algorithm, _, value = digest.partition(":")
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"digest": {algorithm: value}}],
        "predicateType": predicate,
        "predicate": {},
    }
    return json.dumps(statement).encode()


def hashedrekord(message: bytes, signature: bytes, signer: bytes) -> dict[str, Any]:
    return {
        "apiVersion": "0.0.1",
        "kind": "hashedrekord",
        "spec": {
            "data": {"hash": {"algorithm": "sha256", "value": hashlib.sha256(message).hexdigest()}},
            "signature": {"content": b64(signature), "publicKey": {"content": b64(signer)}},
        },
    }


def hashedrekord_2(message: bytes, signature: bytes, verifier: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "0.0.2",
        "kind": "hashedrekord",
        "spec": {
            "hashedRekordV002": {
                "data": {"algorithm": "SHA2_256", "digest": b64(hashlib.sha256(message).digest())},
                "signature": {"content": b64(signature), "verifier": verifier},
            }
        },
    }


def dsse(payload: bytes, signature: bytes, signer: bytes) -> dict[str, Any]:
    return {
        "apiVersion": "0.0.1",
        "kind": "dsse",
        "spec": {
            "envelopeHash": {"algorithm": "sha256", "value": "00" * 32},
            "payloadHash": {"algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest()},
            "signatures": [{"signature": b64(signature), "verifier": b64(signer)}],
        },
    }


def intoto(payload: bytes, signature: bytes, signer: bytes) -> dict[str, Any]:
    envelope = {
        "payloadType": STATEMENT_TYPE,
        "signatures": [{"publicKey": b64(signer), "sig": b64(b64(signature).encode())}],
    }
    content = {
        "envelope": envelope,
        "payloadHash": {"algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest()},
    }
    return {"apiVersion": "0.0.2", "kind": "intoto", "spec": {"content": content}}


def make_bundle(
    payload: bytes,
    signature: bytes,
    signer: Leaf | Private,
    entries: list[dict[str, Any]] | None = None,
    *,
    hint: bool = True,
) -> dict[str, Any]:
    envelope = {"payload": b64(payload), "payloadType": STATEMENT_TYPE, "signatures": [{"sig": b64(signature)}]}
    return _wrap(signer, entries, hint=hint) | {"dsseEnvelope": envelope}


def _wrap(signer: Leaf | Private, entries: list[dict[str, Any]] | None, *, hint: bool = True) -> dict[str, Any]:
    """What is the same in all bundles."""
    material: dict[str, Any] = {"tlogEntries": entries} if entries else {}
    if isinstance(signer, Leaf):
        material["certificate"] = {"rawBytes": b64(signer.der)}
    else:
        material["publicKey"] = {"hint": b64(hashlib.sha256(spki(signer)).digest())} if hint else {}
    return {"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "verificationMaterial": material}


def sign_bundle(
    digest: str, signer: Leaf | Private, sigstore: Sigstore | None = None, *, at: datetime = NOW
) -> dict[str, Any]:
    """As cosign v3 signs: a statement, with an entry of the log if there is one."""
    key, shown = (signer.key, signer.pem) if isinstance(signer, Leaf) else (signer, pem(signer))
    payload = make_statement(digest)
    signature = sign(key, encode_message(STATEMENT_TYPE, payload))
    entries = [sigstore.log(dsse(payload, signature, shown), at).for_bundle()] if sigstore else []
    return make_bundle(payload, signature, signer, entries)


def sign_file(
    content: bytes, signer: Leaf | Private, sigstore: Sigstore | None = None, *, at: datetime = NOW
) -> dict[str, Any]:
    """As `cosign sign-blob` signs: the bytes themselves, with an entry of the log if there is one."""
    key, shown = (signer.key, signer.pem) if isinstance(signer, Leaf) else (signer, pem(signer))
    signature = sign(key, content)
    entries = [sigstore.log(hashedrekord(content, signature, shown), at).for_bundle()] if sigstore else []
    digest = {"algorithm": "SHA2_256", "digest": b64(hashlib.sha256(content).digest())}
    return _wrap(signer, entries) | {"messageSignature": {"messageDigest": digest, "signature": b64(signature)}}


def sign_simply(
    digest: str, signer: Leaf | Private, sigstore: Sigstore | None = None, *, at: datetime = NOW
) -> tuple[bytes, dict[str, str]]:
    """As cosign v2 signs: a payload and annotations."""
    key, shown = (signer.key, signer.pem) if isinstance(signer, Leaf) else (signer, pem(signer))
    payload = make_payload(digest)
    signature = sign(key, payload)
    annotations = {"dev.cosignproject.cosign/signature": b64(signature)}
    if isinstance(signer, Leaf):
        annotations["dev.sigstore.cosign/certificate"] = signer.pem.decode()
    if sigstore:
        annotations["dev.sigstore.cosign/bundle"] = sigstore.log(
            hashedrekord(payload, signature, shown), at
        ).for_annotation()
    return payload, annotations
