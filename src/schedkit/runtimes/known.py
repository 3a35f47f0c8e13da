"""The container runtimes that we know; `drivers` looks which of them are there."""

from typing import NamedTuple

# A socket that accepts is a runtime that is there: systemd may have to start it first, on a machine that is busy.
RESPONSE_SECONDS = 10.0


class Driver(NamedTuple):
    """How to find a runtime and start it."""

    socket: str
    variable: str  # by which its users name another socket, as its own tools take it
    unit: str  # of systemd


# In this order: auto takes the first that responds.
DRIVERS = {
    "podman": Driver("/run/podman/podman.sock", "CONTAINER_HOST", "podman.socket"),
    "docker": Driver("/run/docker.sock", "DOCKER_HOST", "docker"),
    "containerd": Driver("/run/containerd/containerd.sock", "CONTAINERD_ADDRESS", "containerd"),
}
