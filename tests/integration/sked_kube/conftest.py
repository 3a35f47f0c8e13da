"""One control plane for the package: its tests use names of their own, and leave it running."""

from collections.abc import Iterator

import pytest

from lab.cluster import Cluster
from lab.kube import Binaries
from lab.store import Store
from tests.integration.clusters import start_cluster


@pytest.fixture(scope="package")
def cluster(store: Store, binaries: Binaries) -> Iterator[Cluster]:
    with start_cluster(store, binaries) as cluster:
        yield cluster
