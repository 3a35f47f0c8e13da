"""Images in a real registry, real cosign to sign them, and the two verdicts on each: cosign's and ours."""

import base64
import itertools
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.process import Result
from lab.signing import Cosign, VirtualSigstore, keyed
from schedkit.images.image import Image, Platform
from schedkit.images.oci import OCI_MANIFEST, Descriptor
from schedkit.images.reference import Reference
from schedkit.images.registry import Registry
from schedkit.trust.bundle import PREDICATE_ANNOTATION, SIGN
from schedkit.trust.decide import verify
from schedkit.trust.errors import Refusal
from schedkit.trust.model import Format, Verdict
from schedkit.trust.policy import Policy, read_policy
from schedkit.trust.roots import Roots
from schedkit.trust.simplesigning import LAYER
from tests.integration.images.pushing import Document, Pusher

AMD64 = Platform("linux", "amd64")
BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
SUBJECT, ISSUER = "release@schedkit.example", "https://accounts.schedkit.example"
NO_LOG = "--insecure-ignore-tlog=true"
NO_SCT = "--insecure-ignore-sct=true"  # the virtual sigstore has no log of certificates
# What each series must be told to sign and verify in a format; the older one signs images in its own only.
FORMATS: dict[tuple[str, Format], tuple[str, ...]] = {
    ("v2", Format.COSIGN_V2): (),
    ("v3", Format.COSIGN_V2): ("--new-bundle-format=false",),
    ("v3", Format.BUNDLE): (),
}
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Signed:
    """An image of a test's own: pushed, with all that is needed to push things beside it."""

    pusher: Pusher
    digest: str

    @property
    def name(self) -> str:
        """As cosign wants it."""
        return f"{self.pusher.address}/{self.pusher.path}@{self.digest}"

    @property
    def reference(self) -> Reference:
        return Reference(self.pusher.address, self.pusher.path, None, self.digest)

    @property
    def signature_tag(self) -> str:
        return f"{self.digest.replace(':', '-')}.sig"

    def read_layers(self, registry: Registry) -> list[tuple[bytes, dict[str, str]]]:
        """The payloads and annotations that cosign put beside it in its older format."""
        reference = Reference(self.pusher.address, self.pusher.path, self.signature_tag, None)
        document = json.loads(registry.fetch_document(reference)[1])
        return [(_fetch(registry, reference, layer), layer["annotations"]) for layer in document["layers"]]

    def read_bundle(self, registry: Registry) -> dict[str, Any]:
        """The bundle that cosign let refer to it."""
        (referrer,) = registry.fetch_referrers(self.reference, self.digest)
        document = json.loads(registry.fetch_manifest(self.reference, referrer.digest)[1])
        bundle: dict[str, Any] = json.loads(_fetch(registry, self.reference, document["layers"][0]))
        return bundle

    def put_layers(self, *layers: tuple[bytes, dict[str, str]]) -> None:
        """Have exactly these signatures in the older format."""
        described = [self.pusher.blob(payload, LAYER) | {"annotations": notes} for payload, notes in layers]
        self.pusher.manifest(self._artefact(described), self.signature_tag)

    def put_bundle(self, bundle: dict[str, Any]) -> None:
        """Have exactly this bundle refer to it, as cosign does in a registry without the referrers API."""
        notes = {PREDICATE_ANNOTATION: SIGN}
        layers = [self.pusher.blob(json.dumps(bundle).encode(), BUNDLE)]
        artefact = self._artefact(layers) | {"artifactType": BUNDLE, "annotations": notes}
        entry = self.pusher.manifest(artefact) | {"artifactType": BUNDLE, "annotations": notes}
        self.pusher.index(entry, tag=self.digest.replace(":", "-"))

    def _artefact(self, layers: list[Document]) -> Document:
        config = self.pusher.blob(b"{}", "application/vnd.oci.image.config.v1+json")
        return {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config, "layers": layers}


@dataclass(frozen=True)
class Workshop:
    """Everything it takes to sign, and to be asked for a verdict."""

    address: str
    storage: Path  # the registry's
    cosigns: dict[str, Cosign]
    sigstore: VirtualSigstore
    folder: Path
    registry: Registry = field(default_factory=lambda: Registry(environ={}))

    def push(self) -> Signed:
        """An image that nobody signed, in a repository of its own."""
        number = next(_numbers)
        pusher = Pusher(self.address, f"trust/image{number}")
        return Signed(pusher, pusher.image("amd64", layer=f"layer {number}".encode(), tag="v1")["digest"])

    def push_index(self) -> Signed:
        """An index of two platforms, in a repository of its own."""
        image = self.push()
        entries = [image.pusher.image(name, layer=name.encode()) for name in ("amd64", "arm64")]
        return Signed(image.pusher, image.pusher.index(*entries, tag="v1")["digest"])

    def sign(self, series: str, kind: Format, image: Signed, *options: str | Path) -> None:
        self.cosigns[series].sign(image.name, *FORMATS[series, kind], *options)

    def sign_with_key(self, series: str, kind: Format, image: Signed, key: Path) -> None:
        """With a key, and no log."""
        self.sign(series, kind, image, *keyed(key))

    def sign_keyless(
        self,
        series: str,
        kind: Format,
        image: Signed,
        *,
        subject: str = SUBJECT,
        issuer: str = ISSUER,
        ca: str = "",
    ) -> None:
        """As somebody, with an entry of the virtual log; `ca` is a path that bends its certificates."""
        self.sign(series, kind, image, *self.sigstore.keyless(subject, issuer, ca=ca))

    def sign_with_key_and_log(self, series: str, kind: Format, image: Signed, key: Path) -> None:
        self.sign(series, kind, image, *self.sigstore.logged(key))

    def write_policy(self, **fields: object) -> Policy:
        """A policy as a user writes one; JSON is YAML."""
        path = self.folder / f"policy-{next(_numbers)}.yaml"
        path.write_text(json.dumps(fields, default=str))
        return read_policy(path)

    def trust_key(self, public: Path, **fields: object) -> Policy:
        return self.write_policy(keys=[{"path": public}], **fields)

    def trust_identity(self, *, subject: str = SUBJECT, issuer: str = ISSUER, **fields: object) -> Policy:
        fields = {"trustedRoot": self.sigstore.trusted_root} | fields
        return self.write_policy(identities=[{"issuer": issuer, "subject": subject}], **fields)

    def fetch(self, image: Signed) -> Image:
        return self.registry.fetch_image(image.reference, AMD64)

    def decide(self, image: Signed, policy: Policy) -> Verdict | Refusal:
        """Ours."""
        return self.judge(self.fetch(image), policy)

    def judge(self, image: Image, policy: Policy) -> Verdict | Refusal:
        """Ours, of an image that was looked up before."""
        try:
            return verify(
                image,
                policy,
                roots=Roots(None, offline=True),
                cache=None,
                offline=False,
                now=datetime.now(UTC),
            )
        except Refusal as refusal:
            return refusal

    def ask_cosign(
        self, series: str, kind: Format, image: Signed, *options: str | Path, root: Path | None = None
    ) -> Result:
        """Cosign's; the trusted root is the virtual sigstore's unless said."""
        root = root or self.sigstore.trusted_root
        return self.cosigns[series].verify(image.name, *FORMATS[series, kind], *options, root=root)


def accepts(answer: Verdict | Refusal | Result) -> bool:
    """Whether a verdict lets the image in."""
    return answer.code == 0 if isinstance(answer, Result) else isinstance(answer, Verdict)


def flip(text: str) -> str:
    """Base64 whose first byte is another."""
    data = base64.b64decode(text)
    return base64.b64encode(bytes([data[0] ^ 1]) + data[1:]).decode()


def _fetch(registry: Registry, reference: Reference, layer: Document) -> bytes:
    return registry.fetch_bytes(reference, Descriptor(layer["mediaType"], layer["digest"], layer["size"]), 1 << 20)
