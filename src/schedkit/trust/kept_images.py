"""A verified image's documents, written down, so that it can be run again without its registry."""

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from schedkit.errors import BadDataError
from schedkit.images.documents import Manifest, check_digest, parse_document
from schedkit.images.image import Image, Platform
from schedkit.images.oci import Descriptor
from schedkit.images.reference import Reference

if TYPE_CHECKING:
    from schedkit.images.registry import Registry


def encode_image(image: Image) -> dict[str, Any]:
    """Encode an image for JSON; the layers are in the manifest."""
    return {
        "manifests": [[one.media_type, one.digest, base64.b64encode(data).decode()] for one, data in image.manifests],
        "platforms": [[one.os, one.architecture, one.variant] for one in (image.platform, *image.platforms)],
        "labels": dict(image.labels),
    }


def decode_image(fields: Mapping[str, Any], registry: "Registry", reference: Reference) -> Image:
    """The image as it was, by the same digests."""
    manifests = []
    for media_type, digest, text in fields["manifests"]:
        data = base64.b64decode(text)
        check_digest(data, digest, str(reference))
        manifests.append((Descriptor(media_type, digest, len(data)), data))
    descriptor, data = manifests[-1]
    manifest = parse_document(descriptor.media_type, data, str(reference))
    if not isinstance(manifest, Manifest):
        raise BadDataError(f"{reference}: what was kept of it is not an image")
    platform, *platforms = (Platform(*words) for words in fields["platforms"])
    return Image(
        registry=registry,
        source=reference,
        digest=manifests[0][0].digest,
        manifests=tuple(manifests),
        config=manifest.config,
        layers=tuple(layer.bare for layer in manifest.layers),
        platform=platform,
        platforms=tuple(platforms),
        labels=fields["labels"],
    )
