"""Rollouts as metrics: where each stands, how its nodes fare, why it failed, and how long nodes were without."""

from collections.abc import Iterable, Sequence

from schedkit.sked.api.rollout_types import PHASES, RolloutNodes
from schedkit.sked.api.types import PoolStatus
from schedkit.sked.kube.metrics import MetricsRegistry
from schedkit.sked.kube.objects import Key

GAP_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)


class RolloutMetrics:
    """What is counted of rollouts."""

    def __init__(self, registry: MetricsRegistry) -> None:
        one = ("namespace", "name")
        pool = (*one, "pool")
        self._phase = registry.gauge("sked_rollout_phase", "1 for the phase that a rollout is in.", (*pool, "phase"))
        self._step = registry.gauge("sked_rollout_step", "The step that a rollout is at, from 0 on.", pool)
        self._nodes = registry.gauge("sked_rollout_nodes", "Nodes of a rollout by state.", (*pool, "state"))
        self._failures = registry.counter("sked_rollout_failures_total", "Revisions that failed.", (*one, "reason"))
        self._gap = registry.histogram(
            "sked_rollout_gap_seconds",
            "How long a node was without a scheduler when it got another revision.",
            one,
            bounds=GAP_BOUNDS,
        )
        self._pools: dict[Key, set[str]] = {}  # that have a rollout
        self._failed: dict[tuple[Key, str], str] = {}

    def tell(self, resource: Key, before: Sequence[PoolStatus], pools: Sequence[PoolStatus]) -> None:
        """How the rollouts of a resource stand now."""
        rolling = {pool.name for pool in pools if pool.rollout}
        for name in self._pools.get(resource, set()) - rolling:
            for family in (self._phase, self._step, self._nodes):
                family.forget(*resource, name)
        self._pools.pop(resource, None)
        if rolling:  # most have no rollout, and an empty set is 200 bytes
            self._pools[resource] = rolling
        for pool in pools:
            if (rollout := pool.rollout) is None:
                continue
            labels = (*resource, pool.name)
            for phase in PHASES:
                self._phase.of(*labels, phase).set(phase == rollout.phase)
            self._step.of(*labels).set(rollout.step)
            nodes = rollout.nodes or RolloutNodes()
            for state in nodes.__struct_fields__:
                self._nodes.of(*labels, state).set(getattr(nodes, state))
            self._count_failure(resource, before, pool)

    def measure(self, resource: Key, gaps: Iterable[int]) -> None:
        """Count for how many milliseconds nodes were without a scheduler that got another revision."""
        for gap in gaps:
            self._gap.of(*resource).observe(gap / 1000)

    def forget(self, resource: Key) -> None:
        """A resource is gone."""
        for family in (self._phase, self._step, self._nodes, self._failures, self._gap):
            family.forget(*resource)
        self._pools.pop(resource, None)
        for key in [key for key in self._failed if key[0] == resource]:
            del self._failed[key]

    def _count_failure(self, resource: Key, before: Sequence[PoolStatus], pool: PoolStatus) -> None:
        """Count a failure once: not again by who reads of it in the status of an earlier operator."""
        failed = pool.rollout.failed_revision if pool.rollout else None
        key = resource, pool.name
        if key not in self._failed:
            told = next((found.rollout for found in before if found.name == pool.name), None)
            known = told.failed_revision if told else None
            self._failed[key] = f"{known.revision} {known.time}" if known else ""
        name = f"{failed.revision} {failed.time}" if failed else ""
        if failed and name != self._failed[key]:
            self._failures.of(*resource, failed.reason).increase()
        self._failed[key] = name
