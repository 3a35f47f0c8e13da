"""Every label that we write on a container, or read from an image: all the state there is."""

from collections.abc import Mapping
from enum import StrEnum

PREFIX = "org.schedkit."
PROVIDER = ("provider", "schedkit")  # what the Go schedctl puts on its containers, and so do we
MIN_KERNEL = "org.schedkit.scheduler.kernel.min-version"  # of an image: the oldest kernel that it supports
UNPRIVILEGED = "no"  # what Label.PRIVILEGED says of one that is not


class Label(StrEnum):
    """What we write on our containers, beside PROVIDER."""

    SCHEDULER = "org.schedkit.scheduler"  # the catalog name, or the last word of the image's path
    IMAGE = "org.schedkit.image"  # the reference in full; the runtime itself knows the image by its digest
    DIGEST = "org.schedkit.digest"  # of what the reference named: an index or a manifest
    MANIFEST = "org.schedkit.manifest"  # the digest of this platform's manifest, which is what runs
    ARGS = "org.schedkit.args"  # a JSON list
    FILES = "org.schedkit.files"  # a JSON list of paths: files of this machine that the scheduler reads
    ENV = "org.schedkit.env"  # a JSON list of names: of the variables it was given, whose values may be secrets
    NETWORK = "org.schedkit.network"  # host, if it was given that
    PRIVILEGED = "org.schedkit.privileged"  # no, if it was started with --unprivileged
    CREATED = "org.schedkit.created"  # RFC 3339, UTC
    RESTART = "org.schedkit.restart"  # no, on-failure, on-failure:N or always
    VERIFIED = "org.schedkit.verified"  # by whom the image was signed, or `unsigned-allowed` or `untrusted-allowed`
    TRIAL = "org.schedkit.trial"  # which trial it belongs to, if to one
    CONTAINER = "org.schedkit.container"  # on containerd, where we choose it: the container's own id
    NAME = "org.schedkit.name"  # on containerd, whose containers have no name
    STARTED = "org.schedkit.started"  # when it was last started; on containerd, which does not note that


def is_unprivileged(labels: Mapping[str, str]) -> bool:
    """Whether a container was started with --unprivileged; those of the Go schedctl are privileged."""
    return labels.get(Label.PRIVILEGED) == UNPRIVILEGED


def drop_own(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels without those that only we may write: what an image brings along is not to be believed."""
    return {name: value for name, value in labels.items() if not name.startswith(PREFIX)}
