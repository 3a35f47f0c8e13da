"""The main job, live: boot a machine with sched_ext and watch schedulers attach to its kernel and leave it."""

import click

from lab.catalogue import open_store
from lab.host import check_host
from lab.kernels import KERNELS, OLDEST, find_kernel
from lab.machine import Machine
from lab.schedulers import VERSIONS
from lab.session import remove_run, run_folder, sweep
from lab.stage import Stage
from schedkit.cli import run_program

RUN = "podman run --quiet --privileged --pid host"


def play(stage: Stage, *, real: bool) -> None:
    """The story: a free slot, a scheduler, a second one refused, a real one, and an ejected one."""
    stage.say("A real kernel with sched_ext, and nobody in its slot:")
    stage.type("uname -r")
    stage.watch_slot("disabled")

    stage.say("A scheduler out of an OCI image attaches:")
    stage.type(f"{RUN} -d --name fifo localhost:5000/scx_fifo:v1")
    stage.watch_slot("enabled schedkit_fifo")

    stage.say("The slot is single: a second one is refused, and the first stays.")
    stage.type(f"{RUN} --rm localhost:5000/scx_fifo:v2")
    stage.watch_slot("enabled schedkit_fifo")

    stage.say("Stopping the container detaches it:")
    stage.type("podman stop fifo")
    stage.watch_slot("disabled")

    if real:
        stage.say("One that the scx project wrote, scx_rusty:")
        stage.type(f"{RUN} -d --name rusty localhost:5000/scx_rusty:latest")
        stage.watch_slot(f"enabled rusty_{VERSIONS['scx_rusty']}_x86_64_unknown_linux_gnu")
        stage.type("podman stop rusty")
        stage.watch_slot("disabled")

    stage.say("One that stops scheduling: the container was started, and the kernel throws it out.")
    stage.type(f"{RUN} --rm localhost:5000/scx_stall:v1 1")
    stage.type("dmesg | grep sched_ext | tail -n 3")
    stage.watch_slot("disabled")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--kernel", type=click.Choice(list(KERNELS)), default=OLDEST.name, show_default=True)
def demo(kernel: str) -> None:
    """Boot a machine with sched_ext and watch schedulers attach to its kernel and leave it."""
    check_host()
    store = open_store()
    sweep(store)
    folder = run_folder(store, "demo")
    try:
        machine = Machine.start(store, folder, kernel=find_kernel(kernel))
        # Debian's packaged kernel cannot load schedulers of the scx project: see docs/development/lab.md.
        play(Stage(machine), real=kernel == OLDEST.name)
    finally:
        remove_run(store, folder)
    click.echo("\nThe machine is gone. To have one to play with: .venv/bin/python -m lab up")


if __name__ == "__main__":
    run_program(demo, "make demo")
