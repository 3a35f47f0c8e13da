"""All commands of `kubectl scx`, for click. A command's module is imported when it is called, and no other."""

from importlib import import_module

import click

from schedkit import __version__
from schedkit.cli import LazyGroup
from schedkit.sked.plugin.options import HELP_NAMES, global_options

PROGRAM = "kubectl scx"
# Section → command → its one line of help.
SECTIONS = {
    "See what happens": {
        "status": "Show the state of rollouts, or follow one with -w.",
        "nodes": "List the nodes and what their kernels run.",
        "why": "Show everything that is known about one node.",
        "history": "List the revisions that you can go back to.",
        "verify": "Show whether the images are verified.",
    },
    "Control a rollout": {
        "pause": "Pause a rollout.",
        "resume": "Continue a paused rollout.",
        "promote": "Continue a rollout that waits at a pause step.",
        "retry": "Try a failed revision again.",
        "undo": "Go back to an earlier revision.",
        "refresh": "Resolve and verify the images again.",
    },
    "Keep a node out": {
        "quarantine": "Leave a node without a scheduler.",
        "lift": "End a node's quarantine.",
    },
    "Other": {
        "completion": "Print the completion script for a shell.",
        "version": "Show the version.",
    },
}
# Commands that are told in another module than one of their own name.
MODULES = {
    **dict.fromkeys(("pause", "resume", "promote", "retry", "refresh"), "steering"),
    **dict.fromkeys(("quarantine", "lift"), "quarantine"),
}


class PluginGroup(LazyGroup):
    """Several commands share a module."""

    sections = SECTIONS

    def load(self, name: str) -> click.Command:
        module = import_module(f"schedkit.sked.plugin.commands.{MODULES.get(name, name)}")
        command = getattr(module, name)
        assert isinstance(command, click.Command)  # noqa: S101  (a module that has none is a bug)
        return command


@click.group(
    cls=PluginGroup,
    context_settings=HELP_NAMES,
    params=global_options(hidden=False),
    epilog="Exit codes: 'schedctl help exit-codes'. Examples: 'kubectl scx COMMAND --help'.",
)
@click.version_option(__version__, "--version", prog_name=PROGRAM, message="%(prog)s %(version)s")
def scx() -> None:
    """Follow and control rollouts of sched_ext CPU schedulers, and see what each node's kernel runs."""
