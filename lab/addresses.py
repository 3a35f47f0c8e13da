"""Ports, and addresses of nodes: the API server must reach each at its own, so this host routes it to its loopback."""

import fcntl
import random
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from lab.errors import LabError

CLAIMS = Path("/run/schedkit-lab/addresses")
NETWORK = "198.18.0"  # reserved for benchmarks of network devices: nobody's real network
# Below the range from which the kernel serves outgoing connections: nobody takes one of these by chance.
PORTS = range(20_000, 30_000)


def choose_free_ports(count: int) -> list[int]:
    """Ports of loopback for programs that start soon. One may still be lost to another such program."""
    ports: list[int] = []
    with ExitStack() as held:
        while len(ports) < count:
            listener, port = held.enter_context(socket.socket()), random.choice(PORTS)  # noqa: S311
            with suppress(OSError):
                listener.bind(("127.0.0.1", port))
                ports.append(port)
    return ports


def claim_address(owner: Path) -> str:
    """The address of the node in the folder `owner`, routed to loopback until it is released."""
    with _lock():
        for claim in CLAIMS.iterdir():
            if claim.read_text() == str(owner):
                return claim.name
        for number in range(1, 255):
            address = f"{NETWORK}.{number}"
            claim = CLAIMS / address
            if not claim.exists() or not Path(claim.read_text()).exists():  # an owner without a folder is gone
                claim.write_text(str(owner))
                _route("replace", address)
                return address
    raise LabError(f"all addresses of {NETWORK}.0/24 are taken", hint=f"{CLAIMS} tells by whom")


def release_address(owner: Path) -> None:
    """Put back what was changed on this host for a node, if anything was."""
    with _lock():
        for claim in CLAIMS.iterdir():
            if claim.read_text() == str(owner):
                _route("del", claim.name)
                claim.unlink()


def _route(verb: str, address: str) -> None:
    # Sent from 127.0.0.1, which qemu shows to its guest as 10.0.2.2; any other source would look like the guest's own.
    route = ["local", f"{address}/32", "dev", "lo", "src", "127.0.0.1", "table", "local"]
    done = subprocess.run(["ip", "route", verb, *route], capture_output=True, text=True, check=False)
    if done.returncode and verb != "del":
        raise LabError(f"cannot route {address} to loopback: {done.stderr.strip()}")


@contextmanager
def _lock() -> Iterator[None]:
    CLAIMS.mkdir(parents=True, exist_ok=True)
    with CLAIMS.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
