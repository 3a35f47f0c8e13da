"""Write what follows from the program: python -m website.reference [--check].

docs/schedctl/reference.md and json.md, docs/exit-codes.md, and help_text.py, the help as a terminal shows it.
"""

import sys
from pathlib import Path

import click

from schedkit.exit_codes import MEANINGS
from schedkit.schedctl.group import SECTIONS, schedctl
from schedkit.schedctl.options import HELP_NAMES
from schedkit.schedctl.quick import HELP_COLUMNS
from schedkit.schedctl.schema import FIELDS

FOLDER = Path("docs/schedctl")
EXIT_CODES = Path("docs/exit-codes.md")
HELP_TEXT = Path("src/schedkit/schedctl/help_text.py")
WIDTH = 100
HOW = "<!-- Written by `python -m website.reference`: change the program, then run that. -->"


def render_reference() -> str:
    """Every command's help."""
    lines = [
        "# schedctl: the reference",
        HOW,
        "",
        "Every command and option, as `--help` shows them. Exit codes are in [exit-codes.md](../exit-codes.md), what",
        "`-o json` prints in [json.md](json.md), variables and files in [scripting.md](scripting.md).",
        "",
        _block(schedctl, "schedctl"),
    ]
    for title, commands in SECTIONS.items():
        lines.append(f"## {title}\n")
        for name in commands:
            command = _load(name)
            lines += [f"### schedctl {name}\n", _block(command, f"schedctl {name}")]
            if isinstance(command, click.Group):
                for below, inner in command.commands.items():
                    lines += [f"### schedctl {name} {below}\n", _block(inner, f"schedctl {name} {below}")]
    return "\n".join(lines).rstrip("\n") + "\n"


def render_json() -> str:
    """Every field of every document."""
    lines = [
        "# schedctl: JSON",
        HOW,
        "",
        'Every document is one object with `version`, the version of this schema: `"1"`. Fields may be added within a',
        "version; none is removed, renamed or given another meaning. Times are RFC 3339 in UTC. `null` is an absence",
        'that is known. **What could not be found out is `{"unknown": "why"}`** in place of the value.',
        "",
        "`schedctl watch -o json` and `schedctl events -o json` print one document a line; the others print one.",
        "`a[].b` is a field of each element of the list `a`.",
    ]
    for command, fields in FIELDS.items():
        lines += ["", f"## schedctl {command}", "", "| field | meaning |", "|---|---|"]
        lines += [f"| `{name}` | {text} |" for name, text in fields.items()]
    return "\n".join(lines) + "\n"


def render_exit_codes() -> str:
    """Every exit code, of all programs."""
    lines = [
        "# Exit codes",
        HOW,
        "",
        "Every program of schedkit ends with one of these codes. Scripts can rely on them.",
        "`schedctl help exit-codes` prints them, too.",
        "",
        "| code | name | meaning |",
        "|---|---|---|",
        *(f"| {code} | {code.name} | {meaning} |" for code, meaning in MEANINGS.items()),
        "",
        "An error is two lines on stderr at most: `error:` says what happened, `hint:` what to do.",
        "Data goes to stdout; progress, warnings and errors go to stderr.",
    ]
    return "\n".join(lines) + "\n"


def render_help() -> str:
    """The help of schedctl itself, as a module."""
    text = _help(schedctl, "schedctl", HELP_COLUMNS - 2)  # click leaves two free
    about = "The help of schedctl on a terminal of 80 columns; written by `python -m website.reference`."
    return f'"""{about}"""\n\nTEXT = """\\\n{text}\n"""\n'


def _load(name: str) -> click.Command:
    command = schedctl.get_command(click.Context(schedctl), name)
    if command is None:
        raise LookupError(name)
    return command


def _block(command: click.Command, path: str) -> str:
    return f"```text\n{_help(command, path, WIDTH)}\n```\n"


def _help(command: click.Command, path: str, width: int) -> str:
    with click.Context(
        command,
        info_name=path,
        terminal_width=width,
        max_content_width=width,
        help_option_names=HELP_NAMES["help_option_names"],
    ) as context:
        return command.get_help(context).rstrip()


def main() -> int:
    stale = []
    for path, text in {
        FOLDER / "reference.md": render_reference(),
        FOLDER / "json.md": render_json(),
        EXIT_CODES: render_exit_codes(),
        HELP_TEXT: render_help(),
    }.items():
        if path.exists() and path.read_text() == text:
            continue
        stale.append(str(path))
        if "--check" not in sys.argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    if stale and "--check" in sys.argv:
        print(f"error: not current: {', '.join(stale)}\nhint: python -m website.reference", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
