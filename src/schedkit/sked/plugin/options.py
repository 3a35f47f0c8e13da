"""What all commands share: which cluster and namespace, taken before and after the command's name, and `-o`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from schedkit.cli import ProgramCommand
from schedkit.sked.plugin.completing import complete_context, complete_namespace

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from schedkit.sked.plugin.session import PluginSession

HELP_NAMES = {"help_option_names": ["-h", "--help"]}
_META = "schedkit.sked.plugin.target"

Function = TypeVar("Function", bound=Callable[..., Any])
Result = TypeVar("Result")


class Target(NamedTuple):
    """Which cluster, and which namespace of it; empty: what the kubeconfig says."""

    namespace: str = ""
    context: str = ""
    kubeconfig: Path | None = None


def _keep(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Note a global option; said twice, the one nearer to the end counts."""
    if value is None:
        return
    if str(value) in ("", "."):  # a variable of a script that is not set
        raise click.BadParameter("it is empty.", context, parameter)
    context.meta.setdefault(_META, {})[parameter.name or ""] = value


def global_options(*, hidden: bool) -> list[click.Parameter]:
    """They may stand before the command's name, where --help shows them, and after it."""

    def option(*names: str, **settings: Any) -> click.Option:
        return click.Option(names, callback=_keep, expose_value=False, hidden=hidden, **settings)

    return [
        option(
            "-n",
            "--namespace",
            metavar="NAME",
            shell_complete=complete_namespace,
            help="Namespace [default: that of the context].",
        ),
        option(
            "--context",
            metavar="NAME",
            shell_complete=complete_context,
            help="Context of the kubeconfig [default: the current one].",
        ),
        option(
            "--kubeconfig",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="The kubeconfig [default: $KUBECONFIG, a pod's service account, or ~/.kube/config].",
        ),
    ]


class PluginCommand(ProgramCommand):
    """A command that takes the global options too."""

    def __init__(self, name: str | None, **settings: Any) -> None:
        super().__init__(name, context_settings=dict(HELP_NAMES), **settings)
        self.params.extend(global_options(hidden=True))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Examples as they were written: click would fill them into a paragraph."""
        if self.epilog:
            with formatter.section("Examples"):
                for line in self.epilog.strip().splitlines():
                    formatter.write(f"{'':{formatter.current_indent}}{line.strip()}\n")
        formatter.write("\n-n, --context and --kubeconfig can be used here too.\n")


def read_target(context: click.Context) -> Target:
    """What the command line said of the cluster so far."""
    return Target(**context.meta.get(_META, {}))


def run(work: "Callable[[PluginSession], Awaitable[Result]]") -> Result:
    """Do a command's work with the cluster that its options name."""
    from schedkit.sked.plugin.session import run_session

    return run_session(read_target(click.get_current_context()), work)


def output_option(function: Function) -> Function:
    """`-o json` and `-o yaml` for programs."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json", "yaml"]),
        default="text",
        show_default=True,
        help="text for people, json or yaml for programs.",
    )(function)


def everywhere_option(function: Function) -> Function:
    """`-A`, as kubectl has it."""
    return click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="In all namespaces.")(function)
