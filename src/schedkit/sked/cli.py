"""`sked`: the operator's command line."""

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click

from schedkit import __version__
from schedkit.cli import run_program

Command = TypeVar("Command", bound=Callable[..., Any])


def switch(name: str, *, default: bool, help: str) -> Callable[[Command], Command]:
    """A flag as Go's programs take them: `--flag`, `--flag=true` or `--flag=false`."""
    return click.option(name, is_flag=False, flag_value="true", type=click.BOOL, default=default, help=help)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sked", message="%(prog)s %(version)s")
def sked() -> None:
    """Run sched_ext CPU schedulers on the nodes of a Kubernetes cluster."""


@sked.command()
@switch("--leader-elect", default=False, help="Of several managers, let one act at a time.")
@click.option(
    "--metrics-bind-address",
    default="0",
    show_default=True,
    metavar="ADDRESS",
    help="Where to serve metrics: :8443 for HTTPS, 0 for nowhere.",
)
@switch(
    "--metrics-secure",
    default=True,
    help="Serve metrics over TLS, and only to those whom the cluster lets read them.",
)
@click.option(
    "--metrics-cert-path",
    type=click.Path(path_type=Path),
    help="A folder with tls.crt and tls.key for the metrics; without it a certificate is made.",
)
@click.option(
    "--health-probe-bind-address",
    default=":8081",
    show_default=True,
    metavar="ADDRESS",
    help="Where to serve /healthz and /readyz.",
)
@switch("--enable-http2", default=False, help="Accepted and without effect: HTTP/1.1 is served.")
@click.option("--namespace", "namespaces", multiple=True, help="Watch this namespace only; may be given several times.")
@click.option(
    "--workers", type=click.IntRange(min=1), default=16, show_default=True, help="Resources worked on at once."
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="The kubeconfig to use; without it $KUBECONFIG, the pod's service account, or ~/.kube/config.",
)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def manager(
    leader_elect: bool,
    metrics_bind_address: str,
    metrics_secure: bool,
    metrics_cert_path: Path | None,
    health_probe_bind_address: str,
    enable_http2: bool,
    namespaces: tuple[str, ...],
    workers: int,
    kubeconfig: Path | None,
    log_level: str,
    log_format: str,
) -> None:
    """Run the operator: make DaemonSets of SchedExts and tell on them what became of it."""
    from schedkit.sked.controller.operator import Options, run_operator  # --help needs none of it
    from schedkit.sked.kube.config import read_access
    from schedkit.sked.kube.logs import configure

    configure(level=log_level, format="json" if log_format == "json" else "text")
    if enable_http2:
        logging.getLogger(__name__).info("--enable-http2 has no effect: HTTP/1.1 is served")
    options = Options(
        leader_elect=leader_elect,
        metrics_address=metrics_bind_address,
        metrics_secure=metrics_secure,
        metrics_certificates=metrics_cert_path,
        health_address=health_probe_bind_address,
        namespaces=namespaces,
        workers=workers,
    )
    asyncio.run(run_operator(read_access(os.environ, kubeconfig=kubeconfig), options))


@sked.command()
@click.argument("file", type=click.File(encoding="utf-8"))
def render(file: TextIO) -> None:
    """Print the DaemonSets that the SchedExts in FILE (- for stdin) would become, without a cluster."""
    from schedkit.sked.api.validate import parse_resources
    from schedkit.sked.controller.render import plan, render_yaml

    click.echo(render_yaml(plan(parse_resources(file.read(), file.name))), nl=False)


def main() -> None:
    """Entry point of the console script."""
    run_program(sked, "sked")
