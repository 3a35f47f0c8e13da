"""An image in a registry that holds whatever signatures a test puts beside it; the real one is in tests/integration."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from schedkit.errors import NotFoundError
from schedkit.images.documents import Annotated, Index, parse_document
from schedkit.images.image import Image, Platform
from schedkit.images.oci import OCI_INDEX, OCI_MANIFEST, Descriptor
from schedkit.images.reference import Reference, parse_reference
from schedkit.images.registry import Registry
from schedkit.trust.bundle import PREDICATE_ANNOTATION, SIGN
from schedkit.trust.simplesigning import LAYER

BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
REPOSITORY = "registry.test/schedkit/scx_fifo"


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Shelf:
    """Just the requests that a check of signatures makes."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.tags: dict[str, bytes] = {}
        self.referrers: dict[str, list[dict[str, Any]]] = {}
        self.asked: list[str] = []
        self.fail: Callable[[], None] = lambda: None
        self.limits: list[float] = []
        self.limited = False

    @contextmanager
    def limit(self, seconds: float, what: str) -> Iterator[None]:
        self.limits.append(seconds)
        self.limited = True
        yield
        self.limited = False

    def fetch_document(self, reference: Reference, *, about: str = "") -> tuple[Descriptor, bytes]:
        return self._get(reference.digest or reference.tag or "")

    def fetch_manifest(self, reference: Reference, digest: str) -> tuple[Descriptor, bytes]:
        return self._get(digest)

    def fetch_bytes(self, reference: Reference, blob: Descriptor, limit: int) -> bytes:
        return Registry.fetch_bytes(cast(Registry, self), reference, blob, limit)

    def fetch_blob(self, reference: Reference, blob: Descriptor) -> list[bytes]:
        self.asked.append(blob.digest)
        return [self.blobs[blob.digest]]

    def fetch_referrers(self, reference: Reference, digest: str) -> list[Annotated]:
        self.asked.append(f"referrers {digest}")
        self.fail()
        listed = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": self.referrers.get(digest, [])}
        index = parse_document(OCI_INDEX, json.dumps(listed).encode(), "it")
        assert isinstance(index, Index)
        return list(index.manifests)

    def _get(self, name: str) -> tuple[Descriptor, bytes]:
        self.asked.append(name)
        self.fail()
        data = self.tags.get(name) or self.blobs.get(name)
        if data is None:
            raise NotFoundError(f"{name} is not there")
        return Descriptor(json.loads(data)["mediaType"], digest_of(data), len(data)), data

    def put(self, data: bytes, media_type: str, annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Keep a blob; its descriptor."""
        self.blobs[digest_of(data)] = data
        found: dict[str, Any] = {"mediaType": media_type, "digest": digest_of(data), "size": len(data)}
        return found | ({"annotations": dict(annotations)} if annotations else {})

    def put_manifest(self, layers: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        config = self.put(b"{}", "application/vnd.oci.image.config.v1+json")
        document = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config, "layers": layers, **more}
        return self.put(json.dumps(document).encode(), OCI_MANIFEST)

    def add_simple(self, digest: str, *signatures: tuple[bytes, Mapping[str, str]]) -> None:
        """Put signatures under the tag of cosign v2."""
        layers = [self.put(payload, LAYER, annotations) for payload, annotations in signatures]
        tag = f"{digest.replace(':', '-')}.sig"
        self.tags[tag] = self.blobs[self.put_manifest(layers)["digest"]]

    def add_bundle(self, digest: str, bundle: dict[str, Any] | bytes, *, predicate: str | None = SIGN) -> None:
        """Let a bundle refer to an image, as cosign v3 does."""
        data = bundle if isinstance(bundle, bytes) else json.dumps(bundle).encode()
        annotations = {PREDICATE_ANNOTATION: predicate} if predicate else {}
        manifest = self.put_manifest([self.put(data, BUNDLE)], artifactType=BUNDLE, annotations=annotations)
        listed = {**manifest, "artifactType": BUNDLE, "annotations": annotations}
        self.referrers.setdefault(digest, []).append(listed)


def change_image(image: Image, **fields: Any) -> Image:
    """The same image but for these fields."""
    return Image(**(vars(image) | fields))


def make_image(shelf: Shelf, *, index: bool = False, repository: str = REPOSITORY, layer: bytes = b"layer") -> Image:
    """An image on the shelf, below an index if wanted."""
    only = shelf.put(layer, "application/vnd.oci.image.layer.v1.tar")
    manifest = shelf.put_manifest([only])
    entries = [manifest]
    if index:
        document = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [manifest]}
        entries.insert(0, shelf.put(json.dumps(document).encode(), OCI_INDEX))
    platform = Platform("linux", "amd64")
    return Image(
        registry=cast(Registry, shelf),
        source=parse_reference(f"{repository}:v1"),
        digest=entries[0]["digest"],
        manifests=[
            (Descriptor(one["mediaType"], one["digest"], one["size"]), shelf.blobs[one["digest"]]) for one in entries
        ],
        config=Descriptor("application/vnd.oci.image.config.v1+json", digest_of(b"{}"), 2),
        layers=[Descriptor(only["mediaType"], only["digest"], only["size"])],
        platform=platform,
        platforms=(platform,),
        labels={},
    )
