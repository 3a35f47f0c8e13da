"""Small files of the kernel's own file systems: what they say, that they are absent, or why they cannot be read."""

import errno
import os
from pathlib import Path

from schedkit.unknown import Unknown

_SMALL = 65536
# ENODEV: the object behind an open sysfs file went away; ESRCH: the process behind a procfs file did.
_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ESRCH}


def read_bytes(path: Path | str, limit: int = _SMALL) -> bytes | Unknown | None:
    """Read a file of at most `limit` bytes; None when it is absent."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            parts, left = [], limit + 1  # sysfs gives a page at a time, even of a file of megabytes
            while left and (part := os.read(file, left)):
                parts.append(part)
                left -= len(part)
        finally:
            os.close(file)
    except OSError as error:
        return None if error.errno in _ABSENT else Unknown(explain(path, error))
    return b"".join(parts) if left else Unknown(f"{path}: longer than {limit} bytes")


def read_text(path: Path | str, limit: int = _SMALL) -> str | Unknown | None:
    """Read a text file without the white space around it; None when it is absent."""
    content = read_bytes(path, limit)
    if not isinstance(content, bytes):
        return content
    try:
        return content.decode().strip()
    except UnicodeDecodeError:
        return Unknown(f"{path}: not text")


def explain(path: Path | str, error: OSError) -> str:
    """`/proc/kmsg: Permission denied`."""
    return f"{path}: {error.strerror or error}"


def list_pids(root: Path) -> list[int] | Unknown:
    """Every process that /proc shows, in the order of their numbers."""
    proc = root / "proc"
    try:
        with os.scandir(proc) as entries:
            pids = sorted(int(entry.name) for entry in entries if entry.name.isdecimal())
    except OSError as error:
        return Unknown(explain(proc, error))
    return pids or Unknown(f"{proc} is not mounted")
