"""One control plane for the package, with config/default in it and two nodes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cluster import Cluster
from lab.kube import Binaries
from lab.store import Store
from lab.waiting import wait_for
from tests.integration.clusters import start_cluster
from tests.integration.sked_agent.node import REPORTS, AgentProcess, ask, create_node, make_report
from tests.integration.sked_deploy.tools import ROOT

FIRST, SECOND = "first", "second"


@pytest.fixture(scope="package")
def cluster(store: Store, binaries: Binaries) -> Iterator[Cluster]:
    with start_cluster(store, binaries) as cluster:
        cluster.kubectl("apply", "-k", str(ROOT / "config/default"))
        cluster.kubectl("wait", "--for=condition=Established", "crd/schedextnodes.sked.schedkit.io", "--timeout=30s")
        yield cluster


@pytest.fixture(scope="package")
def tokens(cluster: Cluster) -> dict[str, str]:
    """The tokens of both nodes' agents, once the policy is in force: that takes some seconds after it was created."""
    tokens = {name: create_node(cluster, name) for name in (FIRST, SECOND)}
    other = (tokens[FIRST], "PATCH", f"{REPORTS}/other", make_report("other"))
    wait_for("the policy to be in force", lambda: "denied request" in ask(cluster, *other)[1], 60)
    cluster.kubectl("delete", "schedextnodes", "--all")
    return tokens


@pytest.fixture
def agent(cluster: Cluster, tokens: dict[str, str], tmp_path: Path) -> Iterator[AgentProcess]:
    """The first node's agent, not yet started; no report is left afterwards."""
    agent = AgentProcess(cluster, FIRST, tokens[FIRST], tmp_path)
    yield agent
    if agent.daemon.log.exists():
        print(agent.daemon.log.read_text())
    agent.daemon.stop()
    cluster.kubectl("delete", "schedextnodes", "--all")
