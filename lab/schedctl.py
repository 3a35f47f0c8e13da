"""schedctl in the lab's machine: this tree's source on the packages of its disk, and all a person needs to go on."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from lab.disk import DISK
from lab.images import fetch_digest
from lab.machine import Machine
from lab.signing import Cosign, keyed
from lab.store import Store, remove_tree
from lab.wheels import PROJECT

FOLDER = "/opt/schedkit"
PYTHON = f"{FOLDER}/python"
SETTINGS = "/etc/schedkit"
REGISTRY = "localhost:5000"  # as the machine knows its own

FIXTURES = {
    "scx_fifo": "works: one queue for all, first come, first served",
    "scx_stall": "stops scheduling after a while, and the kernel ejects it",
    "scx_reject": "the kernel's BPF verifier refuses it",
    "scx_idle": "starts and never attaches",
    "scx_stubborn": "ignores SIGTERM",
}
UNSIGNED = {"scx_mortal": "nobody signed it"}
REAL = {
    "scx_rusty": "balances load over last-level caches",
    "scx_bpfland": "favours tasks that people wait for",
}
CONFIG = f"""\
# Written by the lab: images come from this machine's own registry, signed with a key that was made for it.
catalogs = ["{SETTINGS}/catalog.json"]
trust-policy = "{SETTINGS}/policy.yaml"
"""
POLICY = f"keys:\n  - path: {SETTINGS}/lab.pub\n"


def install_schedctl(machine: Machine) -> None:
    """Have `schedctl` in the machine as `pip install schedkit` would, from this tree."""
    machine.run(f"rm -rf {FOLDER}/source")
    with tempfile.TemporaryDirectory() as name:
        source = Path(name, "source")
        shutil.copytree(PROJECT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        _compile(machine.store, source)
        machine.guest.put(source, f"{FOLDER}/source")
    environment = f"PYTHONPATH={FOLDER}/source:{FOLDER}/packages"
    machine.guest.write(PYTHON, f'#!/bin/sh\n{environment} exec python3 "$@"\n'.encode(), mode=0o755)
    start = "import sys; sys.argv[0] = 'schedctl'; from schedkit.schedctl.main import main; main()"
    machine.guest.write("/usr/local/bin/schedctl", f'#!/bin/sh\nexec {PYTHON} -c "{start}" "$@"\n'.encode(), mode=0o755)


def _compile(store: Store, source: Path) -> None:
    """Write bytecode beside the source, with the machine's Python, here: in the machine it takes many times as long."""
    home = store.path(DISK) / "python/usr"
    libraries = home / "lib/x86_64-linux-gnu"
    command: list[str | Path] = [libraries / "ld-linux-x86-64.so.2", "--library-path", libraries, home / "bin/python3"]
    command += ["-m", "compileall", "-q", "-s", source, "-p", f"{FOLDER}/source", source]
    subprocess.run(command, env={"PYTHONHOME": str(home)}, check=True)


def furnish(store: Store, machine: Machine, folder: Path, *, real: bool) -> None:
    """Have schedctl, a catalog of the machine's registry, images signed with a new key, and a policy that trusts it."""
    install_schedctl(machine)
    signed = FIXTURES | (REAL if real else {})
    remove_tree(folder / "cosign")  # an interruption may have left a key there, and cosign overwrites none
    cosign = Cosign(store, "v2", folder / "cosign")
    private, public = cosign.make_key("lab")
    for name in signed:
        for tag in ("v1", "v2") if name == "scx_fifo" else ("latest",) if name in REAL else ("v1",):
            cosign.sign(f"{machine.registry}/{name}@{fetch_digest(machine.registry, name, tag)}", *keyed(private))
    catalog = {
        name: {"imageURI": f"{REGISTRY}/{name}{'' if name in REAL else ':v1'}", "description": description}
        for name, description in (signed | UNSIGNED).items()
    }
    files = {
        "catalog.json": json.dumps(catalog, indent=1).encode(),
        "policy.yaml": POLICY.encode(),
        "lab.pub": public.read_bytes(),
        "config.toml": CONFIG.encode(),  # last: see is_furnished
    }
    for name, content in files.items():
        machine.guest.write(f"{SETTINGS}/{name}", content)


def is_furnished(machine: Machine) -> bool:
    """Whether `furnish` came to its end there."""
    return machine.run(f"test -e {SETTINGS}/config.toml", check=False).code == 0
