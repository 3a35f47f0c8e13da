"""All commands of `kubectl scx`, for click. A command's module is imported when it is called, and no other."""

from importlib import import_module
from typing import TYPE_CHECKING

import click

from schedkit import __version__
from schedkit.sked.plugin.options import HELP_NAMES, global_options

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

PROGRAM = "kubectl scx"
# Section → command → its one line of help.
SECTIONS = {
    "See what happens": {
        "status": "Show how rollouts stand, or follow one with -w.",
        "nodes": "List the nodes and what their kernels run.",
        "why": "Explain one node: everything that is known of it.",
        "history": "List the revisions that can be gone back to.",
        "verify": "Show whether the images are verified.",
    },
    "Steer a rollout": {
        "pause": "Stop a rollout where it is.",
        "resume": "Let a paused rollout go on.",
        "promote": "Let a rollout go on that waits at a pause step.",
        "retry": "Try a failed revision again.",
        "undo": "Go back to an earlier revision.",
        "refresh": "Resolve and verify the images again.",
    },
    "Keep a node out": {
        "quarantine": "Leave a node without a scheduler.",
        "lift": "End a node's quarantine.",
    },
    "And": {
        "completion": "Print the completion script of a shell.",
        "version": "Show the version.",
    },
}
HELP = {name: text for commands in SECTIONS.values() for name, text in commands.items()}
# Commands that are told in another module than one of their own name.
MODULES = {
    **dict.fromkeys(("pause", "resume", "promote", "retry", "refresh"), "steering"),
    **dict.fromkeys(("quarantine", "lift"), "quarantine"),
}


class PluginGroup(click.Group):
    """Knows its commands by name and help alone."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(HELP)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in HELP:
            return None
        module = import_module(f"schedkit.sked.plugin.commands.{MODULES.get(cmd_name, cmd_name)}")
        command = getattr(module, cmd_name)
        assert isinstance(command, click.Command)  # noqa: S101  (a module that has none is a bug)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in HELP and not name.startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = get_close_matches(name, HELP, n=1, cutoff=0.6)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {name!r}.{meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()), col_max=12)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[str]]":
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return [CompletionItem(name, help=text) for name, text in HELP.items() if name.startswith(incomplete)]


@click.group(
    cls=PluginGroup,
    context_settings=HELP_NAMES,
    params=global_options(hidden=False),
    epilog="Exit codes: 'schedctl help exit-codes'. Examples: 'kubectl scx COMMAND --help'.",
)
@click.version_option(__version__, "--version", prog_name=PROGRAM, message="%(prog)s %(version)s")
def scx() -> None:
    """Follow and steer rollouts of sched_ext CPU schedulers, and see what each node's kernel runs."""
