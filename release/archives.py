"""Archives whose bytes follow from their contents alone: sorted, owned by root, of one time and with plain modes."""

import gzip
import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

EXECUTABLE = 0o111


def settle_tree(root: Path, epoch: int) -> None:
    """Give everything below a folder the modes that a package has, whatever the umask was, and one time."""
    for path in sorted(root.rglob("*"), reverse=True):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & EXECUTABLE else 0o644)
        os.utime(path, (epoch, epoch), follow_symlinks=False)
    root.chmod(0o755)
    os.utime(root, (epoch, epoch))


def make_tar(files: Mapping[str, bytes], epoch: int) -> bytes:
    """A tar of these files, by their paths in it."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(content), epoch, 0o644
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def compress(content: bytes) -> bytes:
    """The same bytes, smaller; without a name or a time."""
    return gzip.compress(content, 9, mtime=0)
