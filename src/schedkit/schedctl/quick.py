"""The few command lines that people, prompts and scripts repeat all day, answered without click.

Its import takes longer than their answers do. Lines that are written in any other way are left to click, which means
the same by these: a test holds the two beside each other.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

Answer = Callable[[], int]

COMPLETE_VARIABLE = "_SCHEDCTL_COMPLETE"  # set when it is a shell that asks, for what could be typed
HELP_COLUMNS = 80  # click fills a terminal up to this, and no wider; help_text is made for it
# How -o may be written, and whether that is JSON.
OUTPUTS = {(): False, ("-o", "json"): True, ("--output", "json"): True, ("--output=json",): True}


def find_answer(words: Sequence[str], environ: Mapping[str, str]) -> Answer | None:
    """What answers this command line; None when click is to read it."""
    if COMPLETE_VARIABLE in environ:
        return None
    match tuple(words):
        case () | ("-h" | "--help",) if _count_columns(environ) >= HELP_COLUMNS:
            return _print_help
        case ("status", *output) if tuple(output) in OUTPUTS:
            return lambda: _show_status(json=OUTPUTS[tuple(output)])
        case ("ps", "-a" | "--all", *output) if tuple(output) in OUTPUTS:
            return lambda: _show_containers(everything=True, json=OUTPUTS[tuple(output)])
        case ("ps", *output) if tuple(output) in OUTPUTS:
            return lambda: _show_containers(everything=False, json=OUTPUTS[tuple(output)])
        case ("verify", name, "--trust-policy", policy, *output) if _are_plain(name, policy, output):
            return lambda: _show_verdict(name, policy, json=OUTPUTS[tuple(output)])
        case ("verify", name, *output) if _are_plain(name, name, output):
            return lambda: _show_verdict(name, None, json=OUTPUTS[tuple(output)])
    return None


def _are_plain(name: str, policy: str, output: Sequence[str]) -> bool:
    """Whether these can be nothing but a name, a file, and how -o is written."""
    return (
        bool(name and policy) and not name.startswith("-") and not policy.startswith("-") and tuple(output) in OUTPUTS
    )


def _print_help() -> int:
    from schedkit.schedctl.help_text import TEXT

    print(TEXT, end="", flush=True)
    return 0


def _show_status(*, json: bool) -> int:
    from schedkit.schedctl.session import open_session
    from schedkit.schedctl.settings import Flags
    from schedkit.schedctl.show_status import show_status

    with closing(open_session(Flags(), json=json)) as session:
        return show_status(session)


def _show_containers(*, everything: bool, json: bool) -> int:
    from schedkit.schedctl.session import open_session
    from schedkit.schedctl.settings import Flags
    from schedkit.schedctl.show_containers import show_containers

    with closing(open_session(Flags(), json=json)) as session:
        show_containers(session, everything=everything)
    return 0


def _show_verdict(name: str, policy: str | None, *, json: bool) -> int:
    from schedkit.schedctl.session import open_session
    from schedkit.schedctl.settings import Flags
    from schedkit.schedctl.show_verdict import show_verdict

    with closing(open_session(Flags(trust_policy=policy), json=json)) as session:
        show_verdict(session, name, None)
    return 0


def _count_columns(environ: Mapping[str, str]) -> int:
    """Count the columns as click does: by the variable, else by the terminal; as many as help wants without one."""
    said = environ.get("COLUMNS", "")
    if said:
        return int(said) if said.isascii() and said.isdigit() and len(said) < 9 else 0  # else click reads it
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or HELP_COLUMNS
    except (OSError, ValueError):
        return HELP_COLUMNS
