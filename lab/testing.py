"""The lab as pytest fixtures. A failed test shows the end of its machine's console."""

import itertools
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from lab import kube
from lab.catalogue import open_store
from lab.cluster import Cluster
from lab.host import check_host
from lab.kernels import OLDEST, find_kernel
from lab.machine import SYSTEMD, Machine
from lab.node import join
from lab.session import NODE, remove_run, run_folder, sweep
from lab.store import Store

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def store() -> Store:
    """The lab's cache; what a test needs and is not there gets built."""
    check_host()
    store = open_store()
    sweep(store)
    return store


@pytest.fixture(scope="session")
def binaries(store: Store) -> kube.Binaries:
    """The programs of a control plane."""
    return kube.binaries(store, kube.read_assets())


@pytest.fixture(scope="module")
def lab_folder(store: Store) -> Iterator[Path]:
    """A folder for what a module runs, in the lab's cache, where qemu can see it."""
    folder = run_folder(store, "test")
    yield folder
    remove_run(store, folder)


@pytest.fixture(scope="module")
def cluster(lab_folder: Path, binaries: kube.Binaries) -> Iterator[Cluster]:
    """A control plane of the module's own."""
    cluster = Cluster.start(lab_folder / "cluster", binaries)
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def machine(request: pytest.FixtureRequest, store: Store, lab_folder: Path) -> Iterator[Machine]:
    """A machine of the module's own; parametrize it indirectly with a kernel's name for another than the oldest."""
    kernel = find_kernel(getattr(request, "param", OLDEST.name))
    # A folder for each: a module that asks for both kernels gets two machines.
    machine = Machine.start(store, lab_folder / f"machine-{next(_numbers)}", kernel=kernel)
    yield machine
    machine.stop()


@pytest.fixture(scope="module")
def systemd_machine(store: Store, lab_folder: Path) -> Iterator[Machine]:
    """A machine of the module's own with systemd as pid 1, as distributions have it: services start on demand."""
    machine = Machine.start(store, lab_folder / f"machine-{next(_numbers)}", init=SYSTEMD)
    yield machine
    machine.stop()


@pytest.fixture(scope="module")
def node(machine: Machine, cluster: Cluster) -> Machine:
    """The module's machine as the node `lab` of the module's cluster, Ready."""
    join(machine, cluster, NODE)
    return machine


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the end of the console beside a failure in which a machine took part."""
    report = yield
    took_part = getattr(item, "funcargs", {})
    machine = took_part.get("machine") or took_part.get("systemd_machine")
    if report.failed and isinstance(machine, Machine):
        report.sections.append(("console of the machine", machine.console_tail()))
    return report
