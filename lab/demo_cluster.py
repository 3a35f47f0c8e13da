"""The cluster's job, live: sked is deployed, and what is asked of the API server ends in a node's kernel."""

import json
from pathlib import Path

import click

from lab import images, kube, kwok, layers
from lab.catalogue import open_store
from lab.cluster import Cluster
from lab.disk import DISK
from lab.host import check_host
from lab.kernels import NEWEST, OLDEST
from lab.machine import Machine
from lab.node import join
from lab.rooms import TOOLS
from lab.session import remove_run, run_folder, sweep
from lab.signing import COSIGNS, Cosign, keyed
from lab.sked_image import WHEELS, build_sked, deploy_sked, enforce_signatures
from lab.stage import Stage
from lab.store import Store
from schedkit.cli import run_program

FIFO = "localhost:5000/scx_fifo"
STALL = "localhost:5000/scx_stall:v1"
UNSIGNED = "localhost:5000/scx_stubborn:v1"
REAL = {"kernel": "real"}
CANARY = {"steps": [{"nodes": 1, "nodeSelector": {"canary": "true"}}, {"pause": {}}]}
QUICK = {"minAttachedSeconds": 2, "attachTimeoutSeconds": 60}
COLUMNS = ("get", "scx", "--no-headers")


def make_schedext(name: str, **spec: object) -> str:
    """A manifest, in the short form that a person would read."""
    return json.dumps(
        {"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExt", "metadata": {"name": name}, "spec": spec}
    )


class ClusterStage(Stage):
    """Shows kubectl beside the kernel of the one real node."""

    def __init__(self, machine: Machine, cluster: Cluster) -> None:
        super().__init__(machine)
        self._cluster = cluster

    def kubectl(self, *arguments: str) -> None:
        """Run kubectl and show what it says."""
        result = self._cluster.kubectl(*arguments, check=False)
        self.show("$", f"kubectl {' '.join(arguments)}", result.stdout + result.stderr)

    def apply(self, manifest: str) -> None:
        """Apply a manifest and show both."""
        self.show(
            "$", f"kubectl apply -f - <<<'{manifest}'", self._cluster.kubectl("apply", "-f", "-", input=manifest).stdout
        )

    def watch_ready(self, name: str) -> None:
        """Show the columns of a resource until it is ready."""
        self.watch_status(name, "Ready")

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
            found = self._cluster.kubectl(*COLUMNS, name, check=False).stdout
            return " ".join(found.split()[:-1])  # without the age, which always changes

        self.watch("kubectl get scx", look, lambda said: said.endswith(f" {wanted}"))


def sign_images(store: Store, machine: Machine, folder: Path) -> dict[str, str]:
    """Have cosign sign the images of the story; a policy that trusts its key, and the key."""
    cosign = Cosign(store, "v3", folder / "cosign")
    private, public = cosign.make_key("demo")
    for name, tag in (("scx_fifo", "v1"), ("scx_fifo", "v2"), ("scx_stall", "v1")):
        digest = images.fetch_digest(machine.registry, name, tag)
        cosign.sign(f"{machine.registry}/{name}@{digest}", *keyed(private))
    return {"policy.yaml": json.dumps({"keys": [{"path": "demo.pub"}]}), "demo.pub": public.read_text()}


def play(stage: ClusterStage) -> None:
    """The story: what is asked for, and then what the kernels say."""
    play_requests(stage)
    play_rollout(stage)
    play_kernels(stage)


def play_requests(stage: ClusterStage) -> None:
    """Verify, apply, conflict, hand-over, swap."""
    stage.say("A cluster with two real nodes (their kernels have sched_ext) and two simulated ones:")
    stage.kubectl("get", "nodes", "-L", "kernel")
    stage.kubectl("-n", "sked-system", "get", "pods")

    stage.say("One resource, every node:")
    stage.apply(make_schedext("everywhere", sched=f"{FIFO}:v1"))
    stage.watch_ready("everywhere")
    stage.watch_slot("enabled schedkit_fifo")

    stage.say(
        "It is signed by the key that the administrator's policy trusts, and pinned to the digest that was verified:"
    )
    stage.kubectl("get", "daemonset", "everywhere", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
    verified = 'jsonpath={.status.conditions[?(@.type=="Verified")].message}'
    stage.kubectl("get", "scx", "everywhere", "-o", verified)

    stage.say("An image that nobody signed is refused, and what runs goes on:")
    stage.apply(make_schedext("everywhere", sched=UNSIGNED))
    stage.watch_status("everywhere", "Unsigned")
    stage.kubectl("get", "scx", "everywhere", "-o", verified)
    stage.watch_slot("enabled schedkit_fifo")
    stage.apply(make_schedext("everywhere", sched=f"{FIFO}:v1"))
    stage.watch_ready("everywhere")

    stage.say("Priorities above zero count where an administrator allows them:")
    stage.kubectl("label", "namespace", "default", "sked.schedkit.io/any-priority=true")

    stage.say("A second one wants the real node too, with a higher priority. It gets it, and nothing crash-loops:")
    stage.apply(make_schedext("special", sched=f"{FIFO}:v2", nodeSelector={"first": "true"}, priority=10))
    stage.watch_slot("enabled schedkit_fifo2")
    stage.watch_ready("special")
    stage.watch_ready("everywhere")
    stage.kubectl("get", "scx")
    conflicted = (
        '{range .items[*]}{.metadata.name}{": "}{.status.conditions[?(@.type=="Conflicted")].message}{"\\n"}{end}'
    )
    stage.kubectl("get", "scx", "-o", f"jsonpath={conflicted}")
    stage.kubectl("get", "pods")
    stage.say("Who has the node is one label on it, and no other node was touched:")
    stage.kubectl("get", "nodes", "-L", "sked.schedkit.io/slot")

    stage.say("It goes, and the first takes over:")
    stage.kubectl("delete", "schedext", "special")
    stage.watch_slot("enabled schedkit_fifo")

    stage.say("Deleted, and the kernel is back to its own scheduler:")
    stage.kubectl("delete", "schedext", "everywhere")
    stage.watch_slot("disabled")


def play_rollout(stage: ClusterStage) -> None:
    """A canary that its kernel takes, and one that its kernel throws out."""
    stage.say("Two real nodes with different kernels, one of them the canary:")
    stage.kubectl("get", "nodes", "-L", "kernel", "-L", "canary")
    stage.apply(make_schedext("rolled", sched=f"{FIFO}:v1", nodeSelector=REAL, rollout=QUICK))
    stage.watch_rollout("rolled", "Complete")

    stage.say("A new image goes to the canary first, and waits there. The other node is not touched:")
    stage.apply(make_schedext("rolled", sched=f"{FIFO}:v2", nodeSelector=REAL, rollout=CANARY | QUICK))
    stage.watch_rollout("rolled", "Paused")
    stage.kubectl("get", "scxn")
    stage.say("Promoted, and the gap that the kernels saw:")
    stage.kubectl("annotate", "scx", "rolled", "sked.schedkit.io/promote=now")
    stage.watch_rollout("rolled", "Complete")
    stage.kubectl("get", "scx", "rolled", "-o", "jsonpath={.status.pools[0].rollout.gap}")

    stage.say("A scheduler that stops scheduling: the canary's kernel ejects it, and the one before comes back:")
    stage.apply(make_schedext("rolled", sched=STALL, args=["1"], nodeSelector=REAL, rollout=CANARY | QUICK))
    stage.watch_rollout("rolled", "RolledBack")
    stage.kubectl("get", "scx,scxn")
    stage.kubectl("delete", "schedext", "rolled")
    stage.watch_slot("disabled")


def play_kernels(stage: ClusterStage) -> None:
    """A scheduler of somebody else's."""
    stage.say("Somebody starts a scheduler by hand on the node. Whoever wants the node is told whose it is:")
    stage.type("setsid /opt/fixtures/scx_fifo-v1 >/dev/null 2>&1 </dev/null &")
    stage.watch_slot("enabled schedkit_fifo")
    stage.apply(make_schedext("everywhere", sched=f"{FIFO}:v2"))
    stage.watch_status("everywhere", "ForeignScheduler")
    stage.kubectl("get", "scx,scxn")
    stage.type("pkill -x scx_fifo-v1")
    stage.watch_slot("enabled schedkit_fifo2")
    stage.kubectl("delete", "schedext", "everywhere")
    stage.watch_slot("disabled")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
def demo_cluster() -> None:
    """Deploy sked to a cluster with a real sched_ext node and watch it work."""
    check_host()
    store = open_store()
    sweep(store)
    folder = run_folder(store, "demo")
    try:
        store.ensure(
            *(TOOLS, DISK, OLDEST.artefact, NEWEST.artefact, layers.NODE.artefact, WHEELS, images.PYTHON),
            *(*kube.artefacts(kube.read_assets()), kube.KWOK, COSIGNS["v3"]),
        )
        machine = Machine.start(store, folder / "machine", layers=(layers.NODE,))
        cluster = Cluster.start(folder / "cluster", kube.binaries(store, kube.read_assets()))
        with store.progress.step("joining the machine as a node"):
            join(machine, cluster, "lab")
        cluster.kubectl("label", "node", "lab", "kernel=real", "first=true")
        with store.progress.step("building and deploying sked"):
            deploy_sked(store, machine, cluster)  # first, so that its pod lands on the node that can run it
        with store.progress.step("a second node, with another kernel"):
            canary = Machine.start(store, folder / "canary", kernel=NEWEST, layers=(layers.NODE,))
            build_sked(store, canary.registry)
            join(canary, cluster, "canary")
        cluster.kubectl("label", "node", "canary", "kernel=real", "canary=true")
        with store.progress.step("signing images, and letting sked run nothing else"):
            enforce_signatures(cluster, sign_images(store, machine, folder))
        kwok.Kwok.start(cluster, store.path(kube.KWOK))
        kwok.add_nodes(cluster, 2, labels={"kernel": "simulated"}, prefix="simulated")
        play(ClusterStage(machine, cluster))
    finally:
        remove_run(store, folder)
    click.echo("\nThe cluster is gone. To have one to play with: .venv/bin/python -m lab up --sked")


if __name__ == "__main__":
    run_program(demo_cluster, "make demo-cluster")
