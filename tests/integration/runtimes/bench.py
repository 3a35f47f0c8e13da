"""A runtime on the bench, and what all claims use."""

import signal
from dataclasses import dataclass

from lab.containerd import LabContainerd
from lab.engines import LabEngine
from schedkit.images.oci import Content
from schedkit.images.reference import parse_reference
from schedkit.images.registry import Registry
from schedkit.runtimes.container import Container, ContainerState
from schedkit.runtimes.model import ContainerSpec, Runtime

ENGINES = ("podman", "docker")  # those that pull for themselves
IDLE = "scx_idle:v1"  # runs until told to stop, and leaves the kernel's slot alone
IDLE_SAYS = "idle: schedkit_idle never attaches\n"
IDLE_ENDS = "stopped schedkit_idle\n"
REJECT = "scx_reject:v1"
PATIENCE = 60.0


@dataclass(frozen=True)
class Bench:
    """A runtime under test, its daemon, and a registry with the lab's images."""

    daemon: LabEngine | LabContainerd
    runtime: Runtime
    registry: str

    def resolve(self, image: str = IDLE) -> Content:
        return resolve(self.registry, image)

    def pull(self, image: str = IDLE) -> Content:
        content = self.resolve(image)
        self.runtime.pull(content, ignore_progress)
        return content

    def create(self, name: str, image: str = IDLE, **words: object) -> str:
        return self.runtime.create(self.pull(image), ContainerSpec(name, **words))  # type: ignore[arg-type]

    def start(self, name: str, **words: object) -> Container:
        """One that runs and is ready for signals; before that it may not even be the image's program yet."""
        id = self.create(name, IDLE, **words)
        self.runtime.start(id)
        self.wait_ready(id)
        return self.runtime.fetch_container(id)

    def run_rejected(self, name: str) -> str:
        """One that ends at once with status 1 and words on stderr; its id."""
        id = self.create(name, REJECT)
        self.runtime.start(id)
        return id

    def stop(self, id: str) -> int | None:
        self.runtime.signal(id, signal.SIGTERM)
        return self.runtime.wait(id, PATIENCE)

    def kill(self, id: str) -> int | None:
        self.runtime.signal(id, signal.SIGKILL)
        return self.runtime.wait(id, PATIENCE)

    def read_logs(self, id: str, **words: object) -> str:
        return b"".join(self.runtime.stream_logs(id, **words)).decode()  # type: ignore[arg-type]

    def wait_ready(self, id: str, starts: int = 1) -> None:
        """Until it has said its first words after that many starts."""
        said = ""
        for piece in self.runtime.stream_logs(id, follow=True):
            said += piece.decode()
            if said.count(IDLE_SAYS) == starts:
                return
        raise AssertionError(f"it ended after it said {said!r}")

    def clear(self) -> None:
        """Remove what a test left."""
        for container in self.runtime.fetch_containers():
            self.runtime.signal(container.id, signal.SIGKILL)
            if container.state is not ContainerState.CREATED:
                self.runtime.wait(container.id, PATIENCE)
            self.runtime.remove(container.id)


def resolve(registry: str, image: str) -> Content:
    return Registry().fetch_image(parse_reference(f"{registry}/{image}"))


def ignore_progress(done: int, total: int) -> None:
    pass


def read_inventory(daemon: LabEngine | LabContainerd) -> dict[str, str]:
    """All that a runtime has in store for us, as its own command line and its folders show it."""
    if isinstance(daemon, LabContainerd):
        kinds = ("containers", "tasks", "images", "snapshots", "leases", "content")
        held = {kind: daemon.ctr(kind, "ls", *(() if kind == "snapshots" else ("-q",))) for kind in kinds}
        return held | {
            "ingests": daemon.ctr("content", "active").partition("\n")[2],
            "logs": " ".join(sorted(path.name for path in (daemon.folder / "logs").glob("*"))),
        }
    asked = {"containers": "ps -aq", "images": "images -aq", "volumes": "volume ls -q"}
    held = {kind: daemon.run(*words.split()) for kind, words in asked.items()}
    return held | {"layers": " ".join(sorted(path.name for path in daemon.layers.iterdir()))}
