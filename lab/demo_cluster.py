"""The cluster's job, live: a new scheduler goes to one node first, and comes back when that node's kernel ejects it."""

import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import click

from lab import images, kube, layers
from lab.catalogue import open_store
from lab.cluster import Cluster
from lab.disk import DISK
from lab.host import check_host
from lab.kernels import LONGTERM, NEWEST
from lab.machine import Machine
from lab.node import join
from lab.rooms import TOOLS
from lab.session import remove_run, run_folder, sweep
from lab.signing import COSIGNS, Cosign, keyed
from lab.sked_deploy import NAMESPACE, await_manager, enforce_signatures, install_sked
from lab.sked_image import WHEELS, build_sked
from lab.stage import Stage
from lab.store import Store
from schedkit.cli import run_program

SIGNED = (("scx_fifo", "v1"), ("scx_fifo", "v2"), ("scx_stall", "v1"))
FIRST = """\
apiVersion: sked.schedkit.io/v1
kind: SchedExt
metadata: {name: web}
spec:
  sched: localhost:5000/scx_fifo:v1
"""
IN_STEPS = """\
apiVersion: sked.schedkit.io/v1
kind: SchedExt
metadata: {name: web}
spec:
  sched: localhost:5000/scx_fifo:v2
  rollout:
    steps:
    - {nodes: 1, nodeSelector: {canary: "true"}}
    - {pause: {}}
    minAttachedSeconds: 2
"""
UNSIGNED = '{"spec":{"sched":"localhost:5000/scx_stubborn:v1"}}'
STALL = '{"spec":{"sched":"localhost:5000/scx_stall:v1","args":["1"]}}'
SECONDS = 180  # how long a rollout may take in emulated machines


class ClusterStage(Stage):
    """Shows kubectl beside the kernel of the node that is no canary."""

    def __init__(self, machine: Machine, cluster: Cluster) -> None:
        super().__init__(machine)
        self._cluster = cluster

    def kubectl(self, *arguments: str) -> None:
        """Run kubectl and show what it says."""
        result = self._cluster.kubectl(*arguments, check=False)
        self.show("$", f"kubectl {shlex.join(arguments)}", result.stdout + result.stderr)

    def apply(self, manifest: str) -> None:
        """Apply a manifest and show both."""
        said = self._cluster.kubectl("apply", "-f", "-", input=manifest).stdout
        self.show("$", "kubectl apply -f - <<EOF", f"{manifest}EOF\n{said}")

    def scx(self, *arguments: str) -> None:
        """Run `kubectl scx` and show what it says as it says it."""
        self.tell(self.start_scx(*arguments), *arguments)

    def start_scx(self, *arguments: str, kubeconfig: Path | None = None) -> "subprocess.Popen[str]":
        """Start `kubectl scx` as the administrator, or as whoever `kubeconfig` says."""
        program = Path(sys.executable).with_name("kubectl-scx")
        environment = os.environ | {"KUBECONFIG": str(kubeconfig or self._cluster.admin_kubeconfig)}
        return subprocess.Popen(
            [program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )

    def tell(self, process: "subprocess.Popen[str]", *arguments: str) -> None:
        """Show what a `kubectl scx` says until it ends."""
        click.echo(f"$ kubectl scx {' '.join(arguments)}")
        with process:
            assert process.stdout is not None  # it is a pipe
            for line in process.stdout:
                click.echo(f"  {line.rstrip()}")
        if process.returncode:
            click.echo(f"  exit code {process.returncode}")

    def follow(self, name: str) -> None:
        """Show a rollout until it is done, or was rolled back."""
        self.scx("status", name, "-w", "--timeout", str(SECONDS))

    def watch_rollout(self, name: str, phase: str) -> None:
        """Show what a rollout of the newest spec says until it is in a phase."""

        def look() -> str:
            found = json.loads(self._cluster.kubectl("get", "scx", name, "-o", "json", check=False).stdout or "{}")
            status = found.get("status", {})
            if status.get("observedGeneration") != found.get("metadata", {}).get("generation"):
                return ""
            rollout = status.get("rollout", {})
            return f"{rollout.get('phase', '')}: {rollout.get('message', '')}"

        self.watch("rollout", look, lambda said: said.startswith(f"{phase}:"))

    def watch_status(self, name: str, wanted: str) -> None:
        """Show the columns of a resource until its status is as wanted."""

        def look() -> str:
            found = self._cluster.kubectl("get", "scx", "--no-headers", name, check=False).stdout
            return " ".join(found.split()[:-1])  # without the age, which always changes

        self.watch("kubectl get scx", look, lambda said: said.endswith(f" {wanted}"))


class Scene(NamedTuple):
    """Where the story takes place."""

    machine: Machine
    cluster: Cluster


def play(stage: ClusterStage) -> None:
    """The story: what is asked for, and then what the kernels say."""
    stage.say("A cluster with two nodes, of two kernels with sched_ext. sked runs in it, with an agent on each node:")
    stage.kubectl("get", "nodes", "-L", "canary")
    stage.kubectl("-n", NAMESPACE, "get", "pods")

    stage.say("One resource, a scheduler on every node. Ready means that the kernels have attached it:")
    stage.apply(FIRST)
    stage.watch_status("web", "Ready")
    stage.kubectl("get", "scx,scxn")

    stage.say("An image that nobody signed is refused, and the running scheduler stays:")
    stage.kubectl("patch", "scx", "web", "--type=merge", "-p", UNSIGNED)
    stage.watch_status("web", "Unsigned")
    stage.scx("verify", "web")
    stage.watch_slot("enabled schedkit_fifo")

    stage.say("A new version, in steps: it goes to the canary, and waits there. The other node is not touched:")
    stage.apply(IN_STEPS)
    stage.watch_rollout("web", "Paused")
    stage.scx("nodes")
    stage.scx("promote", "web")
    stage.follow("web")

    stage.say("A version that stops scheduling: the canary's kernel ejects it, and sked goes back by itself:")
    stage.kubectl("patch", "scx", "web", "--type=merge", "-p", STALL)
    stage.follow("web")
    stage.scx("why", "canary")

    stage.say("Deleted, and the kernels are back at their own scheduler:")
    stage.kubectl("delete", "scx", "web")
    stage.watch_slot("disabled")


def sign_images(store: Store, machine: Machine, folder: Path) -> dict[str, str]:
    """Have cosign sign the images of the story; a policy that trusts its key, and the key."""
    cosign = Cosign(store, "v3", folder / "cosign")
    private, public = cosign.make_key("demo")
    for name, tag in SIGNED:
        digest = images.fetch_digest(machine.registry, name, tag)
        cosign.sign(f"{machine.registry}/{name}@{digest}", *keyed(private))
    return {"policy.yaml": json.dumps({"keys": [{"path": "demo.pub"}]}), "demo.pub": public.read_text()}


def set_up(store: Store, folder: Path) -> Scene:
    """Two machines as nodes of a cluster, and sked in it, which runs only what is signed."""
    store.ensure(
        *(TOOLS, DISK, LONGTERM.artefact, NEWEST.artefact, layers.NODE.artefact, WHEELS, images.PYTHON),
        *(*kube.artefacts(kube.read_assets()), COSIGNS["v3"]),
    )
    machine = Machine.start(store, folder / "machine", kernel=LONGTERM, layers=(layers.NODE,))
    canary = Machine.start(store, folder / "canary", kernel=NEWEST, layers=(layers.NODE,))
    cluster = Cluster.start(folder / "cluster", kube.binaries(store, kube.read_assets()))
    with (
        store.progress.step("building sked, signing images, deploying and joining both machines as nodes"),
        ThreadPoolExecutor(2) as pool,
    ):
        nodes = {"first": machine, "canary": canary}
        joins = [pool.submit(join, one, cluster, name) for name, one in nodes.items()]
        build_sked(store, machine.registry, canary.registry)
        policy = sign_images(store, machine, folder)
        install_sked(cluster)
        enforce_signatures(cluster, policy, "first")
        for one in joins:
            one.result()
    with store.progress.step("waiting for sked to start"):
        cluster.kubectl("label", "node", "canary", "canary=true")
        await_manager(cluster)
        cluster.kubectl("-n", NAMESPACE, "rollout", "status", "daemonset", "--timeout=600s", timeout=610)
    return Scene(machine, cluster)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
def demo_cluster() -> None:
    """Deploy sked to a cluster of two sched_ext nodes, and watch a rollout go on, and another one come back."""
    check_host()
    store = open_store()
    sweep(store)
    folder = run_folder(store, "demo")
    try:
        play(ClusterStage(*set_up(store, folder)))
    finally:
        remove_run(store, folder)
    click.echo("\nThe cluster is gone. To have one to play with: .venv/bin/python -m lab up --sked")


if __name__ == "__main__":
    run_program(demo_cluster, "make demo-cluster")
