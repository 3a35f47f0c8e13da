"""`schedctl`: the group of commands."""

import click

from schedkit import __version__
from schedkit.cli import run_program


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes are listed in docs/exit-codes.md.",
)
@click.version_option(__version__, prog_name="schedctl", message="%(prog)s %(version)s")
def schedctl() -> None:
    """Run sched_ext CPU schedulers from OCI images on this machine, and tell what the kernel is really doing."""


def main() -> None:
    """Entry point of the console script."""
    run_program(schedctl, "schedctl")
