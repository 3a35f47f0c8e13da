"""`kubectl scx version`."""

import click

from schedkit import __version__
from schedkit.sked.plugin.options import PluginCommand


@click.command(cls=PluginCommand, short_help="Show the version.")
def version() -> None:
    """Show the version."""
    click.echo(f"kubectl scx {__version__}")
