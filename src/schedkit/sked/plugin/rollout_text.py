"""Rollouts in words: a line for each resource, or all that is known of one."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from schedkit.sked.api.rollout_types import COMPLETE, PAUSED, ROLLED_BACK, RolloutGap
from schedkit.sked.plugin.output import age, count_nodes, format_milliseconds, render_bar, render_table
from schedkit.sked.plugin.rollouts import FAILED, WAITING, PoolProgress, RolloutProgress


def render_list(found: Sequence[RolloutProgress], moment: datetime, *, everywhere: bool) -> str:
    """A line for each resource, or for each pool of one."""
    titles = ("NAME", "ROLLOUT", "SINCE", "STEP", "UPDATED", "ATTACHED", "FAILED", "GAP", "STATUS")
    rows = [_make_row(one, pool, moment) for one in found for pool in one.pools]
    rows += [(one.name, *["-"] * 7, one.summary) for one in found if not one.pools]
    if not everywhere:
        return render_table(titles, rows)
    spaces = [one.namespace for one in found for _ in one.pools] + [one.namespace for one in found if not one.pools]
    return render_table(("NAMESPACE", *titles), sorted((space, *row) for space, row in zip(spaces, rows, strict=True)))


def _make_row(one: RolloutProgress, pool: PoolProgress, moment: datetime) -> tuple[str, ...]:
    nodes = pool.nodes
    return (
        one.name + (f" ({pool.pool})" if pool.pool else ""),
        pool.state if pool.phase or pool.state == WAITING else "-",
        age(pool.since, moment) if pool.state != WAITING else "-",
        describe_step(pool) if pool.phase else "-",
        f"{nodes.updated}/{pool.desired}",
        f"{pool.attached}/{pool.desired}",
        str(nodes.failed),  # those in quarantine for it included
        _describe_gap(pool.gap) if pool.gap else "-",
        one.summary,
    )


def render_progress(one: RolloutProgress, moment: datetime) -> str:
    """All that is known of one resource's rollout, and what can be done."""
    return "\n".join(_tell(one, moment))


def _tell(one: RolloutProgress, moment: datetime) -> Iterator[str]:
    yield f"{one.namespace}/{one.name}: {one.summary or WAITING}, {one.message}"
    for pool in one.pools:
        yield from _tell_pool(pool, moment)
    for request in one.pending:
        yield f"  {request} was asked for; the operator has not carried it out yet"
    if hint := advise(one):
        yield f"  {hint}"


def _tell_pool(pool: PoolProgress, moment: datetime) -> Iterator[str]:
    name = f"pool {pool.pool}: " if pool.pool else ""
    yield f"  {name}{describe_progress(pool, moment)}"
    if pool.message:
        yield f"  {pool.message}"
    if pool.update_revision and pool.current_revision != pool.update_revision:
        yield f"  revision {pool.current_revision or 'none'} → {pool.update_revision}, {pool.image}"
    elif pool.current_revision:
        yield f"  revision {pool.current_revision}, {pool.image}"
    if pool.gap:
        yield f"  gap without a scheduler: {_describe_gap(pool.gap)}"
    if failed := describe_failure(pool):
        yield f"  {failed}"


def describe_progress(pool: PoolProgress, moment: datetime | None) -> str:
    """One line with a bar; since when only where there is a moment to count from."""
    nodes = pool.nodes
    told = f"{nodes.updated}/{pool.desired} nodes updated"
    told += f", {nodes.attached} of them attached" if nodes.updated else ""
    for count, word in ((nodes.failed, "failed"), (nodes.quarantined, "quarantined"), (nodes.skipped, "skipped")):
        told += f", {count} {word}" if count else ""
    return f"{_describe_state(pool, moment)} {render_bar(nodes.updated, pool.desired)} {told}"


def _describe_state(pool: PoolProgress, moment: datetime | None) -> str:
    if pool.state == WAITING:
        return "Waiting for the operator to see the newest spec"
    since = age(pool.since, moment) if moment and pool.phase else ""
    step = f", step {describe_step(pool)}" if pool.steps and pool.phase and pool.state != COMPLETE else ""
    return f"{pool.state}{f' for {since}' if since else ''}{step}"


def describe_step(pool: PoolProgress) -> str:
    """Which step of how many; after the last come all nodes."""
    if pool.step >= pool.steps:
        return "all nodes"
    return f"{pool.step + 1}/{pool.steps}"


def describe_failure(pool: PoolProgress) -> str:
    """Which revision failed, where first, and what the kernel said."""
    failed = pool.failed_revision
    if failed is None:
        return ""
    where = f" on {failed.node}" if failed.node else ""
    why = ": ".join(part for part in (failed.reason, failed.message) if part)
    return f"revision {failed.revision} failed{where}{f': {why}' if why else ''}"


def describe_end(one: RolloutProgress) -> str:
    """Say in one line how a rollout ended."""
    updated = sum(pool.nodes.updated for pool in one.pools)
    if one.state == COMPLETE:
        gaps = [pool.gap for pool in one.pools if pool.gap]
        gap = f", gap {_describe_gap(gaps[0])}" if len(gaps) == 1 else ""
        revisions = " and ".join(pool.update_revision for pool in one.pools if pool.update_revision)
        return (
            f"{one.name} is done: {count_nodes(updated)} run {revisions}{gap}" if revisions else f"{one.name} is done"
        )
    failures = "; ".join(told for pool in one.pools if (told := describe_failure(pool)))
    word = "was rolled back" if one.state == ROLLED_BACK else "failed"
    return f"{one.name} {word}: {failures or one.message}"


def advise(one: RolloutProgress) -> str:
    """What a person can do now, if it takes one."""
    option = f"{one.name} -n {one.namespace}"
    if one.paused and one.state not in (COMPLETE, ROLLED_BACK):
        return f"it is paused by spec.paused: `kubectl scx resume {option}` continues it"
    if one.state in (FAILED, ROLLED_BACK) and any(pool.failed_revision for pool in one.pools):
        more = "" if one.state == ROLLED_BACK else f", `kubectl scx undo {option}` goes back"
        return f"change the spec, or `kubectl scx retry {option}` tries it again{more}"
    if one.state == PAUSED:
        return f"`kubectl scx promote {option}` continues at once"
    return ""


def _describe_gap(gap: RolloutGap) -> str:
    return f"{format_milliseconds(gap.median_milliseconds)}, worst {format_milliseconds(gap.worst_milliseconds)}"
