"""Who an image's process runs as: `USER` by the image's own /etc/passwd and /etc/group."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from schedkit.errors import BadDataError
from schedkit.runtimes.containerd.messages_pb2 import Mount

TABLE_BYTES = 1 << 20


class User(NamedTuple):
    """Whom the first process runs as."""

    uid: int = 0
    gid: int = 0


def read_user(user: str, mounts: Iterable[Mount]) -> User:
    """Look a user up in the snapshot that these mounts would show."""
    if user in ("", "0", "root", "0:0", "root:root"):
        return User()
    folders = list(_find_folders(mounts))
    return parse_user(user, _read_table(folders, "passwd"), _read_table(folders, "group"))


def parse_user(user: str, passwd: str, group: str) -> User:
    """Who `USER` of an image is, by the image's own /etc/passwd and /etc/group."""
    name, _, wanted_group = user.partition(":")
    found: User | None = User() if name in ("", "0", "root") else None
    for line in passwd.splitlines():
        fields = line.split(":")
        if len(fields) > 3 and fields[2].isdigit() and fields[3].isdigit() and name in (fields[0], fields[2]):
            found = User(int(fields[2]), int(fields[3]))
            break
    if found is None:
        if not name.isdigit():
            raise BadDataError(f"the image is to run as {name!r}, which its /etc/passwd does not have")
        found = User(int(name))
    if not wanted_group:
        return found
    for line in group.splitlines():
        fields = line.split(":")
        if len(fields) > 2 and fields[2].isdigit() and wanted_group in (fields[0], fields[2]):
            return User(found.uid, int(fields[2]))
    if not wanted_group.isdigit():
        raise BadDataError(f"the image is to run in group {wanted_group!r}, which its /etc/group does not have")
    return User(found.uid, int(wanted_group))


def _find_folders(mounts: Iterable[Mount]) -> Iterator[Path]:
    """The folders a snapshot is made of, uppermost first; so nothing needs to be mounted to read a file."""
    for mount in mounts:
        if mount.type in ("bind", "rbind"):
            yield Path(mount.source)
        for prefix in ("upperdir=", "lowerdir="):
            for option in mount.options:
                if option.startswith(prefix):
                    yield from map(Path, option.removeprefix(prefix).split(":"))


def _read_table(folders: Iterable[Path], name: str) -> str:
    for folder in folders:
        with suppress(OSError):
            # A link would lead out of the image, to this machine's own file.
            etc = os.open(folder / "etc", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                table = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=etc)
            finally:
                os.close(etc)
            with os.fdopen(table, "rb") as file:
                return file.read(TABLE_BYTES).decode(errors="replace")
    return ""
