"""`schedctl help`: as --help, for those who type it first, and the tables that scripts are written by."""

import click

from schedkit.errors import UsageError


@click.command(short_help="Show the help of a command.")
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def command(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of schedctl, or of one of its commands.

    'schedctl help exit-codes' lists the exit codes, and 'schedctl help json [COMMAND]' the fields that `-o json`
    prints.
    """
    if words == ("exit-codes",):
        click.echo(_describe_exit_codes(context))
    elif words[:1] == ("json",):
        click.echo(_describe_fields(context, " ".join(words[1:])))
    else:
        click.echo(_find(context.find_root(), words).get_help())


def _find(shown: click.Context, words: tuple[str, ...]) -> click.Context:
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


def _describe_exit_codes(context: click.Context) -> str:
    from schedkit.exit_codes import MEANINGS

    formatter = context.make_formatter()
    formatter.write_dl([(f"{code:3}  {code.name}", meaning) for code, meaning in MEANINGS.items()])
    return formatter.getvalue().rstrip("\n")


def _describe_fields(context: click.Context, name: str) -> str:
    from schedkit.schedctl.schema import FIELDS

    if name and name not in FIELDS:
        raise UsageError(f"schedctl {name} prints no JSON", hint="'schedctl help json' lists all that is printed")
    formatter = context.make_formatter()
    for one in [name] if name else FIELDS:
        with formatter.section(f"schedctl {one}"):
            formatter.write_dl(list(FIELDS[one].items()))
    return formatter.getvalue().strip("\n")
