"""`sked-wait`: wait for the kernel's slot, on a node, before the scheduler of the same pod starts.

A program of its own in the image: many wait at once, so it loads little. `sked-wait` is the startup probe of a sidecar,
which ends when the slot is free; `sked-wait --stay` is the sidecar's own process, which sleeps until its pod ends.
"""

import math
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from schedkit.errors import tell
from schedkit.kernel.changes import Changes
from schedkit.kernel.state import State
from schedkit.unknown import Unknown

OCCUPIED = (State.ENABLED, State.ENABLING, State.DISABLING)
# Shared memory lasts as long as the pod does on this boot, longer than a container. A kubelet that was restarted probes
# again, while the slot is taken by this pod's own scheduler: a pod waits once.
WAITED = Path("/dev/shm/sked-waited")  # noqa: S108  a file system of this pod's own


def main(root: Path = Path("/"), waited: Path = WAITED) -> None:
    """Wait until nothing is attached. Where that cannot be seen, do not: the scheduler says what is wrong."""
    if sys.argv[1:] == ["--stay"]:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        signal.sigwait({signal.SIGTERM})
        return
    # The first process of a container is not ended without it. At once, as the node may be without a scheduler.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    if waited.exists():
        return
    with Changes(root) as changes:
        state = changes.wait_until(lambda found: found.state not in OCCUPIED, math.inf)
    if isinstance(state.state, Unknown):
        tell(f"warning: cannot see what the kernel has attached: {state.state.why}", sys.stderr)
    with suppress(OSError):  # then it may wait once more
        waited.touch()
    os._exit(0)  # an interpreter that clears up first would make the gap longer
