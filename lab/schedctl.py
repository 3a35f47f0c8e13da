"""schedctl in the lab's machine: this tree's source, on the locked packages that are on its disk."""

from lab.machine import Machine
from lab.wheels import PROJECT

FOLDER = "/opt/schedkit"
PYTHON = f"{FOLDER}/python"


def install_schedctl(machine: Machine) -> None:
    """Have `schedctl` in the machine as `pip install schedkit` would, from this tree."""
    machine.run(f"rm -rf {FOLDER}/source")
    machine.guest.put(PROJECT / "src", f"{FOLDER}/source")
    environment = f"PYTHONPATH={FOLDER}/source:{FOLDER}/packages"
    machine.guest.write(PYTHON, f'#!/bin/sh\n{environment} exec python3 "$@"\n'.encode(), mode=0o755)
    start = "import sys; sys.argv[0] = 'schedctl'; from schedkit.schedctl.main import main; main()"
    machine.guest.write("/usr/local/bin/schedctl", f'#!/bin/sh\nexec {PYTHON} -c "{start}" "$@"\n'.encode(), mode=0o755)
