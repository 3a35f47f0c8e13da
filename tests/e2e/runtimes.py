"""What a person in the guest would type to run a scheduler without schedctl."""

from lab.machine import Machine

REGISTRY = "localhost:5000"


def run_by_hand(machine: Machine, image: str, container: str, options: str = "") -> None:
    """Start a privileged container with podman."""
    machine.run(f"podman run -d --privileged --name {container} {options} {REGISTRY}/{image}", timeout=120)
