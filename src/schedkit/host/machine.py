"""The machine on which things happen."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple


class Machine(NamedTuple):
    """Where things happen; every path and clock is passed in."""

    root: Path = Path("/")
    lock: Path = Path("/run/schedkit/lock")
    now: Callable[[], datetime] = lambda: datetime.now().astimezone()
