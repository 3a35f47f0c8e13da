"""A machine out of files and processes: what the end-to-end tests do in a real one, quickly and with every fault."""

import fcntl
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from schedkit.errors import NoAnswerError, NotFoundError
from schedkit.host.machine import Machine
from schedkit.host.model import Host, RunRequest
from schedkit.images.oci import Content, Descriptor
from schedkit.kernel.holder import Holder
from schedkit.runtimes.container import Container, ContainerState
from schedkit.runtimes.local_image import LocalImage
from schedkit.runtimes.model import ContainerSpec, Progress
from schedkit.runtimes.view import Runtimes, UnreachableRuntime
from schedkit.unknown import Unknown

MANIFEST = Descriptor("application/vnd.oci.image.manifest.v1+json", "sha256:" + "2" * 64, 2)
NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


class FakeKernel:
    """The files of /sys/kernel/sched_ext under a root, and who holds the slot."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.holder: Holder | Unknown | None = None
        self.sequence = 0
        self.folder = root / "sys/kernel/sched_ext"
        self.folder.mkdir(parents=True)
        for name, text in {"switch_all": "0", "nr_rejected": "0", "hotplug_seq": "0"}.items():
            (self.folder / name).write_text(f"{text}\n")
        self._write("disabled")

    def attach(self, ops: str, holder: Holder | Unknown | None) -> None:
        self.holder = holder
        self.sequence += 1
        (self.folder / "root").mkdir()
        (self.folder / "root/ops").write_text(f"{ops}\n")
        self._write("enabled")

    def detach(self) -> None:
        self._write("disabled")
        if (self.folder / "root").exists():
            (self.folder / "root/ops").unlink()
            (self.folder / "root").rmdir()
        self.holder = None

    def read_holder(self, root: Path) -> Holder | Unknown | None:
        return self.holder

    def _write(self, state: str) -> None:
        (self.folder / "enable_seq").write_text(f"{self.sequence}\n")
        new = self.folder / ".state"
        new.write_text(f"{state}\n")
        new.rename(self.folder / "state")


class FakeProgress:
    """Keeps what was told; `interrupt` names a step at which Ctrl-C is pressed."""

    def __init__(self, interrupt: str = "") -> None:
        self.steps: list[str] = []
        self.warnings: list[str] = []
        self._interrupt = interrupt

    def step(self, text: str) -> None:
        self.steps.append(text)
        if self._interrupt and text.startswith(self._interrupt):
            self._interrupt = ""
            raise KeyboardInterrupt

    def progress(self, done: int, total: int) -> None:
        pass

    def warn(self, text: str) -> None:
        self.warnings.append(text)


@dataclass(frozen=True)
class FakeImage:
    """An image whose name tells the fake runtime how its scheduler behaves."""

    reference: str
    labels: Mapping[str, str] = field(default_factory=dict)
    digest: str = "sha256:" + "1" * 64
    manifest: Descriptor = MANIFEST
    size: int = 1_000_000


class FakeRuntime:
    """Containers whose process is a real one (`sleep`), so that its end can be waited for as in life."""

    def __init__(self, kernel: FakeKernel, driver: str = "podman") -> None:
        self.kernel = kernel
        self.driver = driver
        self.socket = f"/run/{driver}.sock"
        self.behaviours: dict[str, Callable[[FakeRuntime, str], None]] = {}
        self.on_signal: Callable[[str, int], None] = lambda id, number: None
        self.ignores_term: set[str] = set()
        self.logs: dict[str, bytes] = {}  # by image: what it says after each start
        self.said: dict[str, list[tuple[float, bytes]]] = {}  # by container: when, and what
        self.unresponsive = False  # to a start: nothing happens, and nothing is heard
        self.containers: dict[str, Container] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.calls: list[str] = []
        self.broken: Exception | None = None

    def fetch_version(self) -> str:
        return "1.0"

    def fetch_containers(self) -> list[Container]:
        if self.broken:
            raise self.broken
        return [self.fetch_container(id) for id in list(self.containers)]

    def fetch_container(self, id: str) -> Container:
        if self.broken:
            raise self.broken
        if id not in self.containers:
            raise NotFoundError(f"no container {id}")
        process = self.processes.get(id)
        if process and process.poll() is not None and self.containers[id].state is ContainerState.RUNNING:
            code = process.returncode if process.returncode >= 0 else 128 - process.returncode
            self.containers[id] = self.containers[id]._replace(
                state=ContainerState.EXITED, pid=None, exit_code=code, finished=NOW
            )
        return self.containers[id]

    def fetch_digests(self) -> frozenset[str]:
        return frozenset()

    def fetch_repositories(self) -> frozenset[str]:
        return frozenset()

    def fetch_images(self) -> list[LocalImage]:
        return []

    def remove_image(self, image: LocalImage) -> None:
        raise NotImplementedError

    def has_image(self, content: Content) -> bool:
        return "pull" in self.calls

    def may_be_plain(self, registry: str) -> bool:
        return True

    def pull(self, content: Content, progress: Progress) -> None:
        self.calls.append("pull")

    def create(self, content: Content, spec: ContainerSpec) -> str:
        self.calls.append("create")
        id = f"{len(self.calls):04d}".ljust(64, "a")
        self.containers[id] = Container(
            self.driver, id, spec.name, content.reference, ContainerState.CREATED, dict(spec.labels)
        )
        return id

    def start(self, id: str) -> None:
        self.calls.append("start")
        if self.unresponsive:
            raise NoAnswerError(f"{self.driver} did not answer within 60 s when asked to start container {id[:12]}")
        self.said.setdefault(id, []).append((time.time(), self.logs.get(self.containers[id].image, b"")))
        self.processes[id] = subprocess.Popen(["sleep", "600"])
        self.containers[id] = self.containers[id]._replace(
            state=ContainerState.RUNNING, pid=self.processes[id].pid, exit_code=None, started=NOW
        )
        self.behaviours.get(self.containers[id].image, attach)(self, id)

    def signal(self, id: str, number: int) -> None:
        self.calls.append(signal.Signals(number).name)
        self.fetch_container(id)
        if number == signal.SIGTERM and self.containers[id].image in self.ignores_term:
            return
        self.on_signal(id, number)
        process = self.processes[id]
        if isinstance(self.kernel.holder, Holder) and self.kernel.holder.pid == process.pid:
            self.kernel.detach()
        process.send_signal(number)
        process.wait(10)  # on a busy host its end takes a while

    def wait(self, id: str, timeout: float) -> int | None:
        self.fetch_container(id)
        try:
            self.processes[id].wait(min(timeout, 5.0))
        except subprocess.TimeoutExpired:
            return None
        return self.fetch_container(id).exit_code

    def rename(self, id: str, name: str) -> None:
        self.calls.append(f"rename {name}")
        self.containers[id] = self.containers[id]._replace(name=name)

    def remove(self, id: str) -> None:
        self.calls.append("remove")
        self.containers.pop(id, None)

    def stream_logs(
        self,
        id: str,
        *,
        follow: bool = False,
        tail: int | None = None,
        since: float | None = None,
        timestamps: bool = False,
    ) -> Iterator[bytes]:
        yield from (text for when, text in self.said.get(id, []) if since is None or when >= since)

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()

    def add(self, name: str, state: ContainerState = ContainerState.RUNNING, **fields: Any) -> Container:
        """A container that is there already, started with a process if it runs."""
        id = f"{name}-{self.driver}".ljust(64, "0")
        container = Container(self.driver, id, name, f"localhost/{name}:v1", ContainerState.CREATED, **fields)
        self.containers[id] = container
        if state is ContainerState.RUNNING:
            self.processes[id] = subprocess.Popen(["sleep", "600"])
            self.containers[id] = container._replace(state=state, pid=self.processes[id].pid)
        else:
            self.containers[id] = container._replace(state=state)
        return self.containers[id]

    def hold(self, container: Container) -> Holder:
        """The holder that this container's process is."""
        assert container.pid is not None
        return Holder(container.pid, container.name, link=1, container=container.id)


def attach(runtime: FakeRuntime, id: str) -> None:
    """A scheduler that works."""
    container = runtime.containers[id]
    runtime.kernel.attach(f"ops_{container.name}", runtime.hold(container))


def do_nothing(runtime: FakeRuntime, id: str) -> None:
    """A scheduler that runs and never attaches."""


def die(code: int = 1) -> Callable[[FakeRuntime, str], None]:
    """A scheduler that ends at once."""

    def behave(runtime: FakeRuntime, id: str) -> None:
        runtime.processes[id].kill()
        runtime.processes[id].wait()
        runtime.processes[id] = subprocess.Popen(["sh", "-c", f"exit {code}"])
        runtime.containers[id] = runtime.containers[id]._replace(pid=runtime.processes[id].pid)

    return behave


def is_held(path: Path) -> bool:
    """Whether somebody holds a lock just now."""
    if not path.exists():
        return False
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def verify(image: object) -> str:
    return "unsigned-allowed"


def request(scheduler: str = "scx_new", **fields: Any) -> RunRequest:
    image: Any = FakeImage(f"localhost/{scheduler}:v1", fields.pop("labels", {}))
    return RunRequest(image, scheduler, **fields)


@dataclass(frozen=True)
class World:
    """All of it together."""

    machine: Machine
    kernel: FakeKernel
    runtime: FakeRuntime
    docker: FakeRuntime
    progress: FakeProgress

    @property
    def runtimes(self) -> list[FakeRuntime]:
        return [self.runtime, self.docker]

    @property
    def host(self) -> Host:
        return Host(self.machine, Runtimes(self.runtimes), self.progress)

    def interrupt(self, step: str) -> Host:
        """Where Ctrl-C is pressed at a step."""
        return self.host._replace(progress=FakeProgress(interrupt=step))

    def hide(self, hidden: UnreachableRuntime) -> Host:
        """Where one runtime does not respond."""
        return self.host._replace(runtimes=Runtimes([self.runtime], [hidden]))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    kernel = FakeKernel(tmp_path / "root")
    for module in ("managed", "watching"):
        monkeypatch.setattr(f"schedkit.host.{module}.read_holder", kernel.read_holder)
    monkeypatch.setattr("schedkit.kernel.holder.read_holder", kernel.read_holder)
    monkeypatch.setattr("schedkit.host.preparing.find_obstacles", lambda root, min_version: [])
    monkeypatch.setattr("schedkit.kernel.preflight.examine_kernel", lambda root: [])
    machine = Machine(root=kernel.root, lock=tmp_path / "run/lock", now=lambda: NOW)
    runtime, docker = FakeRuntime(kernel), FakeRuntime(kernel, "docker")
    yield World(machine, kernel, runtime, docker, FakeProgress())
    runtime.close()
    docker.close()
