"""Podman, docker and containerd do the same: every claim of runtime_suite, in the machine, against each."""

import json
from pathlib import Path

import pytest

from lab.machine import Machine
from lab.schedctl import PYTHON, install_schedctl
from tests.e2e import runtime_suite
from tests.e2e.runtime_suite.claims import CLAIMS
from tests.e2e.runtime_suite.images import image_that_is_here_is_known_by_its_digest
from tests.e2e.runtime_suite.surroundings import rounds_of_run_and_stop_leave_nothing

DRIVERS = ("podman", "docker", "containerd")
FOLDER = "/opt/schedkit/tests"
ROUNDS = rounds_of_run_and_stop_leave_nothing.__name__
CLAIM_SECONDS = 120.0
# What each runtime has in store, as its own command line or its folder shows it.
INVENTORY = {
    "podman": "podman ps -aq; podman images -aq; ls /var/lib/containers/storage/overlay; podman volume ls -q",
    "docker": "docker ps -aq; docker images -aq; ls /var/lib/docker/overlay2; docker volume ls -q",
    "containerd": (
        "for what in containers tasks images leases content; do ctr -n schedkit $what ls -q; done;"
        " ctr -n schedkit snapshots ls; ls -A /var/log/schedkit 2>/dev/null || true"
    ),
}


@pytest.fixture(scope="module")
def guest(machine: Machine) -> Machine:
    """The module's machine with our code and the suite in it."""
    install_schedctl(machine)
    machine.guest.put(Path(runtime_suite.__file__).parent, f"{FOLDER}/runtime_suite")
    return machine


def try_claims(guest: Machine, driver: str, claims: list[str], seconds: float) -> dict[str, str]:
    """What went wrong with each; the guest is slow to start Python, so they go there together."""
    command = f"cd {FOLDER} && {PYTHON} -W error -m runtime_suite {driver} {' '.join(claims)}"
    done = guest.run(command, check=False, timeout=seconds)
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return dict.fromkeys(claims, done.stderr) | {each["claim"]: each["wrong"] for each in told}


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, guest: Machine) -> dict[tuple[str, str], str]:
    """How each claim that was asked for went, by driver and claim."""
    calls = [
        item.callspec.params
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == "test_claim"
    ]
    found: dict[tuple[str, str], str] = {}
    for driver in DRIVERS:
        claims = [str(params["claim"]) for params in calls if params["driver"] == driver]
        wrong = try_claims(guest, driver, claims, CLAIM_SECONDS * len(claims)) if claims else {}
        found |= {(driver, claim): text for claim, text in wrong.items()}
    return found


@pytest.mark.parametrize("claim", [name for name in CLAIMS if name != ROUNDS])
@pytest.mark.parametrize("driver", DRIVERS)
def test_claim(outcomes: dict[tuple[str, str], str], driver: str, claim: str) -> None:
    if wrong := outcomes[driver, claim]:
        pytest.fail(wrong, pytrace=False)


@pytest.mark.parametrize("driver", DRIVERS)
def test_fifty_rounds_leave_no_container_image_snapshot_or_lease(guest: Machine, driver: str) -> None:
    pulled = image_that_is_here_is_known_by_its_digest.__name__
    assert try_claims(guest, driver, [pulled], CLAIM_SECONDS) == {pulled: ""}
    before = guest.run(INVENTORY[driver]).stdout

    assert try_claims(guest, driver, [ROUNDS], 1800) == {ROUNDS: ""}

    assert guest.run(INVENTORY[driver]).stdout == before
