"""containerd of each series on this host, and the lab's registry to pull from."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import images
from lab.containerd import CONTAINERDS, LabContainerd
from lab.store import Store
from schedkit.images.reference import parse_reference
from schedkit.images.registry import Registry
from schedkit.runtimes.containerd import Containerd
from schedkit.runtimes.model import Content


@pytest.fixture(scope="module", params=CONTAINERDS)
def daemon(request: pytest.FixtureRequest, store: Store, lab_folder: Path) -> Iterator[LabContainerd]:
    daemon = LabContainerd.start(store, lab_folder / f"containerd-{request.param}", request.param)
    yield daemon
    daemon.stop()


@pytest.fixture
def runtime(daemon: LabContainerd) -> Iterator[Containerd]:
    """The driver; what a test leaves in the namespace is removed."""
    runtime = Containerd(str(daemon.socket), logs=daemon.folder / "logs")
    yield runtime
    for container in runtime.fetch_containers():
        runtime.signal(container.id, 9)
        if container.pid:
            runtime.wait(container.id, 30)
        runtime.remove(container.id)
    for image in daemon.ctr("images", "ls", "-q").split():
        daemon.ctr("images", "rm", "--sync", image)
    for lease in daemon.ctr("leases", "ls", "-q").split():
        daemon.ctr("leases", "rm", "--sync", lease)
    runtime.close()


@pytest.fixture(scope="module")
def registry(store: Store) -> Iterator[str]:
    store.ensure(images.IMAGES)
    with images.Registry(store, store.path(images.IMAGES) / "registry") as registry:
        yield registry.address


def resolve(address: str, name: str) -> Content:
    return Registry().fetch_image(parse_reference(f"{address}/{name}"))
