"""`sked`: the command line of the operator and of its agent."""

import asyncio
import logging
import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from schedkit import __version__
from schedkit.cli import SHELLS, ProgramGroup, Seconds, Whole, find_context, find_shell, run_command, run_program
from schedkit.errors import BadDataError, NotFoundError, UsageError, clean, tell
from schedkit.sked.go_flags import GoCommand, choose_logging, switch, zap_options
from schedkit.sked.trust_options import read_trust_options, trust_options

NODE_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")

Function = TypeVar("Function", bound=Callable[..., Any])

if TYPE_CHECKING:
    from schedkit.sked.api.validate import ManifestText


def logging_options(command: Function) -> Function:
    """Add what is logged, and how."""
    for add in (
        click.option(
            "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Log format."
        ),
        click.option(
            "--log-level",
            type=click.Choice(["debug", "info", "warning", "error"]),
            default="info",
            show_default=True,
            help="Log messages of this level and above.",
        ),
    ):
        command = add(command)
    return command


@click.group(
    cls=ProgramGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 'schedctl help exit-codes'.",
)
@click.version_option(__version__, "-V", "--version", prog_name="sked", message="%(prog)s %(version)s")
def sked() -> None:
    """Run sched_ext CPU schedulers on the nodes of a Kubernetes cluster."""


@sked.command(short_help="Show the version.")
def version() -> None:
    """Show the version, as --version does."""
    click.echo(f"sked {__version__}")


@sked.command(name="help", short_help="Show the help of a command.")
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def help_(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of sked, or of one of its commands, as --help does."""
    click.echo(find_context(context.find_root(), words).get_help())


@sked.command(short_help="Print the completion script for a shell.")
@click.argument(
    "shell", type=click.Choice(SHELLS), required=False, callback=find_shell, metavar=f"[{'|'.join(SHELLS)}]"
)
def completion(shell: str) -> None:
    """Print the completion script for a shell, for example: sked completion bash >/etc/bash_completion.d/sked."""
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101  (click has these three)
    # Not the class's own source(): for bash that starts a bash to ask for its version, and fails where there is none.
    click.echo(ShellComplete.source(kind(sked, {}, "sked", "_SKED_COMPLETE")))


@sked.command(cls=GoCommand, short_help="Run the operator.")
@switch("--leader-elect", default=False, help="With several managers, let one act at a time.")
@click.option(
    "--metrics-bind-address",
    default="0",
    show_default=True,
    metavar="ADDRESS",
    help="Address for metrics, for example :8443; 0 serves none.",
)
@switch(
    "--metrics-secure",
    default=True,
    help="Serve metrics over TLS, only to clients that are authorized to read them.",
)
@click.option(
    "--metrics-cert-path",
    type=click.Path(path_type=Path),
    help="Directory with tls.crt and tls.key for the metrics [default: a self-signed certificate].",
)
@click.option(
    "--health-probe-bind-address",
    default=":8081",
    show_default=True,
    metavar="ADDRESS",
    help="Address for /healthz and /readyz.",
)
@switch("--enable-http2", default=False, help="Accepted for compatibility; HTTP/1.1 is always served.")
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="NAMESPACE",
    help="Reconcile the SchedExts of this namespace only; can be repeated.",
)
@click.option(
    "--workers",
    type=Whole(1),
    default=16,
    show_default=True,
    metavar="N",
    help="Number of resources to reconcile at the same time.",
)
@click.option(
    "--priority-ceiling",
    type=int,
    default=0,
    show_default=True,
    metavar="N",
    help="Upper limit of spec.priority, except in namespaces with the label sked.schedkit.io/any-priority=true.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="The kubeconfig [default: $KUBECONFIG, the pod's service account, or ~/.kube/config].",
)
@logging_options
@click.option(
    "--verification",
    type=click.Choice(["off", "warn", "enforce"]),
    default="off",
    show_default=True,
    help="Signatures of images: off checks none, warn reports images without a trusted signature, enforce refuses "
    "them.",
)
@trust_options
@zap_options
@click.pass_context
def manager(
    context: click.Context,
    /,
    leader_elect: bool,
    metrics_bind_address: str,
    metrics_secure: bool,
    metrics_cert_path: Path | None,
    health_probe_bind_address: str,
    enable_http2: bool,
    namespaces: tuple[str, ...],
    workers: int,
    priority_ceiling: int,
    kubeconfig: Path | None,
    log_level: str,
    log_format: str,
    verification: str,
    **others: Any,
) -> None:
    """Run the operator: reconcile SchedExts into DaemonSets and report their status."""
    from schedkit.sked.controller.operator import Options, run_operator  # --help needs none of it
    from schedkit.sked.controller.verification import Mode
    from schedkit.sked.kube.addresses import parse_address
    from schedkit.sked.kube.config import read_access
    from schedkit.sked.kube.logs import configure

    given = {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    chosen = choose_logging(
        log_level if "log_level" in given else None, log_format if "log_format" in given else None, others
    )
    configure(level=chosen.level, format=chosen.format)
    notes = ("--enable-http2 has no effect: HTTP/1.1 is served",) if enable_http2 else ()
    for note in notes + chosen.notes:
        logging.getLogger(__name__).info(note)
    options = Options(
        leader_elect=leader_elect,
        metrics_address=parse_address(metrics_bind_address),
        metrics_secure=metrics_secure,
        metrics_certificates=metrics_cert_path,
        health_address=parse_address(health_probe_bind_address),
        namespaces=namespaces,
        workers=workers,
        priority_ceiling=priority_ceiling,
        verification=Mode(verification),
        trust=read_trust_options(others),
    )
    asyncio.run(run_operator(read_access(os.environ, kubeconfig=kubeconfig), options))


@sked.command(short_help="Report what this node's kernel is doing.")
@click.option(
    "--node-name",
    envvar="NODE_NAME",
    required=True,
    metavar="NAME",
    help="Name of this node (the pod's spec.nodeName) [env: NODE_NAME].",
)
@click.option(
    "--health-probe-bind-address",
    default=":8081",
    show_default=True,
    metavar="ADDRESS",
    help="Address for /healthz and /readyz; 0 serves none.",
)
@click.option(
    "--metrics-bind-address",
    default="0",
    show_default=True,
    metavar="ADDRESS",
    help="Address for metrics over plain HTTP, for everyone, for example :8080; 0 serves none.",
)
@logging_options
@click.option(
    "--look-seconds",
    type=Seconds(0.1),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to read the kernel's state when no event arrives.",
)
# For tests: another /sys and /proc, another token, and how often to see whether the report is still there.
@click.option("--root", hidden=True)
@click.option("--service-account", hidden=True)
@click.option("--fetch-seconds", type=Seconds(0.1), hidden=True)
def agent(**flags: object) -> None:
    """Report what this node's kernel is doing, in the SchedExtNode of the same name. Runs in a pod on each node."""
    from schedkit.sked.agent.__main__ import become_agent
    from schedkit.sked.kube.addresses import parse_address

    for name in ("health_probe_bind_address", "metrics_bind_address"):
        parse_address(str(flags[name]))
    if not NODE_NAME.fullmatch(str(flags["node_name"])):
        raise UsageError(f"{flags['node_name']!r} is not the name of a node", hint="it is the pod's spec.nodeName")
    become_agent({name.replace("_", "-"): str(value) for name, value in flags.items() if value is not None})


@sked.command(short_help="Print the DaemonSets that SchedExts become, without a cluster.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--output",
    "-o",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="Output format; json is one List.",
)
def render(files: tuple[str, ...], output: str) -> None:
    """Print the DaemonSets that the SchedExts in FILE... (- for stdin) become, without a cluster.

    All files are planned together, as if these SchedExts were the only ones and had been created in this order. Owner
    references are left out: only the cluster knows the owner's uid.
    """
    from schedkit.sked.api.validate import parse_resources
    from schedkit.sked.controller.render import plan, render_json, render_yaml

    rendered = plan(parse_resources([_read_manifest(file) for file in files]))
    for warning in rendered.warnings:
        tell(f"warning: {clean(warning)}", sys.stderr)
    click.echo((render_json if output == "json" else render_yaml)(rendered.daemonsets), nl=False)


@sked.command(short_help="Show whether the operator would run the images of SchedExts.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@trust_options
def verify(files: tuple[str, ...], **others: Any) -> None:
    """Show whether the operator would run the images of the SchedExts in FILE... (- for stdin), without a cluster.

    The exit code tells you why the first image that is not verified is refused: 'schedctl help exit-codes'.
    """
    from schedkit.sked.api.validate import parse_resources
    from schedkit.sked.verifying import tell_images

    resources = parse_resources([_read_manifest(file) for file in files])
    tell_images(resources, read_trust_options(others), click.echo)


@sked.command(
    short_help="Do the same as `kubectl scx`, without kubectl.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND [ARGS]...")
def kubectl(words: tuple[str, ...]) -> int:
    """Do the same as `kubectl scx`, without kubectl: follow and control rollouts, explain nodes."""
    from schedkit.sked.plugin.group import scx

    return run_command(scx, "sked kubectl", list(words))


def _read_manifest(file: str) -> "ManifestText":
    from schedkit.sked.api.validate import ManifestText

    name = "<stdin>" if file == "-" else file
    try:
        content = _read_stdin() if file == "-" else Path(file).read_bytes()
        return ManifestText(name, content.decode())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(f"{name}: no such file") from error
    except IsADirectoryError as error:
        hint = f"name the files in it: sked render {shlex.quote(file)}/*.yaml"
        raise UsageError(f"{name} is a directory", hint=hint) from error
    except UnicodeDecodeError as error:
        raise BadDataError(f"{name}: not text: {error.reason} at byte {error.start}") from error


def _read_stdin() -> bytes:
    return sys.stdin.buffer.read() if sys.stdin else b""  # None where it is closed (`<&-`)


def main() -> None:
    """Entry point of the console script."""
    run_program(sked, "sked")
