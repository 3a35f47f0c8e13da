"""The edge of all our command lines: click's complaints become our errors, errors become words and exit codes."""

import os
import sys
from typing import NoReturn

import click

from schedkit.errors import SchedkitError, UsageError, run_at_edge


def run_program(command: click.Command, name: str) -> NoReturn:
    """Run a click command as the program `name` with this process's arguments, and end the process."""
    debug = bool(os.environ.get("SCHEDKIT_DEBUG"))
    sys.exit(run_at_edge(lambda: run_command(command, name, sys.argv[1:]), name=name, debug=debug))


def run_command(command: click.Command, name: str, arguments: list[str]) -> int:
    """Run a click command as the program `name`; click's complaints become our errors."""
    try:
        result = command.main(args=arguments, prog_name=name, standalone_mode=False)
    except click.UsageError as error:
        if _is_bare(error):  # a name alone asks what there is: click prints that as an error
            click.echo(error.ctx.get_help() if error.ctx else "")
            return 0
        path = error.ctx.command_path if error.ctx else name
        raise UsageError(error.format_message(), hint=f"'{path} --help' shows the options") from error
    except click.Abort as error:
        raise KeyboardInterrupt from error
    except click.ClickException as error:
        raise SchedkitError(error.format_message()) from error
    return result if isinstance(result, int) else 0


def _is_bare(error: click.UsageError) -> bool:
    """Whether a group was called without a command; click before 8.2 prints the help itself."""
    bare = getattr(click.exceptions, "NoArgsIsHelpError", None)
    return bare is not None and isinstance(error, bare) and isinstance(error.ctx and error.ctx.command, click.Group)
