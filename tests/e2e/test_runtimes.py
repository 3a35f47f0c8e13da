"""Podman, docker and containerd do the same: every claim of runtime_suite, in the machine, against each."""

import pytest

from lab.machine import Machine
from tests.e2e.runtime_suite.claims import CLAIMS
from tests.e2e.runtime_suite.surroundings import rounds_of_run_and_stop_leave_nothing
from tests.e2e.trying import CLAIM_SECONDS, install_suite, try_claims

DRIVERS = ("podman", "docker", "containerd")
ROUNDS = rounds_of_run_and_stop_leave_nothing.__name__


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, machine: Machine) -> dict[tuple[str, str], str]:
    """How each claim that was asked for went, by driver and claim."""
    calls = [
        item.callspec.params
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == "test_claim"
    ]
    install_suite(machine)
    found: dict[tuple[str, str], str] = {}
    for driver in DRIVERS:
        claims = [str(params["claim"]) for params in calls if params["driver"] == driver]
        wrong = try_claims(machine, driver, claims, CLAIM_SECONDS * len(claims)) if claims else {}
        found |= {(driver, claim): text for claim, text in wrong.items()}
    return found


@pytest.mark.parametrize("claim", [name for name in CLAIMS if name != ROUNDS])
@pytest.mark.parametrize("driver", DRIVERS)
def test_claim(outcomes: dict[tuple[str, str], str], driver: str, claim: str) -> None:
    if wrong := outcomes[driver, claim]:
        pytest.fail(wrong, pytrace=False)
