"""`schedctl help`: as --help, for those who type it first."""

import click

from schedkit.errors import UsageError


@click.command(short_help="Show the help of a command.")
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def command(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of schedctl, or of one of its commands."""
    shown = context.find_root()
    for word in words:
        group = shown.command
        if not isinstance(group, click.Group):
            raise UsageError(
                f"{shown.command_path} has no commands", hint=f"'{shown.command_path} --help' shows the options"
            )
        name, found, _ = group.resolve_command(shown, [word])
        if found is not None:
            shown = click.Context(found, info_name=name, parent=shown)
    click.echo(shown.get_help())
