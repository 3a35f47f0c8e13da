"""One registry, one sigstore and the keys for the tests of a file: making them takes longer than using them.

Not for all files: the virtual timestamp authority's certificate is valid for ten minutes, and between two files of this
folder others may be run.
"""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from lab import images
from lab.signing import Cosign, VirtualSigstore
from lab.store import Store
from tests.integration.trust.workshop import Workshop


@pytest.fixture(scope="module")
def workshop(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    folder = tmp_path_factory.mktemp("trust")
    storage = folder / "registry"
    cosigns = {series: Cosign(store, series, folder / series) for series in ("v2", "v3")}
    with images.Registry(store, storage) as registry, VirtualSigstore(store, folder / "sigstore") as sigstore:
        workshop = Workshop(registry.address, storage, cosigns, sigstore, folder)
        yield workshop
        workshop.registry.close()


@pytest.fixture(scope="module")
def pair(workshop: Workshop) -> Callable[[str], tuple[Path, Path]]:
    """A private and a public key, made by cosign; the same for the same name."""
    return cache(workshop.cosigns["v3"].make_key)
