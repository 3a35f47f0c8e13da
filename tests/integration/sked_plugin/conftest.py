"""A control plane with sked's kinds and no operator: its part, the status, is written by the tests."""

from collections.abc import Iterator

import pytest

from lab.cluster import Cluster
from lab.components import CONTROLLER_MANAGER
from lab.kube import Binaries
from lab.store import Store
from tests.integration.clusters import start_cluster
from tests.integration.sked_plugin.plugin import Plugin, install


@pytest.fixture(scope="package")
def cluster(store: Store, binaries: Binaries) -> Iterator[Cluster]:
    with start_cluster(store, binaries) as cluster:
        install(cluster)
        # Nodes are objects here, and nothing more: nobody is to judge, taint or empty them.
        cluster.stop_component(CONTROLLER_MANAGER)
        yield cluster


@pytest.fixture
def plugin(cluster: Cluster) -> Iterator[Plugin]:
    """The program, and a cluster that is empty again afterwards."""
    yield Plugin(cluster)
    for kind in ("schedexts", "daemonsets", "pods"):
        cluster.kubectl("delete", kind, "--all", "-A", "--wait=false", "--grace-period=0", "--force")
    cluster.kubectl("delete", "schedextnodes,nodes", "--all", "--wait=false")
