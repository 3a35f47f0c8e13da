"""Stand-ins for the host's functions; tests/e2e/test_schedctl*.py make the same claims of the real ones."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime

from schedkit.errors import NotFoundError
from schedkit.host.detaching import Foreign
from schedkit.host.model import Attachment, Managed, Observed, RunResult, Switched
from schedkit.images.documents import Annotated
from schedkit.images.image import Image, Platform
from schedkit.images.oci import Content, Descriptor
from schedkit.images.reference import Reference
from schedkit.images.registry import Registry
from schedkit.kernel.detach import Way
from schedkit.kernel.holder import Holder
from schedkit.kernel.state import KernelState, State
from schedkit.runtimes.container import Container, ContainerState
from schedkit.runtimes.local_image import LocalImage
from schedkit.runtimes.model import Progress
from schedkit.runtimes.view import UnreachableRuntime

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DIGEST = "sha256:" + "d" * 64
ID = "c" * 64
CREATED = "2026-01-02T03:04:05Z"


def make_container(**changes: object) -> Container:
    values: dict[str, object] = {
        "driver": "podman",
        "id": ID,
        "name": "scx_rusty",
        "image": "ghcr.io/schedkit/scx_rusty:latest",
        "state": ContainerState.RUNNING,
        "labels": {"org.schedkit.digest": DIGEST, "org.schedkit.args": '["--slice", "20"]'},
        "pid": 4242,
        "started": NOW,
    }
    return Container(**{**values, **changes})  # type: ignore[arg-type]


HIDDEN = UnreachableRuntime("docker", "/run/docker.sock", "no response", absent=False)
ATTACHED = RunResult(make_container(), "rusty_1.1.4", 1.234)
SWITCHED = Switched(ATTACHED, make_container(name="scx_lavd"), 0.042)
KERNEL = KernelState(State.ENABLED, ops="rusty_1.1.4", enable_seq=3, nr_rejected=0, events={"SCX_EV_X": 5})
HOLDER = Holder(4242, "scx_rusty", 17, ID)
FOREIGN = Foreign("rusty", KERNEL, HOLDER, Way("detach BPF link 17", 17))
MANAGED = Managed(make_container(), "scx_rusty", Attachment.YES, "unsigned-allowed", "on-failure:3", watched=False)
OBSERVED = Observed(KERNEL, HOLDER, (MANAGED,))


class FakeRegistry(Registry):
    """Knows one image under every name."""

    def __init__(self) -> None:
        pass

    def limit(self, seconds: float, what: str) -> AbstractContextManager[None]:
        return nullcontext()

    def fetch_document(self, reference: Reference, *, about: str = "") -> tuple[Descriptor, bytes]:
        raise NotFoundError(f"{reference} is not there")

    def fetch_referrers(self, reference: Reference, digest: str) -> list[Annotated]:
        return []

    def fetch_tags(self, reference: Reference) -> list[str]:
        return ["latest", "1.1.4", "1.1.3"]

    def fetch_digests(self, reference: Reference) -> tuple[str, ...]:
        return (DIGEST,)

    def fetch_image(self, reference: Reference, platform: Platform | None = None) -> Image:
        blob = Descriptor("application/octet-stream", DIGEST, 1000)
        here = Platform("linux", "amd64")
        labels = {"org.opencontainers.image.title": "rusty", "org.schedkit.scheduler.kernel.min-version": "6.12"}
        manifest = Descriptor("application/vnd.oci.image.manifest.v1+json", DIGEST, 2)
        return Image(self, reference, DIGEST, [(manifest, b"{}")], blob, [blob], here, (here,), labels, CREATED)

    def probe(self, registry: str) -> None:
        pass

    def close(self) -> None:
        pass


class FakeRuntime:
    """Notes what is asked of it."""

    def __init__(self, driver: str = "podman") -> None:
        self.driver = driver
        self.socket = f"/run/{driver}.sock"
        self.pulled: list[str] = []
        self.images: list[LocalImage] = []
        self.removed: list[LocalImage] = []
        self.containers = [make_container(driver=driver)]

    def fetch_version(self) -> str:
        return "1.0"

    def fetch_containers(self) -> list[Container]:
        return self.containers

    def fetch_container(self, id: str) -> Container:
        return self.containers[0]

    def fetch_digests(self) -> frozenset[str]:
        return frozenset({DIGEST})

    def fetch_repositories(self) -> frozenset[str]:
        return frozenset({"ghcr.io/schedkit/scx_rusty"})

    def fetch_images(self) -> list[LocalImage]:
        return list(self.images)

    def remove_image(self, image: LocalImage) -> None:
        self.removed.append(image)

    def has_image(self, content: Content) -> bool:
        return content.manifest.digest in self.fetch_digests()

    def may_be_plain(self, registry: str) -> bool:
        return True

    def pull(self, content: Content, progress: Progress) -> None:
        progress(0, 100)
        progress(100, 100)
        self.pulled.append(content.digest)

    def create(self, content: Content, spec: object) -> str:
        raise NotImplementedError

    def start(self, id: str) -> None:
        raise NotImplementedError

    def signal(self, id: str, number: int) -> None:
        raise NotImplementedError

    def wait(self, id: str, timeout: float) -> int | None:
        return 0

    def rename(self, id: str, name: str) -> None:
        raise NotImplementedError

    def remove(self, id: str) -> None:
        raise NotImplementedError

    def stream_logs(
        self,
        id: str,
        *,
        follow: bool = False,
        tail: int | None = None,
        since: float | None = None,
        timestamps: bool = False,
    ) -> Iterator[bytes]:
        yield b"attached\n"
        yield b"\xff raw \n"

    def close(self) -> None:
        pass
