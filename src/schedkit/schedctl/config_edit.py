"""Change one key of a configuration file and nothing else: its comments and its order stay.

There is no writer of TOML here. One line is changed, and the result is read again: if it does not say what the file
said before, but for that key, nothing is written.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from schedkit.errors import UsageError

_TABLE = re.compile(r"^\s*\[", re.MULTILINE)

Modes = Mapping[str, Mapping[str, tuple[str, ...]]]  # by scheduler and mode: flags
NewValue = str | tuple[str, ...] | None


def edit_text(text: str, key: str, value: NewValue, origin: str) -> str:
    """The text with another value for a key of no table; without the key for None. `origin` names it for people."""
    import tomllib

    before: dict[str, Any] = tomllib.loads(text)
    wanted = {name: one for name, one in before.items() if name != key}
    if value is not None:
        wanted[key] = list(value) if isinstance(value, tuple) else value
    edited = _edit(text, key, value)
    if not _says(edited, wanted):
        raise UsageError(
            f"{key} cannot be changed safely in {origin}: it is not on a line of its own",
            hint="change it with an editor",
        )
    return edited


def add_modes(text: str, modes: Modes, origin: str) -> str:
    """The text with flags for modes that it does not have yet: in the section of their scheduler, or a new one."""
    import tomllib

    wanted: dict[str, Any] = tomllib.loads(text)
    end = "\r\n" if "\r\n" in text else "\n"
    edited = text
    for scheduler, flags in modes.items():
        edited += "" if not edited or edited.endswith("\n") else end
        section = wanted.setdefault("modes", {}).setdefault(scheduler, {})
        section.update({mode: list(one) for mode, one in flags.items()})
        lines = "".join(f"{mode} = {_quote(one)}{end}" for mode, one in flags.items())
        name = scheduler if re.fullmatch(r"[A-Za-z0-9_-]+", scheduler) else _quote(scheduler)
        header = re.search(rf"^[ \t]*\[[ \t]*modes\.{re.escape(name)}[ \t]*\][^\n]*\n", edited, re.MULTILINE)
        if header:
            edited = edited[: header.end()] + lines + edited[header.end() :]
            continue
        edited += f"{end if edited else ''}[modes.{name}]{end}{lines}"
    if not _says(edited, wanted):
        raise UsageError(
            f"modes cannot be added safely to {origin}", hint=f"add [modes.{'], [modes.'.join(modes)}] with an editor"
        )
    return edited


def _says(text: str, wanted: dict[str, Any]) -> bool:
    """Whether an edited text has just what it is to have."""
    import tomllib

    try:
        return tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        return False


def _edit(text: str, key: str, value: NewValue) -> str:
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)  # as TOML sees lines: not also by other separators of Unicode
    end = "\r\n" if "\r\n" in text else "\n"
    table = _TABLE.search(text)
    top = text.count("\n", 0, table.start()) if table else len(lines)
    at = next((number for number in range(top) if re.match(rf"\s*{re.escape(key)}\s*=", lines[number])), None)
    if at is not None:
        new = [] if value is None else [f"{key} = {_quote(value)}{_find_comment(lines[at])}{end}"]
        return "".join([*lines[:at], *new, *lines[at + 1 :]])
    if value is None:
        return text
    while top and not lines[top - 1].strip():  # before the blank lines that part it from the first table
        top -= 1
    above = lines[:top]
    if above and not above[-1].endswith("\n"):
        above[-1] += end
    apart = [end] if table and top < len(lines) and lines[top].strip() else []
    return "".join([*above, f"{key} = {_quote(value)}{end}", *apart, *lines[top:]])


def _find_comment(line: str) -> str:
    """The comment after a value: from the first # before which the line is whole."""
    import tomllib

    line = line.rstrip("\r\n")
    for found in re.finditer(r"\s*#", line):
        with suppress(tomllib.TOMLDecodeError):
            tomllib.loads(line[: found.start()])
            return line[found.start() :]
    return ""


def _quote(value: str | tuple[str, ...]) -> str:
    """A text or a list of texts in TOML, whose basic strings take the escapes of JSON."""
    from json import dumps

    if isinstance(value, tuple):
        return f"[{', '.join(map(_quote, value))}]"
    return dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def read_text(path: Path) -> str:
    """The text with its line ends as they are; nothing of a file that is not there."""
    return path.read_bytes().decode() if path.exists() else ""


def change_file(path: Path, edit: Callable[[str], str]) -> None:
    """Put a file in place of another as a whole, with its mode and owner; a link to it stays one.

    `edit` is given the text. Of several who change a file at once, each is given what the one before it wrote.
    """
    path = path.resolve()
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o755)  # whatever root's umask is: everybody reads the system's file
    with _open_new(path.with_name(f".{path.name}.new")) as new:
        old = path.stat() if path.exists() else None
        data = edit(read_text(path)).encode()
        with open(new, "wb", closefd=False) as file:
            file.truncate()
            file.write(data)
        os.fchmod(new, old.st_mode & 0o7777 if old else 0o644)
        if old:
            with suppress(OSError):
                os.fchown(new, old.st_uid, old.st_gid)
        os.fsync(new)
        path.with_name(f".{path.name}.new").replace(path)


@contextmanager
def _open_new(path: Path) -> Iterator[int]:
    """A file that only one process has at a time, removed if it is not renamed; one left by a crash is used again."""
    import fcntl

    while True:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not _is_file(path, file):  # who had it before has renamed or removed it
                continue
            try:
                yield file
            except BaseException:
                path.unlink(missing_ok=True)
                raise
            return
        finally:
            os.close(file)


def _is_file(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(file))
    except FileNotFoundError:
        return False
