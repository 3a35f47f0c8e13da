"""Wait for the kernel's slot, on a node: as a container that runs before the scheduler that is next."""

import math
import sys
from pathlib import Path

from schedkit.errors import tell
from schedkit.kernel.changes import Changes
from schedkit.kernel.state import KernelState, State
from schedkit.unknown import Unknown

OCCUPIED = (State.ENABLED, State.ENABLING, State.DISABLING)


def wait_for_slot(root: Path = Path("/")) -> KernelState:
    """Return when nothing is attached. Where that cannot be seen it returns too: the scheduler says what is wrong."""
    with Changes(root) as changes:
        state = changes.wait_until(lambda found: found.state not in OCCUPIED, math.inf)
    if isinstance(state.state, Unknown):
        tell(f"warning: cannot see what the kernel has attached: {state.state.why}", sys.stderr)
    return state
