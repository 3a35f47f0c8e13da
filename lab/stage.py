"""A stage for demos: each command is shown before its output, as if typed, and the kernel is watched live."""

import time
from collections.abc import Callable

import click

from lab.machine import Machine
from lab.waiting import NotYetError, wait_for

SLOT = "cat /sys/kernel/sched_ext/state /sys/kernel/sched_ext/root/ops 2>/dev/null | paste -sd' '"
SECONDS = 180.0


class Stage:
    """Shows what happens in a machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def say(self, text: str) -> None:
        """A sentence of the story."""
        click.echo(f"\n{click.style(text, bold=True)}")

    def show(self, prompt: str, command: str, output: str) -> None:
        """A command and what it said."""
        click.echo(f"{prompt} {command}")
        for line in output.rstrip().splitlines():
            click.echo(f"  {line}")

    def type(self, command: str) -> None:
        """Type a command in the machine and show what it says."""
        done = self._machine.run(f"({command}) 2>&1", check=False, timeout=SECONDS)
        self.show("machine#", command, done.stdout + (f"exit code {done.code}" if done.code else ""))

    def watch_slot(self, wanted: str) -> None:
        """Show what the kernel says until it says `wanted`."""

        def look() -> str:
            return self._machine.run(SLOT, check=False).stdout.strip()

        self.watch("kernel", look, lambda said: said == wanted)

    def watch(self, what: str, look: Callable[[], str], is_wanted: Callable[[str], bool]) -> None:
        """Show each change of what one sees, until it is as wanted."""
        started = time.monotonic()
        seen = ""

        def probe() -> bool:
            nonlocal seen
            said = look()
            if said != seen:
                click.echo(f"  {what}, {time.monotonic() - started:4.1f} s: {said}")
                seen = said
            if not is_wanted(said):
                raise NotYetError(said)
            return True

        wait_for(what, probe, SECONDS, interval=0.2)
