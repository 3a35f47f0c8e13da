"""Real registries: one with the lab's images, and one to push into."""

from collections.abc import Iterator

import pytest

from lab import images
from lab.store import Store


@pytest.fixture(scope="module")
def lab_registry(store: Store) -> Iterator[str]:
    store.ensure(images.IMAGES)
    with images.Registry(store, store.path(images.IMAGES) / "registry") as registry:
        yield registry.address


@pytest.fixture(scope="module")
def scratch(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with images.Registry(store, tmp_path_factory.mktemp("scratch")) as registry:
        yield registry.address
