"""The one lab a person has up: a machine and a cluster in which it is a node."""

from dataclasses import dataclass
from pathlib import Path

from lab import kube
from lab.cluster import Cluster
from lab.disk import DISK
from lab.errors import LabError
from lab.kernels import Kernel
from lab.kwok import Kwok, add_nodes
from lab.machine import Machine
from lab.node import join
from lab.progress import format_seconds
from lab.rooms import TOOLS
from lab.store import Store, remove_tree

NODE = "lab"


@dataclass(frozen=True)
class Session:
    """Where the lab that is up lives: a folder for the machine and one for the cluster."""

    store: Store

    @property
    def folder(self) -> Path:
        return self.store.root / "run" / "up"

    def machine(self) -> Machine | None:
        """The machine, if it runs."""
        machine = Machine(self.store, self.folder / "machine")
        return machine if machine.alive() else None

    def cluster(self) -> Cluster | None:
        """The cluster, if it runs."""
        try:
            cluster = Cluster.open(self.folder / "cluster")
        except LabError:
            return None
        return cluster if cluster.alive() else None

    def up(self, kernel: Kernel, *, with_cluster: bool) -> None:
        """Bring up what is not up. What an interruption left half started is ended first."""
        assets = kube.read_assets()
        wanted = (TOOLS, kernel.artefact, DISK, *(kube.artefacts(assets) if with_cluster else ()))
        self.store.ensure(*wanted)
        machine = self.machine()
        if machine and machine.kernel.name != kernel.name:
            raise LabError(
                f"a machine is up already, with kernel {machine.kernel.name}", hint="python -m lab down, then up again"
            )
        if not machine:
            Machine(self.store, self.folder / "machine").remove()
            machine = Machine.start(self.store, self.folder / "machine", kernel=kernel)
        if not with_cluster or self.cluster():
            return
        self._remove_cluster()
        cluster = Cluster.start(self.folder / "cluster", kube.binaries(self.store, assets))
        self.store.progress.say(f"cluster ready in {format_seconds(cluster.seconds_to_ready)}")
        with self.store.progress.step("joining the machine as a node"):
            join(machine, cluster, NODE)

    def simulate_nodes(self, count: int) -> None:
        """Have that many simulated nodes in the cluster that is up."""
        cluster = self.cluster()
        if not cluster:
            raise LabError("no cluster is up to simulate nodes in", hint="python -m lab up")
        self.store.ensure(kube.KWOK)
        kwok = Kwok(cluster)
        if not kwok.alive():
            Kwok.start(cluster, self.store.path(kube.KWOK))
        with self.store.progress.step(f"simulating {count} nodes"):
            add_nodes(cluster, count)

    def down(self) -> None:
        """End everything that is up and put back what was changed on this host."""
        Machine(self.store, self.folder / "machine").remove()
        self._remove_cluster()
        remove_tree(self.folder)

    def _remove_cluster(self) -> None:
        folder = self.folder / "cluster"
        if (folder / "cluster.json").exists():
            cluster = Cluster.open(folder)
            Kwok(cluster).stop()
            cluster.stop()
        remove_tree(folder)
