"""`sked-wait`: wait for the kernel's slot, on a node, as a container that runs before the scheduler that is next.

A program of its own in the image: many wait at once, so it loads little.
"""

import math
import signal
import sys
from pathlib import Path

from schedkit.errors import tell
from schedkit.kernel.changes import Changes
from schedkit.kernel.state import State
from schedkit.unknown import Unknown

OCCUPIED = (State.ENABLED, State.ENABLING, State.DISABLING)


def main(root: Path = Path("/")) -> None:
    """Return when nothing is attached. Where that cannot be seen it returns too: the scheduler says what is wrong."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the first process of a container is not ended without it
    with Changes(root) as changes:
        state = changes.wait_until(lambda found: found.state not in OCCUPIED, math.inf)
    if isinstance(state.state, Unknown):
        tell(f"warning: cannot see what the kernel has attached: {state.state.why}", sys.stderr)
