"""Revisions of a resource: the DaemonSets that it runs, ran, and can go back to."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from schedkit.errors import NotFoundError, SchedkitError, UsageError
from schedkit.sked.api.requests import CLAIM
from schedkit.sked.api.rollout_types import COMPLETE, RolloutStatus
from schedkit.sked.api.types import SchedExt
from schedkit.sked.api.workloads import ResolvedWorkload, resolve_workloads
from schedkit.sked.kube.objects import Model
from schedkit.sked.plugin.objects import DAEMONSETS, RevisionSet
from schedkit.sked.plugin.output import age, render_table
from schedkit.sked.plugin.session import PluginSession


class Revision(Model, frozen=True, kw_only=True, omit_defaults=False):
    """One revision; `roles` are current, update, failed."""

    namespace: str
    sched_ext: str
    pool: str
    name: str
    image: str
    args: tuple[str, ...]
    created: str | None
    nodes: int
    roles: tuple[str, ...]


class NoRolloutError(SchedkitError):
    """What was asked for is done to a rollout, and the resource asks for none."""

    reason = "NoRollout"


async def gather_history(session: PluginSession, resources: Sequence[SchedExt], namespace: str) -> list[Revision]:
    """The revisions of resources, each one's newest first."""
    found = await session.fetch_all(DAEMONSETS, RevisionSet, namespace=namespace)
    return [revision for resource in resources for revision in list_revisions(resource, found)]


def list_revisions(resource: SchedExt, daemonsets: Sequence[RevisionSet]) -> list[Revision]:
    """The revisions of one resource, the newest first."""
    mine = [one for one in daemonsets if (owner := one.metadata.controller) and owner.uid == resource.metadata.uid]
    found = [
        revision
        for workload in resolve_workloads(resource)
        for daemonset in mine
        if workload.daemon_set in (daemonset.metadata.labels.get(CLAIM), daemonset.metadata.name)
        for revision in (_make_revision(resource, workload, daemonset),)
    ]
    pools = [workload.pool for workload in resolve_workloads(resource)]
    newest_first = sorted(found, key=lambda one: (one.created or "", one.name), reverse=True)
    return sorted(newest_first, key=lambda one: pools.index(one.pool))


def _make_revision(resource: SchedExt, workload: ResolvedWorkload, daemonset: RevisionSet) -> Revision:
    metadata, container = daemonset.metadata, daemonset.container
    return Revision(
        namespace=metadata.namespace,
        sched_ext=resource.metadata.name,
        pool=workload.pool,
        name=metadata.name,
        image=container.image,
        args=container.args,
        created=metadata.creation_timestamp,
        nodes=daemonset.status.current_number_scheduled,
        roles=tuple(_list_roles(metadata.name, find_rollout(resource, workload.pool))),
    )


def find_rollout(resource: SchedExt, pool: str) -> RolloutStatus | None:
    """What the operator says of a pool's rollout."""
    return next((one.rollout for one in resource.status.pools if one.name == pool), None)


def _list_roles(name: str, rollout: RolloutStatus | None) -> Iterator[str]:
    if rollout is None:
        return
    if name == rollout.current_revision:
        yield "current"
    if name == rollout.update_revision and name != rollout.current_revision:
        yield "update"
    if rollout.failed_revision and name == rollout.failed_revision.revision:
        yield "failed"


def choose_pool(resource: SchedExt, pool: str | None) -> ResolvedWorkload:
    """The pool that is meant, where there is one to choose; it must have a rollout."""
    name = resource.metadata.name
    claims = resolve_workloads(resource)
    rolled = [claim for claim in claims if claim.rollout]
    if pool is not None:
        rolled = [claim for claim in rolled if claim.pool == pool]
        if not any(claim.pool == pool for claim in claims):
            known = ", ".join(claim.pool for claim in claims if claim.pool) or "it has none"
            raise NotFoundError(f"{name} has no pool {pool}", hint=f"its pools: {known}")
    if not rolled:
        raise NoRolloutError(
            f"{name} has no spec.rollout, so that sked keeps no revisions of it",
            hint="change spec.sched back, or add spec.rollout for the next time",
        )
    if len(rolled) > 1:
        raise UsageError(f"{name} has several pools", hint=f"choose one: --pool {'|'.join(one.pool for one in rolled)}")
    return rolled[0]


def choose_revision(
    resource: SchedExt, revisions: Sequence[Revision], wanted: str | None, pool: str | None
) -> Revision:
    """The revision to go back to: the one that is named, else the one before."""
    name = resource.metadata.name
    if wanted is not None:
        found = [one for one in revisions if wanted in (one.name, one.name.rpartition("-")[2])]
        found = [one for one in found if pool is None or one.pool == pool]
        if len(found) != 1:
            known = ", ".join(one.name for one in revisions) or "none"
            raise NotFoundError(f"{name} has no revision {wanted}", hint=f"kept are: {known}")
        choose_pool(resource, found[0].pool)
        return found[0]
    claim = choose_pool(resource, pool)
    mine = [one for one in revisions if one.pool == claim.pool]
    rollout = find_rollout(resource, claim.pool)
    if rollout is not None and rollout.phase != COMPLETE:
        before = next((one for one in mine if one.name == rollout.current_revision), None)
    else:
        runs = rollout.current_revision if rollout else ""
        before = next((one for one in mine if one.name != runs), None) if runs else None
    if before is None:
        raise NotFoundError(
            f"{name} has no revision to go back to", hint=f"`kubectl scx history {name}` lists those that are kept"
        )
    return before


def render_history(revisions: Sequence[Revision], moment: datetime, *, everywhere: bool) -> str:
    """A table of them."""
    titles = ("SCHEDEXT", "REVISION", "IMAGE", "ARGS", "AGE", "NODES", "STATE")
    rows = [
        (
            one.sched_ext + (f" ({one.pool})" if one.pool else ""),
            one.name,
            one.image,
            " ".join(one.args),
            age(one.created, moment),
            str(one.nodes),
            ",".join(one.roles),
        )
        for one in revisions
    ]
    if everywhere:
        spaced = [(one.namespace, *row) for one, row in zip(revisions, rows, strict=True)]
        return render_table(("NAMESPACE", *titles), spaced)
    return render_table(titles, rows)
