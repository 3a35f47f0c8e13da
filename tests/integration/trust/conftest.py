"""One registry, one sigstore and the keys for all tests of this folder: making them takes longer than using them."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from lab import images
from lab.signing import Cosign, VirtualSigstore
from lab.store import Store
from tests.integration.trust.workshop import Workshop


@pytest.fixture(scope="session")
def workshop(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    folder = tmp_path_factory.mktemp("trust")
    storage = folder / "registry"
    cosigns = {series: Cosign(store, series, folder / series) for series in ("v2", "v3")}
    with images.Registry(store, storage) as registry, VirtualSigstore(store, folder / "sigstore") as sigstore:
        workshop = Workshop(registry.address, storage, cosigns, sigstore, folder)
        yield workshop
        workshop.registry.close()


@pytest.fixture(scope="session")
def pair(workshop: Workshop) -> Callable[[str], tuple[Path, Path]]:
    """A private and a public key, made by cosign; the same for the same name."""
    return cache(workshop.cosigns["v3"].make_key)
