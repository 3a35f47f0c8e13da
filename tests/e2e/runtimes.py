"""The three runtimes by their own command lines, as a person in the guest would use them."""

from dataclasses import dataclass

from lab.machine import Machine
from lab.process import Result

REGISTRY = "localhost:5000"


@dataclass(frozen=True)
class Runtime:
    """How one runtime is told to run a privileged container, show its output, and stop it."""

    name: str
    start: str
    logs: str
    stop: str
    prepare: str = "true"

    def run(self, machine: Machine, image: str, container: str, arguments: str = "") -> None:
        words = {"image": f"{REGISTRY}/{image}", "container": container, "arguments": arguments}
        machine.run(self.prepare.format(**words), timeout=120)
        machine.run(self.start.format(**words), timeout=120)

    def read_logs(self, machine: Machine, container: str) -> str:
        result = machine.run(self.logs.format(container=container))
        return result.stdout + result.stderr

    def end(self, machine: Machine, container: str) -> Result:
        return machine.run(self.stop.format(container=container), timeout=60)


PODMAN = Runtime(
    "podman",
    start="podman run -d --privileged --name {container} {image} {arguments}",
    logs="podman logs {container}",
    stop="podman stop -t 10 {container} && podman rm {container}",
)
DOCKER = Runtime(
    "docker",
    start="docker run -d --privileged --name {container} {image} {arguments}",
    logs="docker logs {container}",
    stop="docker stop -t 10 {container} && docker rm {container}",
)
CONTAINERD = Runtime(
    "containerd",
    prepare="ctr -n schedkit images pull --plain-http {image}",
    start="ctr -n schedkit run -d --privileged --log-uri file:///tmp/{container}.log {image} {container} {arguments}",
    logs="cat /tmp/{container}.log",
    stop=(
        "ctr -n schedkit tasks kill -s SIGTERM {container};"
        " until ctr -n schedkit tasks ls | grep -w {container} | grep -q STOPPED; do sleep 0.1; done;"
        " ctr -n schedkit tasks rm {container}; ctr -n schedkit containers rm {container}"
    ),
)
