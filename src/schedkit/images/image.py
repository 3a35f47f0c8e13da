"""A resolved image: a reference pinned to digests, its manifest and configuration, and the way to its bytes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from schedkit.images.oci import Descriptor, Source
from schedkit.images.reference import Reference

if TYPE_CHECKING:
    from schedkit.images.registry import Registry


class Platform(NamedTuple):
    """What a manifest of an index is for."""

    os: str
    architecture: str
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)


class Signable:
    """What a reference names, an index or a manifest: what can be signed, for whatever platform.

    No dataclass: to import those, and to make these two, would be a tenth of `schedctl verify`.
    """

    def __init__(
        self, registry: "Registry", source: Reference, digest: str, manifests: Sequence[tuple[Descriptor, bytes]]
    ) -> None:
        self.registry: Final = registry
        self.source: Final = source
        self.digest: Final = digest  # of what the reference names: an index or a manifest
        self.manifests: Final = manifests

    @property
    def reference(self) -> str:
        """What the user asked for, in full."""
        return str(self.source)

    @property
    def repository(self) -> str:
        """Registry and path."""
        return self.source.repository

    @property
    def manifest(self) -> Descriptor:
        """The last of the manifests: of an image this platform's, which is what runs."""
        return self.manifests[-1][0]


class Image(Signable):
    """What a reference names and one platform's manifest in it. Fulfils oci.Content."""

    def __init__(
        self,
        registry: "Registry",
        source: Reference,
        digest: str,
        manifests: Sequence[tuple[Descriptor, bytes]],
        config: Descriptor,
        layers: Sequence[Descriptor],
        platform: Platform,
        platforms: tuple[Platform, ...],
        labels: Mapping[str, str],
        created: str = "",
    ) -> None:
        super().__init__(registry, source, digest, manifests)
        self.config: Final = config
        self.layers: Final = layers
        self.platform: Final = platform
        self.platforms: Final = platforms  # all that the index offers
        self.labels: Final = labels
        self.created: Final = created  # as its configuration says; empty where that is not known

    def pin(self) -> "Image":
        """The same, with its digest in its reference."""
        return Image(**(vars(self) | {"source": self.source._replace(digest=self.digest)}))

    @property
    def size(self) -> int:
        """Bytes to pull."""
        return self.config.size + sum(layer.size for layer in self.layers)

    @property
    def sources(self) -> Sequence[Source]:
        """Mirrors and its own repository, for runtimes that pull for themselves."""
        return self.registry.find_sources(self.source)

    def fetch_blob(self, blob: Descriptor, *, checked: bool = True) -> Iterator[bytes]:
        """The bytes of a blob as they arrive, checked against its size and, unless somebody else does, its digest."""
        return self.registry.fetch_blob(self.source, blob, checked=checked)
