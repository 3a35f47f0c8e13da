"""The claims of this package tried in a machine: our code runs there, beside the runtimes and the kernel."""

import json
from pathlib import Path

from lab.machine import Machine
from lab.schedctl import PYTHON, install_schedctl

FOLDER = "/opt/schedkit/tests"
CLAIM_SECONDS = 120.0


def install_suite(machine: Machine) -> None:
    """Have our code and the suite in the machine."""
    install_schedctl(machine)
    machine.guest.put(Path(__file__).with_name("runtime_suite"), f"{FOLDER}/runtime_suite")


def try_claims(guest: Machine, driver: str, claims: list[str], seconds: float) -> dict[str, str]:
    """What went wrong with each; the guest is slow to start Python, so they go there together."""
    command = f"cd {FOLDER} && {PYTHON} -W error -m runtime_suite {driver} {' '.join(claims)}"
    done = guest.run(command, check=False, timeout=seconds)
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return dict.fromkeys(claims, done.stderr) | {each["claim"]: each["wrong"] for each in told}
