"""Every runtime on this host, and the lab's registry to pull from."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import images
from lab.containerd import SERIES, LabContainerd
from lab.engines import LabEngine
from lab.store import Store
from schedkit.runtimes.containerd import Containerd
from schedkit.runtimes.engine import Engine
from schedkit.runtimes.model import Runtime
from tests.integration.runtimes.bench import ENGINES, Bench


@pytest.fixture(scope="module", params=(*ENGINES, *(f"containerd-{series}" for series in SERIES)))
def daemon(request: pytest.FixtureRequest, store: Store, lab_folder: Path) -> Iterator[LabEngine | LabContainerd]:
    """What speaks for a runtime; a module that is for some of them only parametrizes it anew."""
    folder = lab_folder / request.param
    daemon: LabEngine | LabContainerd
    if request.param in ENGINES:
        daemon = LabEngine.start(store, folder, request.param)
    else:
        daemon = LabContainerd.start(store, folder, request.param.removeprefix("containerd-"))
    yield daemon
    daemon.stop()


@pytest.fixture
def bench(daemon: LabEngine | LabContainerd, runtime: Runtime, registry: str) -> Bench:
    return Bench(daemon, runtime, registry)


@pytest.fixture
def runtime(daemon: LabEngine | LabContainerd, registry: str) -> Iterator[Runtime]:
    """The driver; what a test leaves is removed, but an engine's images: tests that want one absent have their own."""
    runtime: Runtime
    if isinstance(daemon, LabEngine):
        runtime = Engine(daemon.driver, str(daemon.socket), scx_folder=daemon.scx_folder)
    else:
        runtime = Containerd(str(daemon.socket), logs=daemon.folder / "logs", scx_folder=daemon.scx_folder)
    yield runtime
    Bench(daemon, runtime, registry).clear()
    if isinstance(daemon, LabContainerd):
        for kind in ("images", "leases"):
            for name in daemon.ctr(kind, "ls", "-q").split():
                daemon.ctr(kind, "rm", "--sync", name)
    runtime.close()


@pytest.fixture(scope="module")
def storage(store: Store) -> Path:
    """The lab's images as a registry's folder."""
    store.ensure(images.IMAGES)
    return store.path(images.IMAGES) / "registry"


@pytest.fixture(scope="module")
def registry(store: Store, storage: Path) -> Iterator[str]:
    with images.Registry(store, storage) as registry:
        yield registry.address
