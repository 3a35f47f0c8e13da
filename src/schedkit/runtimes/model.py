"""What a container runtime is to us: the same few verbs over podman, docker and containerd."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol

from schedkit.errors import AlreadyExistsError, SchedkitError
from schedkit.images.oci import Content
from schedkit.runtimes.container import Container
from schedkit.runtimes.local_image import LocalImage

LOOK_SECONDS = 10.0  # what listing the containers may take: everybody who looks at this machine waits for it
SCX_FOLDER = "/var/run/scx"  # where schedulers serve their statistics; bound into each container

# What loading and attaching a scheduler takes: BPF programs, what they observe, and struct_ops.
LOADING_CAPABILITIES = ("CAP_BPF", "CAP_PERFMON", "CAP_SYS_ADMIN")

# Told of how far a pull is: bytes done, bytes in all (0 while nobody knows).
Progress = Callable[[int, int], None]


class ContainerSpec(NamedTuple):
    """A scheduler's container: in the host's PID namespace, with SCX_FOLDER bound.

    Privileged, unless it is to do with LOADING_CAPABILITIES, without the host's devices, and with /sys to read only.
    """

    name: str
    args: tuple[str, ...] = ()  # after the image's entrypoint, instead of its command; empty: the image's command
    env: Mapping[str, str] = {}
    host_network: bool = False  # else it has none
    labels: Mapping[str, str] = {}  # labels.PROVIDER is added by the runtime
    files: tuple[str, ...] = ()  # and folders of this machine, by absolute paths: there too, to be read only
    unprivileged: bool = False


def name_taken(driver: str, name: str) -> AlreadyExistsError:
    """The error for a container whose name another one has."""
    return AlreadyExistsError(
        f"{driver}: container name {name} is already in use",
        hint=f"use another --name, or run: schedctl stop {name}",
    )


class StillRunningError(SchedkitError):
    """A container that runs is not removed."""

    reason = "StillRunning"


def still_running(driver: str, id: str) -> StillRunningError:
    """The error for a container that is to be removed and has not ended."""
    return StillRunningError(f"{driver}: container {id[:12]} still runs", hint="stop it first")


class Runtime(Protocol):
    """A driver. Every call ends: with a result, or with a SchedkitError that says which runtime did not do what.

    A container that is not there is a NotFoundError, except in remove, where that is what was wanted.
    """

    @property
    def driver(self) -> str:
        """podman, docker or containerd."""

    @property
    def socket(self) -> str:
        """The path it is spoken to at."""

    def fetch_version(self) -> str:
        """Return the runtime's version. Also used to check that it responds."""

    def fetch_containers(self) -> list[Container]:
        """All of schedkit's and the Go schedctl's, oldest first, finished ones too; within LOOK_SECONDS."""

    def fetch_container(self, id: str) -> Container:
        """One by its full id."""

    def fetch_digests(self) -> frozenset[str]:
        """Digests (of indexes and manifests) of all images that are here."""

    def fetch_repositories(self) -> frozenset[str]:
        """Repositories (registry and path, no tag or digest) of which some image is here; for `schedctl list`."""

    def fetch_images(self) -> list[LocalImage]:
        """All images that are here; in containerd, those of schedctl's namespace."""

    def remove_image(self, image: LocalImage) -> None:
        """Remove these names of an image, and with the last all of it; ImageInUseError if a container is made of it."""

    def has_image(self, content: Content) -> bool:
        """Whether this platform's manifest is here, as `pull` leaves it; BadDataError if another image has its name."""

    def may_be_plain(self, registry: str) -> bool:
        """Whether `pull` can do without TLS at a registry (host[:port]) for which the user allows it."""

    def pull(self, content: Content, progress: Progress) -> None:
        """Pull exactly this platform's manifest; does nothing if it is here already."""

    def create(self, content: Content, spec: ContainerSpec) -> str:
        """Make a container of a pulled image, not yet started, and return its id; AlreadyExistsError for its name."""

    def start(self, id: str) -> None:
        """Start a created or exited container."""

    def signal(self, id: str, number: int) -> None:
        """Send a signal to its first process; one that has ended already is fine."""

    def wait(self, id: str, timeout: float) -> int | None:
        """The exit code once it ended; None if it still runs after `timeout` seconds. Wakes at once, no polling."""

    def rename(self, id: str, name: str) -> None:
        """Give a container, running or not, another name; AlreadyExistsError if one has it."""

    def remove(self, id: str) -> None:
        """Remove an ended container and all it leaves: snapshot, log, lease; StillRunningError if it has not ended."""

    def stream_logs(
        self,
        id: str,
        *,
        follow: bool = False,
        tail: int | None = None,
        since: float | None = None,
        timestamps: bool = False,
    ) -> Iterator[bytes]:
        """Its output, both streams, as pieces of bytes; of an ended one too. With `follow`, until it ends.

        What was said before `since` is left out; on containerd, up to a second of it may be there. With `timestamps`,
        each line begins with its time in RFC 3339, as exact as the runtime knows it, and a blank.
        """

    def close(self) -> None:
        """Give back connections."""
