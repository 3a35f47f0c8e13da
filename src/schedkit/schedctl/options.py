"""What all commands share: the global options, taken before and after the command's name, and `-o`."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click

from schedkit.cli import ProgramCommand
from schedkit.errors import SchedkitError, UsageError, clean, tell

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from schedkit.schedctl.session import Session
    from schedkit.schedctl.settings import Flags

# Here, and not from schedkit.runtimes, so that --help does not import it; a test compares the two.
DRIVER_NAMES = ("auto", "podman", "docker", "containerd")
HELP_NAMES = {"help_option_names": ["-h", "--help"]}
_META = "schedkit.schedctl.flags"
_OUTPUT = "schedkit.schedctl.output"

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Function = TypeVar("Function", bound=Callable[..., Any])


def _keep(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Note a global option; said twice, the one nearer to the end counts, and lists grow."""
    if value is None or value == () or value is False:
        return
    if value == "" or (isinstance(value, tuple) and "" in value):  # a variable of a script that is not set
        raise click.BadParameter("it is empty.", context, parameter)
    if parameter.name == "driver":
        _check_driver(context, str(value))
    flags: dict[str, object] = context.meta.setdefault(_META, {})
    name = parameter.name or ""
    before = flags.get(name)
    flags[name] = (*before, *value) if isinstance(before, tuple) and isinstance(value, tuple) else value


def _check_driver(context: click.Context, driver: str) -> None:
    """Here, since a `run -d NAME` as with podman lacks its NAME, which click would complain of first."""
    if driver in DRIVER_NAMES:
        return
    hint = f"one of: {', '.join(DRIVER_NAMES)}"
    if context.info_name in ("run", "start", "switch"):
        hint = f"-d is --driver ({hint}); `schedctl run` returns by itself when the scheduler is attached"
    raise UsageError(f"unknown driver {driver[:200]!r}", hint=hint)


def _complete_driver(_context: click.Context, _parameter: click.Parameter, start: str) -> "list[CompletionItem[str]]":
    from click.shell_completion import CompletionItem

    return [CompletionItem(driver) for driver in DRIVER_NAMES if driver.startswith(start)]


def _complete_file(context: click.Context, parameter: click.Parameter, start: str) -> "list[CompletionItem[str]]":
    from schedkit.schedctl.completing import complete_file

    return complete_file(context, parameter, start)


def global_options(*, hidden: bool) -> list[click.Parameter]:
    """They may stand before the command's name, where --help shows them, and after it."""

    def option(*names: str, **settings: Any) -> click.Option:
        return click.Option(names, callback=_keep, expose_value=False, hidden=hidden, **settings)

    return [
        option(
            "-d",
            "--driver",
            metavar="|".join(DRIVER_NAMES),
            shell_complete=_complete_driver,
            help="Runtime for new containers [default: auto, the first that responds].",
        ),
        option(
            "--socket",
            metavar="PATH",
            shell_complete=_complete_file,
            help="Socket of the runtime, if not in the usual place.",
        ),
        option(
            "--catalog",
            "catalogs",
            multiple=True,
            metavar="FILE|URL",
            shell_complete=_complete_file,
            help="Look up names here first; can be repeated.",
        ),
        option(
            "--insecure-registry",
            "insecure_registries",
            multiple=True,
            metavar="HOST[:PORT]",
            help="Allow plain HTTP, or any certificate, for this registry.",
        ),
        option("-v", "--verbose", is_flag=True, help="Show more details."),
    ]


def keep_flag(*names: str, **settings: Any) -> Callable[[Function], Function]:
    """An option of some commands that, as the global ones do, speaks to the settings and not to the command."""
    return click.option(*names, callback=_keep, expose_value=False, **settings)


def list_causes(error: BaseException) -> list[str]:
    """What the errors below one said, outermost first: for --verbose."""
    causes = []
    while error.__cause__ is not None:
        error = error.__cause__
        causes.append(f"{type(error).__name__}: {error}"[:300])
    return causes


class Command(ProgramCommand):
    """A command that takes the global options too, and shows what a scheduler said before it failed."""

    def __init__(self, name: str | None, **settings: Any) -> None:
        super().__init__(name, context_settings=dict(HELP_NAMES), **settings)
        self.params.extend(global_options(hidden=True))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SchedkitError as error:
            for line in getattr(error, "log", ()):
                tell(f"  | {clean(line)}", sys.stderr)
            if ctx.meta.get(_META, {}).get("verbose"):
                for line in list_causes(error):
                    tell(f"  caused by {clean(line)}", sys.stderr)
            raise

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Examples as they were written: click would fill them into a paragraph."""
        if self.epilog:
            with formatter.section("Examples"):
                for line in self.epilog.strip().splitlines():
                    formatter.write(f"{'':{formatter.current_indent}}{line.strip()}\n")
        formatter.write("\nGlobal options (--driver, --catalog …) can be used here too: `schedctl --help`.\n")


def pass_session(
    function: Callable[Concatenate["Session", Parameters], Result],
) -> Callable[Parameters, Result]:
    """Give a command the session that its global options make."""
    from schedkit.schedctl.session import open_session

    @wraps(function)
    def call(*arguments: Parameters.args, **settings: Parameters.kwargs) -> Result:
        context = click.get_current_context()
        session = open_session(read_flags(context), json=is_json(context))
        context.call_on_close(session.close)
        return function(session, *arguments, **settings)

    return call


def read_flags(context: click.Context) -> "Flags":
    """What the command line said so far."""
    from schedkit.schedctl.settings import Flags

    return Flags(**context.meta.get(_META, {}))


def version_option(function: Function) -> Function:
    """Which version of an image, where it is not a part of its name."""
    from schedkit.schedctl.completing import complete_version

    return click.option(
        "--version",
        metavar="TAG",
        shell_complete=complete_version,
        help="Tag or digest of the image [default: latest].",
    )(function)


def output_option(function: Function) -> Function:
    """`-o json` for programs."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        expose_value=False,
        is_eager=True,
        callback=_note_output,
        help="text for people, json for programs ('schedctl help json').",
    )(function)


def json_option(function: Function) -> Function:
    """`-o json` for a command that prints nothing else, so that scripts can say it everywhere."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["json"]),
        expose_value=False,
        is_eager=True,
        callback=_note_output,
        help="json: this command always prints JSON; errors are JSON, too, with this option.",
    )(function)


def is_json(context: click.Context) -> bool:
    """Whether `-o json` was said."""
    return bool(context.meta.get(_OUTPUT) == "json")


def _note_output(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    context.meta[_OUTPUT] = value
