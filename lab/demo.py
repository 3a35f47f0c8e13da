"""The main job, live: boot a machine with sched_ext and let schedctl run, switch and stop schedulers in it.

Debian's packaged kernel and the fixtures need neither the kernel's compiler nor cargo. So where the kernel for real
schedulers is not built yet, the story begins with those, while the rest is built beside it.
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
from lab.kernels import KERNELS, NEWEST, OLDEST, Kernel, find_kernel
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

REAL = ("scx_rusty", "scx_bpfland")
FIXTURES = ("scx_fifo", "localhost:5000/scx_fifo:v2")


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

    def __init__(self, store: Store, folder: Path) -> None:
        self._store = store
        self._folder = folder

    def play_act(self, kernel: Kernel, *, dangers: bool = True) -> None:
        """Start a machine, play, end it."""
        real = kernel is OLDEST  # the packaged one cannot load them: docs/development/lab.md
        folder = self._folder / kernel.name
        machine = Machine.start(self._store, folder, kernel=kernel, layers=_layers(kernel))
        try:
            with self._store.progress.step("installing schedctl and signing the images"):
                furnish(self._store, machine, folder, real=real)
            stage = Stage(machine)
            play(stage, *(REAL if real else FIXTURES))
            if dangers:
                play_dangers(stage)
        finally:
            machine.remove()

    def has(self, kernel: Kernel) -> bool:
        """Whether nothing must be built for an act."""
        return not self._store.plan(_parts(kernel)) and self._store.has(self._snapshot(kernel))

    def build(self, kernel: Kernel) -> None:
        """Build what an act with this kernel needs."""
        self._store.ensure(*_parts(kernel), NEWEST.artefact)
        self._store.ensure(self._snapshot(kernel))

    def play_first_while_building_second(self) -> None:
        """The fixtures on the packaged kernel as soon as those are there; meanwhile the real ones are built."""
        self._store.ensure(TOOLS, NEWEST.artefact)  # to see what accelerates a machine here
        wanted = [*_parts(NEWEST), self._snapshot(NEWEST), *_parts(OLDEST), self._snapshot(OLDEST)]
        with _Builder(wanted) as builder:
            builder.wait_until(lambda: self.has(NEWEST))
            builder.progress.quiet = True
            click.echo("\nA packaged kernel and small schedulers first, while a 6.12 kernel and real ones are built.")
            self.play_act(NEWEST)
            builder.progress.quiet = False
            builder.progress.say(builder.progress.describe())
            builder.wait_until(lambda: False)
        click.echo("\nNow on kernel 6.12, the oldest with sched_ext, with two schedulers of the scx project.")
        self.play_act(OLDEST, dangers=False)

    def _snapshot(self, kernel: Kernel) -> Artefact:
        return snapshot_of(kernel, find_accelerator(self._store, NEWEST))


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


def _layers(kernel: Kernel) -> tuple[layers.Layer, ...]:
    return (layers.SCHEDULERS,) if kernel is OLDEST else ()


def _parts(kernel: Kernel) -> list[Artefact]:
    return [TOOLS, DISK, kernel.artefact, COSIGNS["v2"], *(layer.artefact for layer in _layers(kernel))]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--kernel",
    type=click.Choice(list(KERNELS)),
    help="6.12: real schedulers; newest: small ones only, which needs no compiling.  "
    "[default: 6.12, begun with newest while 6.12 is built]",
)
def demo(kernel: str | None) -> None:
    """Boot a machine with sched_ext and let schedctl run, switch and stop schedulers in it."""
    check_host()
    store = open_store()
    sweep(store)
    folder = run_folder(store, "demo")
    story = Story(store, folder)
    try:
        if kernel:
            story.build(find_kernel(kernel))
            story.play_act(find_kernel(kernel))
        elif story.has(OLDEST):
            story.play_act(OLDEST)
        else:
            story.play_first_while_building_second()
    finally:
        remove_run(store, folder)
    click.echo("\nThe machine is gone. To have one to play with: .venv/bin/python -m lab up --no-cluster")


if __name__ == "__main__":
    run_program(demo, "make demo")
