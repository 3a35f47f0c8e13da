"""How far a rollout is, and what people ask of it: what is remembered from one look to the next."""

from dataclasses import dataclass
from datetime import datetime

from schedkit.sked.api.rollout_types import COMPLETE


@dataclass(frozen=True)
class Cause:
    """Why a revision counts as failed."""

    revision: str
    node: str
    reason: str
    message: str
    time: datetime


@dataclass(frozen=True)
class Progress:
    """How far a rollout is: all that is remembered of it."""

    current: str = ""  # the stable revision; empty: there was none before
    update: str = ""
    phase: str = COMPLETE
    step: int = 0
    since: datetime | None = None
    failed: Cause | None = None


@dataclass(frozen=True)
class Requests:
    """What people ask for just now."""

    paused: bool = False
    promote: bool = False  # past a pause
    retry: bool = False
    at_once: bool = False  # without the steps, as a person chose the revision
    held: bool = False  # whether the new revision may not be given to more nodes, as its image is not verified
