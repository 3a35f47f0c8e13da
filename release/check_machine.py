"""The proof that the package does its job: on a machine with sched_ext, a kernel gets a scheduler by it."""

from pathlib import Path

from lab.errors import LabError
from lab.machine import SYSTEMD, Machine
from lab.store import Store
from release.debian import TRIXIE
from schedkit import __version__

PACKAGE = "/root/schedkit.deb"
SECONDS = 300.0
# What the first page of the documentation says, with an image of the machine's own registry, which nobody signed.
STEPS = (
    ("schedctl --version", f"schedctl {__version__}"),
    ("schedctl doctor", "Ready"),
    ("schedctl run --allow-unsigned localhost:5000/scx_fifo:v1", "schedkit_fifo"),
    ("schedctl status", "schedkit_fifo"),
    ("schedctl switch --allow-unsigned localhost:5000/scx_fifo:v2", "schedkit_fifo2"),
    ("schedctl bench --allow-unsigned --runs 1 --with none,localhost:5000/scx_fifo:v1 -- true", "scx_fifo"),
    ("schedctl stop", "detached and removed"),
    ("schedctl prune", "scx_fifo"),
    ("schedctl enable --allow-unsigned localhost:5000/scx_fifo:v1", "is enabled"),  # which the package's removal ends
)


def check_machine(store: Store, out: Path, folder: Path) -> None:
    """Install the package on the lab's machine as it is, run, switch and stop a scheduler, and purge the package."""
    (deb,) = out.glob(f"schedkit_*+deb{TRIXIE.number}_amd64.deb")
    machine = Machine.start(store, folder, init=SYSTEMD, layers=())
    try:
        machine.guest.put(deb, PACKAGE)
        machine.run(f"dpkg --install {PACKAGE}", timeout=SECONDS)
        for command, wanted in STEPS:
            said = machine.run(command, timeout=SECONDS).stdout
            if wanted not in said:
                raise LabError(f"{command}: expected {wanted!r} in {said[-2000:]!r}")
        machine.run("dpkg --purge schedkit", timeout=SECONDS)
        if machine.run("command -v schedctl", check=False).code == 0:
            raise LabError("purge left schedctl behind")
        if machine.run("systemctl cat schedkit.service", check=False).code == 0:
            raise LabError("purge left a unit behind whose program is gone")
    finally:
        machine.remove()
