"""Whether a policy may have changed, without reading it."""

import hashlib
from pathlib import Path


def fingerprint(policy: Path) -> str:
    """What changes with a policy's file and with whatever lies beside it, as keys and roots do.

    A mounted ConfigMap is a folder that is replaced as a whole, so that nobody sees half of a change.
    """
    found = hashlib.sha256()
    try:
        for file in sorted(policy.parent.iterdir()):
            if file.is_file():
                state = file.stat()
                found.update(f"{file.name} {state.st_ino} {state.st_size} {state.st_mtime_ns}\n".encode())
    except OSError as error:
        return f"unreadable: {error.strerror}"
    return found.hexdigest()
