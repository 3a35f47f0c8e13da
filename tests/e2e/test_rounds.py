"""Fifty times run and stop leave nothing; for containerd, which runs on the host too, see integration/runtimes."""

import pytest

from lab.machine import Machine
from tests.e2e.runtime_suite.images import image_that_is_here_is_known_by_its_digest
from tests.e2e.runtime_suite.surroundings import rounds_of_run_and_stop_leave_nothing
from tests.e2e.trying import CLAIM_SECONDS, install_suite, try_claims

ROUNDS = rounds_of_run_and_stop_leave_nothing.__name__
# What each runtime has in store, as its own command line or its folder shows it.
INVENTORY = {
    "podman": "podman ps -aq; podman images -aq; ls /var/lib/containers/storage/overlay; podman volume ls -q",
    "docker": "docker ps -aq; docker images -aq; ls /var/lib/docker/overlay2; docker volume ls -q",
}


@pytest.mark.parametrize("driver", list(INVENTORY))
def test_fifty_rounds_leave_no_container_image_snapshot_or_lease(machine: Machine, driver: str) -> None:
    install_suite(machine)
    pulled = image_that_is_here_is_known_by_its_digest.__name__
    assert try_claims(machine, driver, [pulled], CLAIM_SECONDS) == {pulled: ""}
    before = sorted(machine.run(INVENTORY[driver]).stdout.split())

    assert try_claims(machine, driver, [ROUNDS], 1800) == {ROUNDS: ""}

    assert sorted(machine.run(INVENTORY[driver]).stdout.split()) == before
