"""What the pages show and the demos do not, for `make demo-record`: python -m lab.pages SCENE."""

from pathlib import Path

import click

from lab.catalogue import open_store
from lab.demo_cluster import FIRST, IN_STEPS, STALL, ClusterStage, Scene, set_up
from lab.host import check_host
from lab.machine import SYSTEMD, Machine
from lab.schedctl import furnish
from lab.session import remove_run, run_folder, sweep
from lab.signing import COSIGNS
from lab.stage import Stage
from lab.store import Store
from lab.waiting import wait_for
from schedkit.cli import run_program

HEAD = "apiVersion: sked.schedkit.io/v1\nkind: SchedExt\n"
SPECIAL = f"""{HEAD}metadata: {{name: special}}
spec:
  sched: localhost:5000/scx_fifo:v2
  nodeSelector: {{canary: "true"}}
"""
EVERYWHERE = f"""{HEAD}metadata: {{name: everywhere}}
spec:
  sched: localhost:5000/scx_fifo:v1
"""
STALLS = f"""{HEAD}metadata: {{name: stall}}
spec:
  sched: localhost:5000/scx_stall:v1
  args: ["1"]
  nodeSelector: {{kubernetes.io/hostname: first}}
"""
CONFLICT = '{.status.conditions[?(@.type=="Conflicted")].message}'
SECONDS = 180.0  # how long the kernel may take to eject a scheduler that is started again and again


def show_boot(store: Store, folder: Path) -> None:
    """docs/schedctl/lasting.md: a scheduler is enabled on a machine whose pid 1 is systemd."""
    store.ensure(COSIGNS["v2"])
    machine = Machine.start(store, folder / "machine", init=SYSTEMD, layers=())
    furnish(store, machine, folder, real=False)
    machine.run("schedctl ps", check=False, timeout=SECONDS)  # podman, which is started on demand, takes long here
    stage = Stage(machine)
    stage.type("schedctl enable scx_fifo")
    stage.type("schedctl status")


def show_nodes(store: Store, folder: Path) -> None:
    """docs/sked/usage.md and node-reports.md: who has a node, and what its kernel says."""
    scene = set_up(store, folder)
    stage = ClusterStage(*scene)
    show_conflict(stage)
    show_ejection(stage, scene)


def show_conflict(stage: ClusterStage) -> None:
    """Two resources that want the same node: the older one has it."""
    for name, manifest in {"special": SPECIAL, "everywhere": EVERYWHERE}.items():
        stage.apply(manifest)
        stage.watch_status(name, "Ready")
    stage.kubectl("get", "nodes", "-L", "sked.schedkit.io/slot")
    stage.kubectl("get", "scx")
    stage.kubectl("get", "scx", "everywhere", "-o", f"jsonpath={CONFLICT}")
    stage.kubectl("get", "scx,scxn")
    stage.kubectl("get", "scxn")
    stage.kubectl("delete", "scx", "special", "everywhere")
    stage.watch_slot("disabled")


def show_ejection(stage: ClusterStage, scene: Scene) -> None:
    """A scheduler that the kernel ejects again and again, at a moment in which it is attached."""
    stage.apply(STALLS)

    def probe() -> bool:
        said = scene.cluster.kubectl("get", "scx,scxn", check=False).stdout
        return " Ejected " in said and " schedkit_stall " in said

    wait_for("an ejected scheduler that is attached again", probe, SECONDS)
    stage.kubectl("get", "scx,scxn")
    stage.kubectl("get", "scx", "stall", "-o", "jsonpath={.status.failures[0].message}")
    stage.kubectl("delete", "scx", "stall")
    stage.watch_slot("disabled")


def show_rollouts(store: Store, folder: Path) -> None:
    """docs/sked/kubectl-scx.md: a rollout that goes on, one that comes back, and the commands that steer them."""
    scene = set_up(store, folder)
    stage = ClusterStage(*scene)
    stage.apply(FIRST)
    stage.watch_status("web", "Ready")
    scene.cluster.kubectl("apply", "-f", "-", input=IN_STEPS.replace("minAttachedSeconds: 2", "minAttachedSeconds: 15"))
    following = stage.start_scx("status", "web", "-w")
    stage.watch_rollout("web", "Paused")
    stage.scx("status")
    stage.scx("promote", "web")
    stage.tell(following, "status", "web", "-w")
    stage.scx("nodes")
    stage.kubectl("patch", "scx", "web", "--type=merge", "-p", STALL)
    stage.scx("status", "web", "-w")
    stage.scx("why", "canary")
    stage.scx("history", "web")
    stage.scx("undo", "web")
    stage.scx("quarantine", "canary")
    stage.scx("nodes", "--problems")
    stage.scx("lift", "canary")
    nobody = folder / "nobody"
    nobody.write_text(scene.cluster.make_kubeconfig("nobody"))
    stage.tell(stage.start_scx("pause", "web", kubeconfig=nobody), "pause", "web")


SCENES = {"boot": show_boot, "nodes": show_nodes, "rollouts": show_rollouts}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("scene", type=click.Choice(list(SCENES)))
def pages(scene: str) -> None:
    """Play what a page shows, on real kernels."""
    check_host()
    store = open_store()
    sweep(store)
    folder = run_folder(store, "pages")
    try:
        SCENES[scene](store, folder)
    finally:
        remove_run(store, folder)


if __name__ == "__main__":
    run_program(pages, "python -m lab.pages")
