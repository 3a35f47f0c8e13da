"""One control plane for the package, a copy of the files behind the make targets, and what they deploy."""

from collections.abc import Iterator

import pytest

from lab.cluster import Cluster
from lab.kube import Binaries
from lab.store import Store
from tests.integration.clusters import start_cluster
from tests.integration.sked_deploy.tools import CRD, IMAGE, REPORTS, Clone


@pytest.fixture(scope="package")
def cluster(store: Store, binaries: Binaries) -> Iterator[Cluster]:
    with start_cluster(store, binaries) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return Clone(tmp_path_factory.mktemp("clone"))


@pytest.fixture(scope="module")
def deployed(cluster: Cluster, clone: Clone) -> Cluster:
    """The cluster with config/default in it."""
    clone.make(cluster, "deploy", f"IMG={IMAGE}")
    cluster.kubectl("wait", "--for=condition=Established", f"crd/{CRD}", f"crd/{REPORTS}", "--timeout=30s")
    return cluster
