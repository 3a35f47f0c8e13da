"""Which runtimes are there, and how to reach them."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from schedkit.errors import NoPermissionError, UsageError
from schedkit.runtimes.probe import Answered, Failed, probe

if TYPE_CHECKING:
    from schedkit.runtimes.model import Runtime

DRIVERS = ("podman", "docker", "containerd")  # auto takes the first whose socket answers, in this order
SOCKETS = {
    "podman": "/run/podman/podman.sock",
    "docker": "/run/docker.sock",
    "containerd": "/run/containerd/containerd.sock",
}
CONNECT_SECONDS = 0.1  # what a dead or silent socket may cost
PATIENT_SECONDS = 5.0  # for the one that the user named: systemd may have to start it first
# Where users of these runtimes name another socket, as their own tools take it.
_VARIABLES = {"podman": "CONTAINER_HOST", "docker": "DOCKER_HOST", "containerd": "CONTAINERD_ADDRESS"}
_UNITS = {"podman": "podman.socket", "docker": "docker", "containerd": "containerd"}


class Silent(NamedTuple):
    """A driver that does not answer. `absent`: there is no socket at all, so nothing of it runs here."""

    driver: str
    socket: str
    why: str
    absent: bool


def open_runtime(driver: str, socket: str | None = None) -> "Runtime":
    """The runtime behind one driver; UnavailableError with a hint if it does not answer."""
    if driver not in DRIVERS:
        raise UsageError(f"no such driver: {driver}", hint=f"there are {', '.join(DRIVERS)}")
    path = socket or socket_of(driver, os.environ)
    outcome = probe({driver: path}, PATIENT_SECONDS)[driver]
    if isinstance(outcome, Failed):
        hint = f"start it, for example: systemctl start {_UNITS[driver]}; or name its socket with --socket"
        if outcome.error is NoPermissionError:
            hint = "run it as root, with sudo for example"
        raise outcome.error(f"{driver} does not answer at {path}: {outcome.why}", hint=hint)
    return _open(driver, path, outcome)


def find_runtimes(
    drivers: Sequence[str] = DRIVERS, seconds: float = CONNECT_SECONDS
) -> tuple[list["Runtime"], list[Silent]]:
    """All runtimes that answer, in order, and those that do not and why. They are asked at the same time."""
    sockets = {driver: socket_of(driver, os.environ) for driver in drivers}
    runtimes, silent = [], []
    for driver, outcome in probe(sockets, seconds).items():
        if isinstance(outcome, Failed):
            silent.append(Silent(driver, sockets[driver], outcome.why, outcome.absent))
        else:
            runtimes.append(_open(driver, sockets[driver], outcome))
    return runtimes, silent


def socket_of(driver: str, environment: Mapping[str, str]) -> str:
    """Where the driver's runtime listens; a variable that names something else than a unix socket is not for us."""
    named = environment.get(_VARIABLES[driver], "")
    path = named.removeprefix("unix://")
    return path if path.startswith("/") else SOCKETS[driver]


def _open(driver: str, path: str, answered: Answered) -> "Runtime":
    if driver == "containerd":
        from schedkit.runtimes.containerd import Containerd

        return Containerd(path)
    from schedkit.runtimes.engine import Engine

    return Engine(driver, path, api=answered.api)
