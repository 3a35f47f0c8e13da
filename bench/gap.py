"""How long a node's kernel is without a scheduler when it gets another one, by each way that there is to change it.

Run as `python -m bench.gap` in the repository; README.md beside it says what is measured.
"""

import argparse
import os
import statistics
from pathlib import Path
from typing import Any

from bench.agent import show
from bench.sked import Process
from lab import images, kube, layers
from lab.addresses import choose_free_ports
from lab.catalogue import open_store
from lab.cluster import Cluster
from lab.disk import DISK
from lab.kernels import OLDEST
from lab.machine import Machine
from lab.node import join
from lab.rooms import TOOLS
from lab.schedctl import install_schedctl
from lab.session import NODE, remove_run, run_folder
from lab.sked_deploy import MANAGER, NAMESPACE, deploy_sked
from lab.sked_image import WHEELS
from lab.store import Store
from tests.e2e.conftest import wait_detached
from tests.integration.sked_controller.operator import apply, make_schedext, wait_object

IMAGES = {f"localhost:5000/scx_fifo:{tag}": ops for tag, ops in (("v1", "schedkit_fifo"), ("v2", "schedkit_fifo2"))}
FIRST, SECOND = IMAGES
ROLLOUT = {"minAttachedSeconds": 2}
SECONDS = 600


class Node:
    """A real kernel that gets one scheduler after another; its agent tells how long it had none between them."""

    def __init__(self, machine: Machine, cluster: Cluster) -> None:
        self._machine = machine
        self._cluster = cluster
        self.image = SECOND

    def turn(self) -> str:
        """The other image, which is to be next."""
        self.image = SECOND if self.image == FIRST else FIRST
        return self.image

    def read_gap(self, image: str) -> float:
        """The seconds for which the kernel had no scheduler before this one, which it has or is about to get.

        Nothing looks at the kernel until its agent tells: looking would take time of the same CPU.
        """

        def is_told(report: dict[str, Any]) -> bool:
            return bool(report["status"]["slot"].get("ops") == IMAGES[image])

        report = wait_object(self._cluster, "schedextnode", NODE, is_told, seconds=SECONDS)
        return float(report["status"]["slot"].get("gapMilliseconds", 0)) / 1000  # the first has none

    def switch(self, image: str) -> float:
        """By schedctl, with containerd."""
        command = f"switch --allow-unsigned --timeout {SECONDS} {image}"
        self._machine.run(f"schedctl --driver containerd {command}", timeout=SECONDS)
        return self.read_gap(image)

    def stop(self) -> None:
        self._machine.run("schedctl --driver containerd stop", timeout=SECONDS)
        wait_detached(self._machine)

    def update(self, image: str, rollout: dict[str, Any] | None = None) -> float:
        """By a changed SchedExt: a DaemonSet's own rolling update, or a rollout."""
        more: dict[str, Any] = {"rollout": rollout} if rollout else {}
        resource = make_schedext("measured")
        apply(self._cluster, resource | {"spec": {"sched": image} | more})

        def is_done(resource: dict[str, Any]) -> bool:
            status = resource.get("status", {})
            seen = status.get("observedGeneration") == resource["metadata"]["generation"]
            phase = status.get("rollout", {}).get("phase", "Complete")
            return bool(seen and phase == "Complete" and status["nodes"].get("attached") == 1)

        wait_object(self._cluster, "schedext", "measured", is_done, seconds=SECONDS)
        return self.read_gap(image)

    def release(self) -> None:
        self._cluster.kubectl("delete", "schedext", "measured")
        wait_detached(self._machine)


def measure(store: Store, folder: Path, rounds: int, times: int) -> None:
    wanted = (TOOLS, DISK, OLDEST.artefact, layers.NODE.artefact, WHEELS, images.PYTHON)
    store.ensure(*wanted, *kube.artefacts(kube.read_assets()))
    machine = Machine.start(store, folder / "machine", layers=(layers.NODE,))
    cluster = Cluster.start(folder / "cluster", kube.binaries(store, kube.read_assets()))
    manager = Process(cluster.folder, choose_free_ports(1)[0])
    try:
        join(machine, cluster, NODE)
        deploy_sked(store, machine, cluster)
        cluster.kubectl("-n", NAMESPACE, "rollout", "status", "daemonset/sked-agent", "--timeout=300s", timeout=310)
        # In most clusters the operator does not share a CPU with the node whose gap is measured.
        cluster.kubectl("-n", NAMESPACE, "scale", "deployment", MANAGER, "--replicas=0")
        cluster.kubectl("-n", NAMESPACE, "wait", "pods", "-l", "control-plane=controller-manager", "--for=delete")
        manager.start(cluster.admin_kubeconfig, namespace=NAMESPACE)
        install_schedctl(machine)
        node = Node(machine, cluster)
        for _ in range(2):  # by these images are pulled
            node.update(node.turn())
        # Each way in each round, so that it is not the host's speed in one minute or another that is compared.
        plain, first, rollout, switch = [], [], [], []
        for _ in range(rounds):
            plain += [node.update(node.turn()) for _ in range(times)]
            node.update(node.image, ROLLOUT)
            first += [node.update(node.turn(), ROLLOUT)]  # the pod that leaves was made without a rollout
            rollout += [node.update(node.turn(), ROLLOUT) for _ in range(times)]
            node.release()
            node.switch(node.image)
            switch += [node.switch(node.turn()) for _ in range(times)]
            node.stop()
            node.update(node.image)
    finally:
        manager.stop()
        machine.stop()
        cluster.stop()
    ways = {
        "a DaemonSet's rolling update": plain,
        "a rollout": rollout,
        "the first rollout": first,
        "schedctl switch": switch,
    }
    for way, gaps in ways.items():
        show(f"gap of {way}, median of {len(gaps)}", f"{statistics.median(gaps):.2f} s")
        show("  all of these", " ".join(f"{gap:.2f}" for gap in gaps))
    for way in ("a rollout", "the first rollout", "schedctl switch"):
        ratio = statistics.median(ways[way]) / statistics.median(plain)
        show(f"ratio {way} / a DaemonSet's rolling update", f"{ratio:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how long a kernel is without a scheduler.")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--times", type=int, default=3, help="how often by each way, in each round")
    asked = parser.parse_args()
    store = open_store()
    folder = run_folder(store, "bench")
    show("load of this host, 1 minute", f"{os.getloadavg()[0]:.2f}")
    try:
        measure(store, folder, asked.rounds, asked.times)
    finally:
        remove_run(store, folder)
    show("load of this host after, 1 minute", f"{os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
