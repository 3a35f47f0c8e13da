"""A control plane with the resource definition, simulated nodes of two pools, and the operator: one for the package."""

from collections.abc import Iterator

import pytest

from lab import kube, kwok
from lab.cluster import Cluster
from lab.components import CONTROLLER_MANAGER
from lab.kube import Binaries
from lab.store import Store
from lab.waiting import wait_for
from tests.integration.clusters import read_api, start_cluster
from tests.integration.sked_controller.operator import ROOT, Operator, empty


@pytest.fixture(scope="package")
def cluster(store: Store, binaries: Binaries) -> Iterator[Cluster]:
    with start_cluster(store, binaries) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def nodes(cluster: Cluster, store: Store) -> Iterator[Cluster]:
    """The cluster with nodes large-0000, large-0001 (pool=large) and small-0000 (pool=small)."""
    store.ensure(kube.KWOK)
    cluster.kubectl("apply", "-k", str(ROOT / "config/crd"))
    served = "/apis/sked.schedkit.io/v1/schedexts"
    wait_for("the kind to be served", lambda: read_api(cluster, served) is not None, 60)
    # Its garbage collector looks for new kinds twice a minute, and when it starts.
    cluster.stop_component(CONTROLLER_MANAGER)
    cluster.start_component(CONTROLLER_MANAGER)
    cluster.kubectl("label", "namespace", "default", "sked.schedkit.io/any-priority=true")
    controller = kwok.Kwok.start(cluster, store.path(kube.KWOK))
    kwok.add_nodes(cluster, 2, labels={"pool": "large"}, prefix="large")
    kwok.add_nodes(cluster, 1, labels={"pool": "small"}, prefix="small")
    yield cluster
    controller.stop()


@pytest.fixture(scope="package")
def leader(nodes: Cluster) -> Iterator[Operator]:
    operator = Operator(nodes)
    yield operator
    operator.stop()


@pytest.fixture
def operator(leader: Operator) -> Operator:
    """The operator, running with leader election, whatever the test before did with it."""
    if leader.arguments != ("--leader-elect",) or not leader.daemon.alive():
        leader.stop()
        leader.start("--leader-elect")
    return leader


@pytest.fixture
def clean(nodes: Cluster, operator: Operator) -> Iterator[Cluster]:
    """The cluster, and no resource left in it afterwards; a failed test shows what the operator said."""
    yield nodes
    print(operator.log()[-8000:])
    empty(nodes)
