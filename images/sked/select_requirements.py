"""Print the part of requirements.lock that the program needs at run time. Usage: select_requirements.py LOCK."""

import re
import sys
from pathlib import Path

PROJECT = "schedkit (pyproject.toml)"  # what uv notes on a direct dependency; those of the dev group read otherwise


def parse_lock(text: str) -> dict[str, tuple[str, set[str]]]:
    """Each locked package's entry, verbatim, and on whose account it is there."""
    found = {}
    for entry in re.finditer(r"^(\S+)==.*\n(?:[ \t].*\n?)*", text, re.MULTILINE):
        notes = re.findall(r"^[ \t]+#[ \t]+(?:via\b[ \t]*)?(.*)$", entry.group(), re.MULTILINE)
        found[entry[1]] = (entry.group(), {note.strip() for note in notes if note.strip()})
    return found


def select(lock: dict[str, tuple[str, set[str]]]) -> list[str]:
    """The entries of the direct dependencies and of everything that is there on their account."""
    wanted: set[str] = set()
    while True:
        more = {name for name, (_, parents) in lock.items() if parents & (wanted | {PROJECT})}
        if more <= wanted:
            return [lock[name][0] for name in sorted(wanted)]
        wanted |= more


def main() -> None:
    """Read the lock that is named, print its part."""
    chosen = select(parse_lock(Path(sys.argv[1]).read_text()))
    if not chosen:
        sys.exit(f"error: {sys.argv[1]} says of no package that it is there for {PROJECT}")
    sys.stdout.write("".join(chosen))


if __name__ == "__main__":
    main()
