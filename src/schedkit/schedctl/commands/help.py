"""`schedctl help`: as --help, for those who type it first, and the tables that scripts are written by."""

from typing import Any

import click

from schedkit.cli import find_context
from schedkit.errors import UsageError


def _complete(context: click.Context, parameter: click.Parameter, start: str) -> Any:
    from schedkit.schedctl.completing import complete_word

    said = context.params.get("words") or ()
    if said == ("json",):
        from schedkit.schedctl.schema import FIELDS

        return complete_word(*FIELDS)(context, parameter, start)
    try:
        shown = find_context(context.find_root(), said)
    except (UsageError, click.UsageError):
        return []
    group = shown.command
    tables = () if said else ("exit-codes", "json")
    names = group.list_commands(shown) if isinstance(group, click.Group) else ()
    return complete_word(*names, *tables)(context, parameter, start)


@click.command(short_help="Show the help of a command.")
@click.argument("words", nargs=-1, metavar="[COMMAND]...", shell_complete=_complete)
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
        click.echo(find_context(context.find_root(), words).get_help())


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
