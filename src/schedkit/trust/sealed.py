"""Small files that only this user has written: owner, mode and a seal (HMAC) say so, or there is no such file."""

import hmac
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

KEY = "key"
KEY_BYTES = 32
LARGEST = 32 << 20
OTHERS_MAY_WRITE = 0o022


class SealedFolder:
    """A folder of such files, with the key of their seals beside them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, name: str) -> str | None:
        """What we once wrote under a name; None where it is not there, or not as we left it."""
        try:
            with self._open() as folder:
                key, data = _read_key(folder), _read_private(folder, name)
        except OSError:
            return None
        if key is None or data is None:
            return None
        try:
            document = json.loads(data)
            content, seal = document["content"], document["seal"]
            return content if hmac.compare_digest(_make_seal(key, name, content), seal) else None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def write(self, name: str, content: str) -> None:
        """Keep a text under a name, whole or not at all; OSError where that is not possible."""
        self.make()
        with self._open() as folder:
            key = _read_key(folder) or _make_key(folder)
            data = json.dumps({"content": content, "seal": _make_seal(key, name, content)})
            fresh = f".{name}.{os.getpid()}.{os.urandom(4).hex()}"
            try:
                _create(folder, fresh, data.encode())
                os.replace(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                _remove(folder, fresh)
                raise

    def make(self) -> None:
        """Create the directory, for this user alone; OSError if it belongs to another user."""
        self._check_parents()
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._open():
            pass

    def names(self) -> list[str]:
        """The names of all files there, whoever wrote them, in order."""
        try:
            with self._open() as folder, os.scandir(folder) as files:
                return sorted(file.name for file in files if file.name.endswith(".json"))
        except OSError:
            return []

    @contextmanager
    def _open(self) -> Iterator[int]:
        """A descriptor of the folder, which stays the same whatever comes under its name; OSError if it is not ours.

        Nobody else may put files there or rename them: not so with a cache folder that users share.
        """
        self._check_parents()
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if not _is_private(os.fstat(folder)):
                raise PermissionError(f"{self.path} belongs to another user, or others may write there")
            yield folder
        finally:
            os.close(folder)

    def _check_parents(self) -> None:
        """That nobody else but root can put another folder in this one's place.

        Members of a group can where its folders are theirs to write: many users have a group of their own and such a
        umask.
        """
        for parent in self.path.absolute().parents:
            for follow in (False, True):
                try:
                    state = parent.stat(follow_symlinks=follow)
                except FileNotFoundError:
                    break
                shared = stat.S_ISDIR(state.st_mode) and state.st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH
                if state.st_uid not in (0, os.geteuid()) or shared:
                    raise PermissionError(f"{parent} belongs to another user, or others may write there")


def _is_private(state: os.stat_result) -> bool:
    """Whether it is ours, and nobody else may write it."""
    return state.st_uid == os.geteuid() and not state.st_mode & OTHERS_MAY_WRITE


def _read_private(folder: int, name: str) -> bytes | None:
    """The bytes of a file that is ours, and that nobody else may write."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file:
            return file.read(LARGEST) if _is_private(os.fstat(file.fileno())) else None
    except OSError:
        return None


def _read_key(folder: int) -> bytes | None:
    key = _read_private(folder, KEY)
    return key if key is not None and len(key) == KEY_BYTES else None


def _make_key(folder: int) -> bytes:
    _remove(folder, KEY)  # whatever is there is not a whole key
    key = os.urandom(KEY_BYTES)
    _create(folder, KEY, key)
    return key


def _create(folder: int, name: str, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
        file.write(data)


def _remove(folder: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _make_seal(key: bytes, name: str, content: str) -> str:
    """Seal the name too: anybody who may write to the folder can rename a file."""
    return hmac.new(key, json.dumps([name, content]).encode(), "sha256").hexdigest()
