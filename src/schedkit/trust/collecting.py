"""The signatures that lie in a registry beside an image, as far as an untrusted registry may make us look."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from schedkit.errors import BadDataError, NotFoundError
from schedkit.images.documents import Annotated, Manifest, parse_document
from schedkit.images.image import Signable
from schedkit.images.oci import Descriptor
from schedkit.trust.bundle import LARGEST_BUNDLE, PREDICATE_ANNOTATION, PREFIX, SIGN, parse_bundle
from schedkit.trust.evidence import Evidence
from schedkit.trust.simplesigning import LARGEST_PAYLOAD, LAYER, SIGNATURES, parse_simple_signature

MOST_TRIED = 100
EMPTY = "application/vnd.oci.empty.v1+json"


class Candidate(NamedTuple):
    """Something that may be a signature; `fetch` gets and parses it, and is where it goes wrong."""

    what: str
    digest: str  # of the manifest or index beside which it lies
    fetch: Callable[[], Evidence]


class TooMuchError(Exception):
    """There is more than we look at."""


def find_candidates(image: Signable) -> Iterator[Candidate]:
    """All that is there for the index and for the manifest in it, the index first."""
    count = 0
    for descriptor, _ in image.manifests:
        for find in (_find_tagged, _find_referrers):
            for candidate in find(image, descriptor.digest):
                if count >= MOST_TRIED:
                    raise TooMuchError(f"there are more than {MOST_TRIED} signatures, and the rest was not tried")
                count += 1
                yield candidate


def _find_tagged(image: Signable, digest: str) -> Iterator[Candidate]:
    """Find signatures of cosign v2: the layers of the manifest under sha256-<hex>.sig."""
    tag = f"{digest.replace(':', '-')}.sig"
    reference = image.source._replace(tag=tag, digest=None)
    try:
        manifest = _parse(*image.registry.fetch_document(reference))
    except NotFoundError:
        return
    except BadDataError as error:
        yield broken(tag, digest, error)
        return
    for number, layer in enumerate(manifest.layers, 1):
        if layer.media_type == LAYER:
            yield Candidate(f"{tag} layer {number}", digest, _fetch_simple(image, layer))


def _fetch_simple(image: Signable, layer: Annotated) -> Callable[[], Evidence]:
    def fetch() -> Evidence:
        payload = image.registry.fetch_bytes(image.source, layer.bare, LARGEST_PAYLOAD)
        return parse_simple_signature(payload, layer.annotations)

    return fetch


def _find_referrers(image: Signable, digest: str) -> Iterator[Candidate]:
    """Find signatures of cosign v3: referrers of the image that hold a bundle. v2 could be made to sign so, too."""
    try:
        referrers = image.registry.fetch_referrers(image.source, digest)
    except BadDataError as error:
        yield broken(f"what refers to {digest}", digest, error)
        return
    for referrer in referrers:
        # Some lists leave the artifact type out, or give that of the artefact's empty configuration, as cosign 3.1.1
        # does where it writes the list itself; then the artefact's own layers tell.
        may_be = referrer.artifact_type in ("", EMPTY, SIGNATURES) or referrer.artifact_type.startswith(PREFIX)
        if may_be and referrer.annotations.get(PREDICATE_ANNOTATION, SIGN) == SIGN:
            yield from _find_referring(image, digest, referrer)


def _find_referring(image: Signable, digest: str, referrer: Annotated) -> Iterator[Candidate]:
    what = f"referrer {referrer.digest}"
    try:
        manifest = _parse(*image.registry.fetch_manifest(image.source, referrer.digest))
    except (BadDataError, NotFoundError) as error:
        yield broken(what, digest, error)
        return
    if manifest.annotations.get(PREDICATE_ANNOTATION, SIGN) != SIGN:
        return
    for layer in manifest.layers:
        if layer.media_type.startswith(PREFIX):
            yield Candidate(what, digest, _fetch_bundle(image, layer, digest))
        elif layer.media_type == LAYER:
            yield Candidate(what, digest, _fetch_simple(image, layer))


def _fetch_bundle(image: Signable, layer: Annotated, digest: str) -> Callable[[], Evidence]:
    return lambda: parse_bundle(image.registry.fetch_bytes(image.source, layer.bare, LARGEST_BUNDLE), digest)


def _parse(descriptor: Descriptor, data: bytes) -> Manifest:
    document = parse_document(descriptor.media_type, data, "it")
    if not isinstance(document, Manifest):
        raise BadDataError("it is a list, not an artefact")
    return document


def broken(what: str, digest: str, error: Exception) -> Candidate:
    """What is there and cannot be had: a candidate that fails."""

    def fetch() -> Evidence:
        raise error

    return Candidate(what, digest, fetch)
