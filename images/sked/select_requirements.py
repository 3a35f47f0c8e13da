"""Print the part of requirements.lock that some packages need: `select_requirements.py LOCK NAME…`."""

import re
import sys
from pathlib import Path


def parse_lock(text: str) -> dict[str, tuple[str, set[str]]]:
    """Each locked package's entry, verbatim, and on whose account it is there."""
    found = {}
    for entry in re.finditer(r"^(\S+)==.*\n(?:[ \t].*\n?)*", text, re.MULTILINE):
        notes = re.findall(r"^[ \t]+#[ \t]+(?:via\b[ \t]*)?(.*)$", entry.group(), re.MULTILINE)
        found[entry[1]] = (entry.group(), {note.strip() for note in notes if note.strip()})
    return found


def select(lock: dict[str, tuple[str, set[str]]], names: list[str]) -> list[str]:
    """The entries of the named packages and of everything that is there on their account."""
    wanted = set(names)
    while True:
        more = {name for name, (_, parents) in lock.items() if parents & wanted} - wanted
        if not more:
            return [lock[name][0] for name in sorted(wanted)]
        wanted |= more


def main() -> None:
    """Read the lock that is named, print the part of it."""
    path, *names = sys.argv[1:]
    lock = parse_lock(Path(path).read_text())
    if missing := [name for name in names if name not in lock]:
        sys.exit(f"error: {path} has no {', '.join(missing)}")
    sys.stdout.write("".join(select(lock, names)))


if __name__ == "__main__":
    main()
