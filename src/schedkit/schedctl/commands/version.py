"""`schedctl version`: as --version."""

import click

from schedkit import __version__


@click.command(short_help="Show the version.")
def command() -> None:
    """Show the version, as --version does."""
    click.echo(f"schedctl {__version__}")
