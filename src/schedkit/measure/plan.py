"""In which order to run: blocks in which each scheduler runs once, in random order."""

from random import Random
from typing import NamedTuple


class PlannedRun(NamedTuple):
    """Who runs in which block; blocks for warm-up count up to 0."""

    block: int
    contender: int


def make_plan(contenders: int, runs: int, warmup: int, seed: int) -> tuple[PlannedRun, ...]:
    """Each block has each contender once: what changes slowly (heat, other load) meets all of them alike.

    The same seed gives the same order.
    """
    random = Random(seed)  # noqa: S311 (an order, not a secret)
    planned = []
    for block in range(1 - warmup, runs + 1):
        order = list(range(contenders))
        random.shuffle(order)
        planned += [PlannedRun(block, contender) for contender in order]
    return tuple(planned)
