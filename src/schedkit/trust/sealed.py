"""Small files that only this user has written: owner, mode and a seal (HMAC) say so, or there is no such file."""

import hmac
import json
import os
import secrets
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
        key, data = self._read_key(), self._read_private(name)
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
        key = self._read_key() or self._make_key()
        data = json.dumps({"content": content, "seal": _make_seal(key, name, content)})
        fresh = f".{name}.{os.getpid()}.{secrets.token_hex(4)}"
        try:
            self._create(fresh, data.encode())
            (self.path / fresh).replace(self.path / name)
        except BaseException:
            (self.path / fresh).unlink(missing_ok=True)
            raise

    def make(self) -> None:
        """Have the folder there, for us alone; OSError where it is somebody else's."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._is_ours():
            raise PermissionError(f"{self.path} belongs to another user, or others may write there")

    def names(self) -> list[str]:
        """Of all files there, whoever wrote them, in order."""
        return sorted(path.name for path in self.path.glob("*.json"))

    def _is_ours(self) -> bool:
        """Whether nobody else may put files there or rename them: not so with a cache folder that users share."""
        try:
            state = self.path.stat()
        except OSError:
            return False
        return state.st_uid == os.geteuid() and not state.st_mode & OTHERS_MAY_WRITE

    def _read_private(self, name: str) -> bytes | None:
        """The bytes of a file that is ours, and that nobody else may write."""
        if not self._is_ours():
            return None
        try:
            with os.fdopen(os.open(self.path / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                state = os.fstat(file.fileno())
                if state.st_uid != os.geteuid() or state.st_mode & OTHERS_MAY_WRITE:
                    return None
                return file.read(LARGEST)
        except OSError:
            return None

    def _read_key(self) -> bytes | None:
        key = self._read_private(KEY)
        return key if key is not None and len(key) == KEY_BYTES else None

    def _make_key(self) -> bytes:
        (self.path / KEY).unlink(missing_ok=True)  # whatever is there, it is not a key of ours, or only a part of one
        key = secrets.token_bytes(KEY_BYTES)
        self._create(KEY, key)
        return key

    def _create(self, name: str, data: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(self.path / name, flags, 0o600), "wb") as file:
            file.write(data)


def _make_seal(key: bytes, name: str, content: str) -> str:
    """Of the name too: anybody who may write to the folder can rename a file."""
    return hmac.new(key, json.dumps([name, content]).encode(), "sha256").hexdigest()
