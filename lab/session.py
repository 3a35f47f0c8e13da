"""The one lab a person has up: a machine and a cluster in which it is a node."""

import itertools
import os
from dataclasses import dataclass
from pathlib import Path

from lab import kube, layers
from lab.cluster import Cluster
from lab.disk import DISK
from lab.engines import end_engine, find_engines
from lab.errors import LabError
from lab.kernels import Kernel
from lab.kwok import Kwok, add_nodes
from lab.machine import SCRIPT, Machine
from lab.node import is_ready_node, join
from lab.progress import format_seconds
from lab.rooms import TOOLS
from lab.schedctl import furnish, is_furnished
from lab.signing import COSIGNS
from lab.sked_deploy import deploy_sked
from lab.store import Store, remove_tree

NODE = "lab"
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Session:
    """A folder that holds the machine's and the cluster's, if they are up."""

    store: Store
    folder: Path

    def machine(self) -> Machine | None:
        """The machine, if it runs."""
        machine = Machine(self.store, self.folder / "machine")
        return machine if machine.started() else None

    def cluster(self) -> Cluster | None:
        """The cluster, if it runs."""
        try:
            cluster = Cluster.open(self.folder / "cluster")
        except LabError:
            return None
        return cluster if cluster.alive() else None

    def up(self, kernel: Kernel, *, init: str = SCRIPT, with_cluster: bool) -> None:
        """Bring up what is not up. What an interruption left half started is ended first."""
        machine = self.machine()
        if machine and (machine.kernel.name, machine.init) != (kernel.name, init):
            raise LabError(
                f"a machine is up already, with kernel {machine.kernel.name} and {machine.init} as pid 1",
                hint="python -m lab down, then up again",
            )
        if machine and with_cluster and layers.NODE not in machine.layers:
            raise LabError("the machine that is up cannot be a node", hint="python -m lab down, then up again")
        assets = kube.read_assets()
        wanted = layers.LAYERS if with_cluster else (layers.SCHEDULERS,)
        # All at once, so that what takes long is begun first and told beforehand.
        self.store.ensure(
            *(TOOLS, DISK, COSIGNS["v2"], kernel.artefact, *(layer.artefact for layer in wanted)),
            *(kube.artefacts(assets) if with_cluster else ()),
        )
        if not machine:
            Machine(self.store, self.folder / "machine").remove()
            machine = Machine.start(self.store, self.folder / "machine", kernel=kernel, init=init, layers=wanted)
        if not is_furnished(machine):
            with self.store.progress.step("installing schedctl and signing the images"):
                furnish(self.store, machine, self.folder, real=True)
        if with_cluster:
            cluster = self.cluster() or self._start_cluster(assets)
            if not is_ready_node(cluster, NODE):
                with self.store.progress.step("joining the machine as a node"):
                    join(machine, cluster, NODE)

    def deploy_sked(self) -> None:
        """Have the operator of this tree in the cluster that is up."""
        machine, cluster = self.machine(), self.cluster()
        if not (machine and cluster):
            raise LabError("no cluster is up to deploy to", hint="python -m lab up")
        with self.store.progress.step("building and deploying sked"):
            deploy_sked(self.store, machine, cluster)

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
        """End everything that is up, and what killed processes left, and put back what was changed on this host."""
        remove_run(self.store, self.folder)
        sweep(self.store)

    def _start_cluster(self, assets: Path | None) -> Cluster:
        remove_run(self.store, self.folder / "cluster")
        cluster = Cluster.start(self.folder / "cluster", kube.binaries(self.store, assets))
        self.store.progress.say(f"cluster ready in {format_seconds(cluster.seconds_to_ready)}")
        return cluster


def run_folder(store: Store, purpose: str) -> Path:
    """A new folder for what this process runs; its name says whose it is."""
    folder = store.root / "run" / f"{purpose}-{os.getpid()}-{next(_numbers)}"
    folder.mkdir(parents=True)
    return folder


def remove_run(store: Store, folder: Path) -> None:
    """End the machines, clusters and engines in a folder and delete it."""
    for engine in find_engines(folder):
        end_engine(engine)
    for found in [*folder.rglob("cluster.json")]:
        cluster = Cluster.open(found.parent)
        Kwok(cluster).stop()
        cluster.stop()
    for found in [*folder.rglob("qemu.pid")]:
        Machine(store, found.parent).stop()
    remove_tree(folder)


def sweep(store: Store) -> None:
    """Remove what processes that are no more left running."""
    for folder in (store.root / "run").glob("*-*-*"):
        owner = folder.name.split("-")[-2]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            store.progress.say(f"removing what an ended process left: {folder.name}")
            remove_run(store, folder)
