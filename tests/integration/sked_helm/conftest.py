"""Helm, built by the lab."""

from pathlib import Path

import pytest

from lab.cluster import Cluster
from lab.helm import HELM
from lab.store import Store
from tests.integration.sked_helm.tools import Helm


@pytest.fixture(scope="session")
def helm_program(store: Store) -> Path:
    store.ensure(HELM)
    return store.path(HELM) / "bin/helm"


@pytest.fixture(scope="session")
def helm(helm_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm that knows of no cluster."""
    return Helm(helm_program, tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="module")
def cluster_helm(helm_program: Path, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm as the administrator of the module's cluster."""
    return Helm(helm_program, tmp_path_factory.mktemp("helm"), cluster)
