"""`sked-wait`: wait for the kernel's slot, on a node, before the scheduler of the same pod starts.

A program of its own in the image: many wait at once, so it loads little. `sked-wait --stay` is the sidecar's own
process, which does nothing; `sked-wait` is its startup probe, which ends when the slot is free.
"""

import math
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
    """Return when nothing is attached. Where that cannot be seen it returns too: the scheduler says what is wrong."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the first process of a container is not ended without it
    if sys.argv[1:] == ["--stay"]:
        while True:
            signal.pause()
    if waited.exists():
        return
    with Changes(root) as changes:
        state = changes.wait_until(lambda found: found.state not in OCCUPIED, math.inf)
    if isinstance(state.state, Unknown):
        tell(f"warning: cannot see what the kernel has attached: {state.state.why}", sys.stderr)
    with suppress(OSError):  # then it may wait once more
        waited.touch()
