"""Schedulers that others wrote run here too."""

import pytest

from lab.machine import Machine
from tests.e2e.conftest import wait_attached, wait_detached
from tests.e2e.runtimes import PODMAN


@pytest.mark.parametrize("name", ["rusty", "bpfland"])
def test_real_scheduler_attaches_on_the_oldest_kernel(machine: Machine, name: str) -> None:
    PODMAN.run(machine, f"scx_{name}:latest", name)
    wait_attached(machine, name)
    PODMAN.end(machine, name)
    wait_detached(machine)
