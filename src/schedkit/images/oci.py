"""What an image is made of, in OCI terms: descriptors, media types, credentials, and the image as runtimes read it."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from schedkit.errors import BadDataError

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
MANIFESTS = (OCI_MANIFEST, DOCKER_MANIFEST)
INDEXES = (OCI_INDEX, DOCKER_INDEX)


class BadMirrorError(BadDataError):
    """A mirror sent something else than was asked for, and is asked no more: starting again may help."""


class Descriptor(NamedTuple):
    """Content by its digest, as in an OCI manifest."""

    media_type: str
    digest: str
    size: int


class Credentials(NamedTuple):
    """How to log in to a registry. Its repr hides the secret."""

    username: str
    secret: str

    def __repr__(self) -> str:
        return f"Credentials(username={self.username!r})"


class Source(NamedTuple):
    """One place to pull from: a mirror's repository, or the image's own."""

    repository: str  # registry and path
    credentials: Credentials | None
    insecure: bool  # the user allowed plain HTTP or an unverified certificate for this registry


class Content(Protocol):
    """One image, exactly, and the way to its bytes. `images.Image` is one; runtimes only read it."""

    @property
    def reference(self) -> str:
        """What the user asked for, in full: ghcr.io/schedkit/scx_rusty:latest."""

    @property
    def repository(self) -> str:
        """Registry and path without tag or digest: ghcr.io/schedkit/scx_rusty."""

    @property
    def digest(self) -> str:
        """The digest of what the reference names, an index or a manifest. `manifest` is what runs."""

    @property
    def manifest(self) -> Descriptor:
        """This platform's manifest, the last of `manifests`. It was verified, and runtimes run it and nothing else."""

    @property
    def sources(self) -> Sequence[Source]:
        """Where runtimes that pull for themselves can pull: mirrors in order, then the image's own repository."""

    @property
    def manifests(self) -> Sequence[tuple[Descriptor, bytes]]:
        """The index, if there is one, and then this platform's manifest, with their exact bytes."""

    @property
    def config(self) -> Descriptor:
        """This platform's configuration."""

    @property
    def layers(self) -> Sequence[Descriptor]:
        """This platform's layers, lowest first."""

    def fetch_blob(self, blob: Descriptor, *, checked: bool = True) -> Iterator[bytes]:
        """The bytes of a blob as they arrive; raises before its end if digest (unless unchecked) or size are wrong.

        After a BadMirrorError it may be called again, and the bytes come from elsewhere.
        """
