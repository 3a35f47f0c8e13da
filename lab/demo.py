"""The main job, live: boot a machine with sched_ext and let schedctl run, switch and stop schedulers in it.

A packaged kernel and the fixtures need no compiler. So where the real schedulers are not built yet, the story begins
with those, while the rest is built beside it.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Self

import click

from lab import layers
from lab.catalogue import open_store
from lab.disk import DISK
from lab.host import check_host
from lab.kernels import KERNELS, LONGTERM, NEWEST, OLDEST, Kernel, find_kernel
from lab.machine import Machine, snapshot_of
from lab.progress import Progress
from lab.qemu import find_accelerator
from lab.rooms import TOOLS
from lab.schedctl import furnish
from lab.session import remove_run, run_folder, sweep
from lab.signing import COSIGNS
from lab.stage import Stage
from lab.store import Artefact, Store
from schedkit.cli import run_program

FIXTURES = ("scx_fifo", "localhost:5000/scx_fifo:v2")
# scx_bpfland 1.1.4 loads on 6.12, and not on Debian's 6.18.
REAL = {OLDEST.name: ("scx_rusty", "scx_bpfland"), LONGTERM.name: ("scx_fifo", "scx_rusty")}


def play(stage: Stage, first: str, second: str) -> None:
    """The story: is this machine fit, a scheduler, another in its place, and back to the kernel's own."""
    stage.say("Can schedulers run here?")
    stage.type("schedctl doctor")

    stage.say("Run one out of an OCI image: its signature is verified, and it returns when the kernel has attached it.")
    stage.type(f"schedctl run {first}")
    stage.type("schedctl status")
    stage.type("cat /sys/kernel/sched_ext/root/ops")

    stage.say("The kernel has one slot: a second scheduler is refused before anything is started.")
    stage.type("schedctl run scx_stall")

    stage.say("Switch to another: everything is prepared before the old one leaves, and the gap is measured.")
    stage.type(f"schedctl switch {second}")
    stage.type("schedctl ps")

    stage.say("Stop it, and wait until the kernel has detached it:")
    stage.type("schedctl stop")


def play_dangers(stage: Stage) -> None:
    """What goes wrong elsewhere: an image that nobody signed, and a scheduler that stops scheduling."""
    stage.say("An image that nobody signed is refused before it is pulled:")
    stage.type("schedctl run scx_mortal")

    stage.say("A scheduler that stops scheduling: it attaches, and the kernel ejects it.")
    stage.type("schedctl run --attach scx_stall -- 1")
    stage.type("schedctl status")


class Story:
    """A machine after the other, each with its part of the story."""

    def __init__(self, store: Store, folder: Path, kernel: Kernel) -> None:
        self._store = store
        self._folder = folder
        self._kernel = kernel
        self._has_real = kernel.name in REAL  # the newest cannot load them: docs/development/lab.md

    def play(self) -> None:
        """All of it in one machine; where the real schedulers are yet to be built, small ones come first."""
        if not self._has_real:
            self._store.ensure(*self._parts(real=False), self._snapshot())
            self._play_act(real=False, dangers=True)
        elif self._has_all():
            self._play_act(real=True, dangers=True)
        else:
            self._play_first_while_building_second()

    def _play_act(self, *, real: bool, dangers: bool) -> None:
        """Start a machine, play, end it."""
        folder = self._folder / ("real" if real else "small")
        wanted = (layers.SCHEDULERS,) if real else ()
        machine = Machine.start(self._store, folder, kernel=self._kernel, layers=wanted)
        try:
            with self._store.progress.step("installing schedctl and signing the images"):
                furnish(self._store, machine, folder, real=real)
            stage = Stage(machine)
            play(stage, *(REAL[self._kernel.name] if real else FIXTURES))
            if dangers:
                play_dangers(stage)
        finally:
            machine.remove()

    def _play_first_while_building_second(self) -> None:
        """The fixtures as soon as the machine is there; meanwhile the real ones are built."""
        self._store.ensure(TOOLS, NEWEST.artefact)  # to see what accelerates a machine here
        first = [*self._parts(real=False), self._snapshot()]
        with _Builder([*first, *self._parts(real=True)]) as builder:
            builder.wait_until(lambda: all(map(self._store.has, first)))
            builder.progress.quiet = True
            click.echo("\nSmall schedulers first, while those of the scx project are compiled.")
            self._play_act(real=False, dangers=True)
            builder.progress.quiet = False
            builder.progress.say(builder.progress.describe())
            builder.wait_until(lambda: False)
        click.echo("\nNow with schedulers of the scx project.")
        self._play_act(real=True, dangers=False)

    def _has_all(self) -> bool:
        return not self._store.plan(self._parts(real=True)) and self._store.has(self._snapshot())

    def _parts(self, *, real: bool) -> list[Artefact]:
        wanted = [TOOLS, DISK, self._kernel.artefact, COSIGNS["v2"]]
        return [*wanted, layers.SCHEDULERS.artefact] if real else wanted

    def _snapshot(self) -> Artefact:
        return snapshot_of(self._kernel, find_accelerator(self._store, NEWEST))


class _Builder:
    """Builds beside the story; an error is raised where somebody waits for it."""

    def __init__(self, wanted: Sequence[Artefact]) -> None:
        self.progress = Progress()
        self._store = open_store(self.progress)
        self._pool = ThreadPoolExecutor(1)
        self._wanted = wanted

    def __enter__(self) -> Self:
        self._work = self._pool.submit(self._store.ensure, *self._wanted)
        return self

    def __exit__(self, *_: object) -> None:
        self._store.commands.stop()
        self._pool.shutdown()

    def wait_until(self, is_there: Callable[[], bool]) -> None:
        """Until something is there, or all is built."""
        while not self._work.done() and not is_there():
            wait([self._work], timeout=0.5)
        if self._work.done():
            self._work.result()


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--kernel",
    type=click.Choice(list(KERNELS)),
    default=LONGTERM.name,
    show_default=True,
    help="6.18: packaged by Debian, and scx_rusty loads on it; 6.12: the oldest, which is compiled; "
    "newest: Debian's newest, with small schedulers only, which needs no compiling.",
)
def demo(kernel: str) -> None:
    """Boot a machine with sched_ext and let schedctl run, switch and stop schedulers in it."""
    check_host()
    store = open_store()
    sweep(store)
    folder = run_folder(store, "demo")
    try:
        Story(store, folder, find_kernel(kernel)).play()
    finally:
        remove_run(store, folder)
    click.echo("\nThe machine is gone. To have one to play with: .venv/bin/python -m lab up --no-cluster")


if __name__ == "__main__":
    run_program(demo, "make demo")
