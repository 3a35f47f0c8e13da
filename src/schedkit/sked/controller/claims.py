"""Claims: what each resource wants of which nodes, and who comes first where two of them want the same."""

from dataclasses import dataclass
from functools import cached_property

from schedkit.sked.api.kubernetes import Toleration
from schedkit.sked.api.requests import make_slot
from schedkit.sked.api.rollout_types import Rollout
from schedkit.sked.api.selectors import Selector
from schedkit.sked.api.types import SchedExt
from schedkit.sked.api.workloads import ResolvedWorkload, resolve_workloads
from schedkit.sked.controller.objects import Node
from schedkit.sked.controller.scheduling import could_run
from schedkit.sked.kube.objects import Key

Identity = tuple[Key, int]  # a resource, and which of its pools
Rank = tuple[int, str, Key, int]


@dataclass(frozen=True, eq=False)
class Claim:
    """One DaemonSet that a resource wants: its own, or one of a pool's."""

    resource: SchedExt
    workload: ResolvedWorkload
    place: int  # among the resource's pools
    priority: int  # what is left of the one asked for
    selector: Selector

    @cached_property
    def owner(self) -> Key:
        return self.resource.metadata.key

    @cached_property
    def identity(self) -> Identity:
        """The same before and after a change of its resource."""
        return self.resource.metadata.key, self.place

    @property
    def name(self) -> str:
        """The name of the DaemonSet."""
        return self.workload.daemon_set

    @cached_property
    def key(self) -> Key:
        """The DaemonSet's namespace and name."""
        return Key(self.resource.metadata.namespace, self.workload.daemon_set)

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        return self.workload.tolerations

    @property
    def rollout(self) -> Rollout | None:
        """How new revisions reach its nodes; None: as Kubernetes does it."""
        return self.workload.rollout

    @cached_property
    def slot(self) -> str:
        """What the label on a node says when this claim has its slot."""
        return make_slot(self.key)

    @cached_property
    def rank(self) -> Rank:
        """Lower goes first: higher priority, then older, then by name; of one resource's pools the earlier."""
        metadata = self.resource.metadata
        return (-self.priority, metadata.creation_timestamp or "", metadata.key, self.place)

    def could_run_on(self, node: Node) -> bool:
        """Whether a node is one that it selects, and has no lasting taint that it does not tolerate."""
        return could_run(self.selector, self.tolerations, node)


def make_claims(resource: SchedExt, ceiling: int | None = None) -> tuple[Claim, ...]:
    """What a resource wants: nothing while it is suspended or going; raises InvalidSelectorError."""
    if resource.spec.suspend or resource.metadata.deletion_timestamp:
        return ()
    asked = resource.spec.priority
    priority = asked if ceiling is None else min(asked, ceiling)
    return tuple(
        Claim(resource, workload, place, priority, workload.parse_selector())
        for place, workload in enumerate(resolve_workloads(resource))
    )
