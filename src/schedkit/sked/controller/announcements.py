"""What changed in kernels, told as Events and counted as metrics: each once, and in waves by number."""

from collections.abc import Callable, Iterator, Sequence

from schedkit.sked.api.conditions import READY, Reason
from schedkit.sked.api.kubernetes import Condition
from schedkit.sked.api.types import NodeCounts, NodeFailure, SchedExt
from schedkit.sked.controller.attachment import NodeState, parse_time
from schedkit.sked.controller.health import REASONS
from schedkit.sked.controller.judgements import TOLD, Change
from schedkit.sked.controller.objects import Node
from schedkit.sked.kube.events import EventType
from schedkit.sked.kube.metrics import LabelledValue, MetricsRegistry
from schedkit.sked.kube.objects import Key, ObjectMeta

NODES_TOLD = 10  # of one turn: each of more nodes is one of a number in the resource's Event
ATTACH_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
WORDS = {
    NodeState.ATTACHED: "attached on",
    NodeState.EJECTED: "left the kernel on",
    NodeState.FOREIGN: "another scheduler is attached on",
    NodeState.UNFIT: "cannot run on",
}
COUNTED = (*(str(state) for state in NodeState if state is not NodeState.ATTACHING), "quarantined")
Record = Callable[[ObjectMeta, EventType, str, str], None]  # about what, how grave, the reason, a sentence


class Announcer:
    """Records Events of resources and nodes, and keeps the metrics."""

    def __init__(self, record: Record, record_node: Record, registry: MetricsRegistry) -> None:
        self._record = record
        self._record_node = record_node
        one = ("namespace", "name")
        self._counts: dict[Key, NodeCounts] = {}
        registry.collect(
            "sked_nodes", "Nodes of a resource by what their kernels say.", (*one, "state"), self._read_counts
        )
        self._ready: dict[Key, bool] = {}  # of those of which it is known
        registry.collect(
            "sked_ready", "Whether a resource is Ready; absent where that is unknown.", one, self._read_ready
        )
        self._seconds = registry.histogram(
            "sked_attach_seconds",
            "From the start of a scheduler's container to its being attached.",
            one,
            bounds=ATTACH_BOUNDS,
        )
        self._ejections = registry.counter(
            "sked_ejections_total", "How often a scheduler left a kernel without being stopped.", one
        )

    def count(self, resource: Key, nodes: NodeCounts | None) -> None:
        """How many of a resource's nodes are in which state now."""
        self._counts[resource] = nodes or NodeCounts()
        self._ejections.of(*resource)  # from 0 on: what appears with its first is no increase for who looks at rates

    def note_ready(self, resource: Key, conditions: Sequence[Condition]) -> None:
        """Take in what a resource's conditions say of its being Ready; none of them, or Unknown, says nothing."""
        status = next((condition.status for condition in conditions if condition.type == READY), "")
        self._ready.pop(resource, None)
        if status in ("True", "False"):
            self._ready[resource] = status == "True"

    def forget(self, resource: Key) -> None:
        """A resource is gone."""
        self._counts.pop(resource, None)
        self._ready.pop(resource, None)
        for family in (self._seconds, self._ejections):
            family.forget(*resource)

    def _read_counts(self) -> Iterator[LabelledValue]:
        for resource, nodes in self._counts.items():
            for state in COUNTED:
                yield (*resource, state), getattr(nodes, state)

    def _read_ready(self) -> Iterator[LabelledValue]:
        return ((resource, is_ready) for resource, is_ready in self._ready.items())

    def measure(self, resource: Key, changes: Sequence[Change]) -> None:
        """Count what changed."""
        for change in changes:
            since = parse_time(change.after.since)
            if change.after.state is NodeState.ATTACHED and since and change.started:
                # A container's start is told in whole seconds: it may seem to be after what it did.
                self._seconds.of(*resource).observe(max(0.0, (since - change.started).total_seconds()))
            if change.after.state is NodeState.EJECTED:
                self._ejections.of(*resource).increase()

    def announce(
        self,
        resource: SchedExt,
        changes: Sequence[Change],
        failures: Sequence[NodeFailure],
        find_node: Callable[[str], Node | None],
    ) -> None:
        """Tell what changed: of a few nodes each, of many how many."""
        messages = {failure.node: failure.message for failure in failures}
        for state in TOLD:
            reason = REASONS.get(state, Reason.ATTACHED)
            found = sorted(
                (change for change in changes if change.after.state is state), key=lambda change: change.node
            )
            if not found:
                continue
            kind: EventType = "Normal" if state is NodeState.ATTACHED else "Warning"
            first = found[0]
            told = messages.get(first.node, first.after.message) or first.after.ops
            more = f" and {len(found) - 1} more nodes" if len(found) > 1 else ""
            self._record(resource.metadata, kind, reason, f"{WORDS[state]} {first.node}{more}: {told}")
            for change in found if len(found) <= NODES_TOLD else ():
                if node := find_node(change.node):
                    told = messages.get(change.node, change.after.message) or f"attached {change.after.ops}"
                    self._record_node(node.metadata, kind, reason, f"SchedExt {resource.metadata.key}: {told}")
