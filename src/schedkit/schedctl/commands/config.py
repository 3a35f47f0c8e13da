"""`schedctl config`: the settings in effect, and how to change them."""

import os
from pathlib import Path
from typing import Any

import click

from schedkit.cli import ProgramGroup
from schedkit.errors import BadDataError, UsageError, needs_root
from schedkit.schedctl.effective import (
    ALLOW_UNSIGNED,
    LISTS,
    SHOWN,
    TABLES,
    Setting,
    Value,
    read_effective,
    strip_prefix,
)
from schedkit.schedctl.options import (
    DRIVER_NAMES,
    HELP_NAMES,
    Command,
    global_options,
    output_option,
    pass_session,
    read_flags,
)
from schedkit.schedctl.output import Json, plain
from schedkit.schedctl.session import Session

SETTABLE = ("driver", "socket", "catalogs", "insecure-registries", "ca-file", "trust-policy")
PATHS = ("socket", "catalogs", "ca-file", "trust-policy")  # a relative one starts here, and not where the file is


@click.group(
    cls=ProgramGroup,
    context_settings=HELP_NAMES,
    invoke_without_command=True,
    subcommand_metavar="[COMMAND] [ARGS]...",  # as newer versions of click write it themselves
    short_help="Show and change schedctl's settings.",
)
@output_option
@click.pass_context
def command(context: click.Context) -> Any:
    """Show the settings in effect and where each comes from: an option, a variable, your file, the system's, or none.

    Your file is ~/.config/schedkit/config.toml, the system's /etc/schedkit/config.toml. Entries of tables are shown as
    TABLE.KEY.
    """
    if context.invoked_subcommand is None:
        _show_all()


command.params.extend(global_options(hidden=True))  # as every command of its own has them


@pass_session
def _show_all(session: Session) -> None:
    found = read_effective(read_flags(click.get_current_context()), os.environ)
    session.output.show(lambda: _fields(found), lambda: _table(session, found))


@command.command(
    cls=Command,
    name="list",
    short_help="Show the settings in effect.",
    epilog="""
    schedctl config list
    """,
)
@output_option
def list_() -> None:
    """Show the settings in effect and where each comes from, as `schedctl config` does."""
    _show_all()


def _complete_key(_context: click.Context, _parameter: click.Parameter, start: str) -> Any:
    from click.shell_completion import CompletionItem

    return [CompletionItem(key) for key in SHOWN if key.startswith(start)]


def _complete_value(context: click.Context, parameter: click.Parameter, start: str) -> Any:
    """Drivers by name; the other settings are the user's own words, or files."""
    from schedkit.schedctl.completing import complete_file, complete_word

    key = context.params.get("key")
    complete = complete_word(*DRIVER_NAMES) if key == "driver" else complete_file
    return complete(context, parameter, start) if key == "driver" or key in PATHS else []


@command.command(
    cls=Command,
    short_help="Print the value of a setting.",
    epilog="""
    schedctl config get driver
    schedctl config get mirrors.ghcr.io
    """,
)
@click.argument("key", shell_complete=_complete_key)
@output_option
@pass_session
def get(session: Session, key: str) -> None:
    """Print the value of a setting: one line for each entry of a list, and nothing if it is not set.

    For a table, each line is an entry's key and its values.
    """
    table, _, entry = key.partition(".")
    if table not in SHOWN or (entry and table not in TABLES):
        raise _unknown(key, SHOWN)
    settings = read_effective(read_flags(click.get_current_context()), os.environ)
    wanted = strip_prefix(key)
    found = [one for one in settings if f"{strip_prefix(one.key)}.".startswith(f"{wanted}.")]
    session.output.show(lambda: _fields(found), lambda: "\n".join(_lines(found, wanted)))


@command.command(
    cls=Command,
    name="set",
    short_help="Write a setting to a configuration file.",
    epilog="""
    schedctl config set driver containerd
    schedctl config set --user trust-policy ./policy.yaml
    schedctl config set insecure-registries registry.lan:5000 other.lan
    """,
)
@click.argument("key", shell_complete=_complete_key)
@click.argument("values", nargs=-1, required=True, metavar="VALUE...", shell_complete=_complete_value)
@click.option("--user", is_flag=True, help="Change your own file instead of the system's.")
@output_option
@pass_session
def set_(session: Session, key: str, values: tuple[str, ...], user: bool) -> None:
    """Write a setting to the system's configuration file, or with --user to your own.

    Everything else in the file stays as it is, comments included. Tables (mirrors, modes) are changed with an editor.
    """
    _check_settable(key)
    if key not in LISTS and len(values) > 1:
        raise UsageError(f"{key} takes one value", hint=f"schedctl config set {key} VALUE")
    resolved = tuple(_resolve(key, value) for value in map(_check_text, values))
    _write(session, key, resolved if key in LISTS else resolved[0], user)


@command.command(
    cls=Command,
    short_help="Remove a setting from a configuration file.",
    epilog="""
    schedctl config unset driver
    """,
)
@click.argument("key", shell_complete=_complete_key)
@click.option("--user", is_flag=True, help="Change your own file instead of the system's.")
@output_option
@pass_session
def unset(session: Session, key: str, user: bool) -> None:
    """Remove a setting from the system's configuration file, or with --user from your own."""
    _check_settable(key)
    _write(session, key, None, user)


def _check_settable(key: str) -> None:
    if key.partition(".")[0] in TABLES:
        raise UsageError(f"{key} is in a table, which schedctl does not change", hint="change it with an editor")
    if key == ALLOW_UNSIGNED:
        raise UsageError(f"{key} cannot be set in a file", hint="use `allowUnsigned` in a trust policy")
    if key not in SETTABLE:
        raise _unknown(key, SETTABLE)


def _write(session: Session, key: str, value: str | tuple[str, ...] | None, user: bool) -> None:
    from schedkit.schedctl import settings
    from schedkit.schedctl.config_edit import change_file, edit_text, read_text
    from schedkit.schedctl.config_file import parse_config

    path = settings.find_user_file(os.environ) if user else settings.SYSTEM_FILE
    if not user and os.geteuid() != 0:
        raise needs_root(f"changing {path}")

    def edit(text: str) -> str:
        parse_config(text, str(path))
        edited = edit_text(text, key, value, str(path))
        try:
            parse_config(edited, str(path))
        except BadDataError as error:
            # Without the line, which is one of a text that is not in the file.
            what = error.message.removeprefix(str(path)).partition(": ")[2]
            raise UsageError(what, hint=error.hint) from error
        return edited

    text = read_text(path)
    if edit(text) != text:
        change_file(path, edit)
    told = "is not set any more" if value is None else f"= {_join(value)}"
    session.output.show(lambda: {"file": str(path), "key": key, "value": plain(value)}, lambda: f"{path}: {key} {told}")


def _check_text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:  # the shell gave us bytes
        raise UsageError(f"{value!r} is not UTF-8 text", hint="a configuration file is UTF-8") from error
    return value


def _resolve(key: str, value: str) -> str:
    """A path as it is from everywhere; what is not one stays."""
    from schedkit.images.reference import is_url

    return str(Path(value).absolute()) if key in PATHS and value and not is_url(value) else value


def _unknown(key: str, known: tuple[str, ...]) -> UsageError:
    from difflib import get_close_matches

    near = get_close_matches(key[:200], known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"one of: {', '.join(known)}"
    return UsageError(f"{key[:200]!r} is not a setting", hint=hint)


def _fields(found: list[Setting]) -> Json:
    return {
        "settings": [
            {"key": one.key, "value": plain(one.value), "origin": one.origin.kind, "source": one.origin.source}
            for one in found
        ]
    }


def _table(session: Session, found: list[Setting]) -> str:
    rows = [(one.key, _join(one.value) or "-", one.origin.kind, one.origin.source or "-") for one in found]
    return session.output.table(("KEY", "VALUE", "FROM", "SOURCE"), rows, elastic=("VALUE", "SOURCE"))


def _lines(found: list[Setting], key: str) -> list[str]:
    lines = []
    for one in found:
        if strip_prefix(one.key) != key:
            entry = one.key if key in TABLES else strip_prefix(one.key)
            lines.append(f"{entry.removeprefix(f'{key}.')} {_join(one.value)}")
        elif isinstance(one.value, tuple):
            lines += one.value
        elif one.value is not None:
            lines.append(_join(one.value))
    return lines


def _join(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return " ".join(value) if isinstance(value, tuple) else value or ""
