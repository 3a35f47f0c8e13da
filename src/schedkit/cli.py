"""The edge of all our command lines: click's complaints become our errors, errors become words and exit codes."""

import os
import sys
from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import click

from schedkit.errors import SchedkitError, UsageError, run_at_edge

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SHELLS = ("bash", "zsh", "fish")  # for which click writes completion scripts


class ProgramCommand(click.Command):
    """A command whose errors say whose they are: click's parser does not know whose option lacks its value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise


class ProgramGroup(ProgramCommand, click.Group):
    """A group of such commands."""

    command_class = ProgramCommand


class LazyGroup(ProgramGroup):
    """Many commands in sections, known by name and one line of help alone: `load` imports the one that is called."""

    sections: ClassVar[Mapping[str, Mapping[str, str]]] = {}  # title → command → its one line of help
    aliases: ClassVar[Mapping[str, str]] = {}
    unlisted: ClassVar[tuple[str, ...]] = ()

    def load(self, name: str) -> click.Command:
        """Import a command."""
        raise NotImplementedError

    @property
    def help_lines(self) -> dict[str, str]:
        """Command → its one line of help."""
        return {name: text for commands in self.sections.values() for name, text in commands.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.help_lines)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        name = self.aliases.get(cmd_name, cmd_name)
        return self.load(name) if name in self.help_lines or name in self.unlisted else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        known = [*self.help_lines, *self.aliases]
        if name not in (*known, *self.unlisted) and not name.startswith("-") and not ctx.resilient_parsing:
            near = _find_near(name, known)
            meant = f" Did you mean {near!r}?" if near else ""
            ctx.fail(f"No such command {name!r}.{meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for title, commands in self.sections.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()), col_max=12)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[str]]":
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return [
            CompletionItem(name, help=text) for name, text in self.help_lines.items() if name.startswith(incomplete)
        ]


def _find_near(name: str, known: list[str]) -> str | None:
    """The command that was meant, where that is likely: a wrong guess such as `stop` for `top` may do harm.

    The only one that begins so, one of the same letters, or one that differs little and begins with the same letter.
    """
    from difflib import get_close_matches

    begun = [one for one in known if one.startswith(name)]
    if len(begun) == 1:
        return begun[0]
    same = [one for one in known if sorted(one) == sorted(name)]
    alike = [one for one in known if one.startswith(name[:1])]
    return next(iter(same or get_close_matches(name, alike, n=1, cutoff=0.75)), None)


def find_context(shown: click.Context, words: tuple[str, ...]) -> click.Context:
    """The command that some words name, as `help` is asked for it; none name the program itself."""
    for word in words:
        group = shown.command
        if not isinstance(group, click.Group):
            raise UsageError(
                f"{shown.command_path} has no commands", hint=f"'{shown.command_path} --help' shows the options"
            )
        name, found, _ = group.resolve_command(shown, [word])
        if found is not None:
            shown = click.Context(found, info_name=name, parent=shown)
    return shown


def find_shell(context: click.Context, _parameter: click.Parameter, said: str | None) -> str:
    """The shell that was named, else the user's own, as SHELL says; for `completion`."""
    shell = said or os.path.basename(os.environ.get("SHELL", ""))  # noqa: PTH119
    if shell not in SHELLS and not context.resilient_parsing:
        known = ", ".join(SHELLS)
        raise UsageError(f"no shell was named, and SHELL is none of: {known}", hint=f"{context.command_path} bash")
    return shell


class Whole(click.types.IntParamType):
    """A whole number from `least` to `most`: click's own ranges call themselves `integer range` in errors."""

    name = "number"

    def __init__(self, least: int, most: float = inf) -> None:
        self._least = least
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            number = int(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a whole number.", param, ctx)
        if not self._least <= number <= self._most:
            limits = f"at least {self._least}" if self._most == inf else f"from {self._least} to {self._most}"
            self.fail(f"{value!r} is out of range: {limits}.", param, ctx)
        return number


class Seconds(click.types.FloatParamType):
    """A number of seconds, at least `least`."""

    name = "seconds"

    def __init__(self, least: float) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            seconds = float(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        if not self._least <= seconds < inf:
            self.fail(f"{value!r} is out of range: at least {self._least:g} s.", param, ctx)
        return seconds


def run_program(command: click.Command, name: str) -> NoReturn:
    """Run a click command as the program `name` with this process's arguments, and end the process."""
    debug = bool(os.environ.get("SCHEDKIT_DEBUG"))
    sys.exit(run_at_edge(lambda: run_command(command, name, sys.argv[1:]), name=name, debug=debug))


def run_command(command: click.Command, name: str, arguments: list[str]) -> int:
    """Run a click command as the program `name`; click's complaints become our errors."""
    try:
        result = command.main(args=arguments, prog_name=name, standalone_mode=False)
    except click.UsageError as error:
        if _is_bare(error):  # a name alone asks what there is: click prints that as an error
            click.echo(error.ctx.get_help() if error.ctx else "")
            return 0
        path = error.ctx.command_path if error.ctx else name
        # click puts each choice on a line of its own, after a tab
        message = " ".join(error.format_message().split())
        raise UsageError(message, hint=f"'{path} --help' shows the options") from error
    except click.Abort as error:
        raise KeyboardInterrupt from error
    except click.ClickException as error:
        raise SchedkitError(error.format_message()) from error
    return result if isinstance(result, int) else 0


def _is_bare(error: click.UsageError) -> bool:
    """Whether a group was called without a command; click before 8.2 prints the help itself."""
    bare = getattr(click.exceptions, "NoArgsIsHelpError", None)
    return bare is not None and isinstance(error, bare) and isinstance(error.ctx and error.ctx.command, click.Group)
