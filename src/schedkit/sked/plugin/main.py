"""`kubectl-scx`, which kubectl runs as `kubectl scx`, and what kubectl asks for completions: how they start and end."""

import os
import sys
from typing import NoReturn

from schedkit.cli import run_program
from schedkit.sked.plugin.group import PROGRAM, scx

NO_FILES = 4  # cobra's word, with which a list of completions ends: do not offer files besides
VARIABLE = "_KUBECTL_SCX_COMPLETE"


def main() -> NoReturn:
    """Entry point of the console script."""
    if VARIABLE in os.environ:
        _complete_in_shell()
    run_program(scx, PROGRAM)


def complete() -> None:
    """Entry point of `kubectl_complete-scx`: the words so far are its arguments, the last one unfinished."""
    from click.shell_completion import ShellComplete

    *words, start = sys.argv[1:] or [""]
    try:
        offered = ShellComplete(scx, {}, PROGRAM, VARIABLE).get_completions(words, start)
    except Exception:  # a person typing a command wants no complaint from the shell's helper
        offered = []
    for item in offered:
        if item.type == "plain":
            print(f"{item.value}\t{item.help}" if item.help else item.value)
    print(f":{NO_FILES}")


def _complete_in_shell() -> NoReturn:
    from click.shell_completion import shell_complete

    sys.exit(shell_complete(scx, {}, "kubectl-scx", VARIABLE, os.environ[VARIABLE]))
