"""What a resource comes to when its pools have taken over what they leave out: one workload for a DaemonSet."""

from dataclasses import dataclass
from typing import TypeVar

from schedkit.sked.api.kubernetes import Affinity, ConfigSource, EnvironmentVariable, ResourceRequirements, Toleration
from schedkit.sked.api.rollout_types import Rollout
from schedkit.sked.api.selectors import Selector, parse_selector
from schedkit.sked.api.types import SchedExt, SchedExtSpec, Workload

Field = TypeVar("Field")


@dataclass(frozen=True, slots=True)
class ResolvedWorkload:
    """A scheduler and its nodes, with nothing left to inherit."""

    pool: str  # empty for a resource without pools
    daemon_set: str
    sched: str
    args: tuple[str, ...]
    env: tuple[EnvironmentVariable, ...]
    config_from: ConfigSource | None
    host_stats: bool
    resources: ResourceRequirements | None
    node_selector: dict[str, str]
    affinity: Affinity | None
    tolerations: tuple[Toleration, ...]
    rollout: Rollout | None

    def parse_selector(self) -> Selector:
        """The nodes that it asks for."""
        return parse_selector(self.node_selector, self.affinity)


def resolve_workloads(resource: SchedExt) -> tuple[ResolvedWorkload, ...]:
    """One workload for the resource, or, when it has pools, one for each of them and none besides."""
    name, spec = resource.metadata.name, resource.spec
    if not spec.pools:
        return (_resolve(spec, spec, "", name),)
    return tuple(_resolve(pool, spec, pool.name, f"{name}-{pool.name}") for pool in spec.pools)


def short_scheduler_name(image: str) -> str:
    """What people call the scheduler of an image: the last part of its name, without tag and digest."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def _resolve(own: Workload, spec: SchedExtSpec, pool: str, daemon_set: str) -> ResolvedWorkload:
    return ResolvedWorkload(
        pool=pool,
        daemon_set=daemon_set,
        sched=_first(own.sched, spec.sched, ""),
        args=_first(own.args, spec.args, ()),
        env=_first(own.env, spec.env, ()),
        config_from=own.config_from if own.config_from is not None else spec.config_from,
        host_stats=_first(own.host_stats, spec.host_stats, False),
        resources=own.resources if own.resources is not None else spec.resources,
        node_selector=_first(own.node_selector, spec.node_selector, {}),
        affinity=own.affinity if own.affinity is not None else spec.affinity,
        tolerations=_first(own.tolerations, spec.tolerations, ()),
        rollout=own.rollout if own.rollout is not None else spec.rollout,
    )


def _first(own: Field | None, inherited: Field | None, default: Field) -> Field:
    if own is not None:
        return own
    return inherited if inherited is not None else default
