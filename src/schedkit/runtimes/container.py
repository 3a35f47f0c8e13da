"""A container, as its runtime tells: all that looking at one needs to know of runtimes."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from schedkit.unknown import Unknown


class ContainerState(StrEnum):
    """Where a container is in its life, in the fewest words that all runtimes share."""

    CREATED = "created"
    RUNNING = "running"
    PAUSED = "paused"
    EXITED = "exited"


NOT_RUNNING = (ContainerState.CREATED, ContainerState.EXITED)  # never started, or ended


class Container(NamedTuple):
    """A container of schedkit's or of the Go schedctl's, as its runtime reports it."""

    driver: str
    id: str
    name: str
    image: str  # the reference it was made from, as the user or the catalog wrote it
    state: ContainerState | Unknown
    labels: Mapping[str, str] = {}
    pid: int | None = None  # of its first process, in the host's numbering; None unless it runs
    exit_code: int | None = None
    started: datetime | None = None
    finished: datetime | None = None
