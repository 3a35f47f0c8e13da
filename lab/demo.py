"""The main job, live: boot a machine with sched_ext and let schedctl run, switch and stop schedulers in it."""

import json

import click

from lab.catalogue import open_store
from lab.host import check_host
from lab.kernels import KERNELS, OLDEST, find_kernel
from lab.machine import Machine
from lab.schedctl import install_schedctl
from lab.session import remove_run, run_folder, sweep
from lab.stage import Stage
from schedkit.cli import run_program

NAMES = ("scx_fifo", "scx_stall", "scx_rusty", "scx_bpfland")
CATALOG = {name: {"imageURI": f"localhost:5000/{name}"} for name in NAMES}
CATALOG["scx_fifo"]["imageURI"] += ":v1"
CATALOG["scx_stall"]["imageURI"] += ":v1"
# What the demo's images lack and a user's have: signatures. Patience is for an emulated machine.
SETTINGS = {"SCHEDCTL_CATALOG": "/root/catalog.json", "SCHEDCTL_ALLOW_UNSIGNED": "1", "SCHEDCTL_PATIENCE": "20"}


def prepare(machine: Machine) -> None:
    """Have schedctl in the machine, and a catalog of the images in its registry."""
    install_schedctl(machine)
    machine.guest.write("/root/catalog.json", json.dumps(CATALOG).encode())


def play(stage: Stage, *, real: bool) -> None:
    """The story: is this machine fit, a scheduler, another in its place, one that the kernel throws out."""
    first, second = ("scx_rusty", "scx_bpfland") if real else ("scx_fifo", "localhost:5000/scx_fifo:v2")
    stage.say("Can schedulers run here?")
    stage.type("schedctl doctor")

    stage.say("Run one out of an OCI image. It returns when the kernel says that it is attached:")
    stage.type(f"schedctl run {first}")
    stage.type("schedctl status")
    stage.type("cat /sys/kernel/sched_ext/root/ops")

    stage.say("The slot is single: a second one is refused before anything is started.")
    stage.type("schedctl run scx_fifo --name second")

    stage.say("Switch to another: all is prepared before the old one leaves, and the gap is measured.")
    stage.type(f"schedctl switch {second}")
    stage.type("schedctl ps")

    stage.say("Stop it, and wait until the kernel let it go:")
    stage.type("schedctl stop")

    stage.say("One that stops scheduling: it attaches, and the kernel throws it out.")
    stage.type("schedctl run --attach scx_stall -- 1")
    stage.type("schedctl status")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--kernel", type=click.Choice(list(KERNELS)), default=OLDEST.name, show_default=True)
def demo(kernel: str) -> None:
    """Boot a machine with sched_ext and let schedctl run, switch and stop schedulers in it."""
    check_host()
    store = open_store()
    sweep(store)
    folder = run_folder(store, "demo")
    try:
        machine = Machine.start(store, folder, kernel=find_kernel(kernel))
        # Debian's packaged kernel cannot load schedulers of the scx project: see docs/development/lab.md.
        prepare(machine)
        play(Stage(machine, SETTINGS), real=kernel == OLDEST.name)
    finally:
        remove_run(store, folder)
    click.echo("\nThe machine is gone. To have one to play with: .venv/bin/python -m lab up")


if __name__ == "__main__":
    run_program(demo, "make demo")
