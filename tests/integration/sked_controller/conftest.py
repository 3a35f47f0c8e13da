"""A control plane with the resource definition, simulated nodes of two pools, and the operator."""

from collections.abc import Iterator

import pytest

from lab import kube, kwok
from lab.cluster import Cluster
from lab.components import CONTROLLER_MANAGER
from lab.store import Store
from lab.waiting import wait_for
from tests.integration.sked_controller.operator import ROOT, Operator


@pytest.fixture(scope="module")
def nodes(cluster: Cluster, store: Store) -> Iterator[Cluster]:
    """The module's cluster with nodes large-0000, large-0001 (pool=large) and small-0000 (pool=small)."""
    store.ensure(kube.KWOK)
    cluster.kubectl("apply", "-k", str(ROOT / "config/crd"))
    path = "/apis/sked.schedkit.io/v1/schedexts"
    wait_for("the kind to be served", lambda: cluster.kubectl("get", "--raw", path, check=False).code == 0, 60)
    # Its garbage collector looks for new kinds twice a minute, and when it starts.
    cluster.stop_component(CONTROLLER_MANAGER)
    cluster.start_component(CONTROLLER_MANAGER)
    controller = kwok.Kwok.start(cluster, store.path(kube.KWOK))
    kwok.add_nodes(cluster, 2, labels={"pool": "large"}, prefix="large")
    kwok.add_nodes(cluster, 1, labels={"pool": "small"}, prefix="small")
    yield cluster
    controller.stop()


@pytest.fixture(scope="module")
def operator(nodes: Cluster) -> Iterator[Operator]:
    operator = Operator(nodes)
    operator.start("--leader-elect")
    yield operator
    operator.stop()


@pytest.fixture
def clean(nodes: Cluster, operator: Operator) -> Iterator[Cluster]:
    """The cluster, and no resource left in it afterwards; a failed test shows what the operator said."""
    yield nodes
    print(operator.log()[-8000:])
    nodes.kubectl("delete", "schedexts", "--all", "-A", "--wait=true")
    nodes.kubectl("delete", "daemonsets", "--all", "-A", "--cascade=foreground", "--wait=true")
