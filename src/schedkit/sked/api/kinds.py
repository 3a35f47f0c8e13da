"""The kinds that sked adds to a cluster: their names, their types and what kubectl shows of them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from schedkit.sked.api.kubernetes import SpecModel
from schedkit.sked.api.names import API_VERSION, GROUP, KIND, NODE_KIND, NODE_PLURAL, PLURAL
from schedkit.sked.api.node_types import SchedExtNode
from schedkit.sked.api.schema import Schema, build_schema
from schedkit.sked.api.types import SchedExt

CATEGORY = "schedkit"  # `kubectl get schedkit` lists all of them
_WIDE = 1  # the priority of columns that only `kubectl get -o wide` shows


class Column(NamedTuple):
    """A column of `kubectl get`."""

    name: str
    type: str
    description: str
    path: str
    is_wide: bool = False

    def render(self) -> dict[str, Any]:
        """The column as a CustomResourceDefinition has it."""
        column = {"name": self.name, "type": self.type, "description": self.description, "jsonPath": self.path}
        return column | ({"priority": _WIDE} if self.is_wide else {})


@dataclass(frozen=True)
class Kind:
    """One kind: its CustomResourceDefinition, its part of the reference and its validation are made from this."""

    model: type[SpecModel]
    kind: str
    plural: str
    singular: str
    short_name: str
    namespaced: bool
    columns: tuple[Column, ...]
    introduction: str  # Markdown, the beginning of its part of the reference
    example: str = ""  # Markdown, after the table of its names

    @property
    def crd_name(self) -> str:
        return f"{self.plural}.{GROUP}"

    @property
    def file_name(self) -> str:
        """The name of the file that holds its CustomResourceDefinition."""
        return f"{GROUP}_{self.plural}.yaml"

    @cached_property
    def schema(self) -> Schema:
        return build_schema(self.model)


SCHEDEXT = Kind(
    model=SchedExt,
    kind=KIND,
    plural=PLURAL,
    singular="schedext",
    short_name="scx",
    namespaced=True,
    columns=(
        Column("Scheduler", "string", "The schedulers' short names.", ".status.scheduler"),
        Column("Desired", "integer", "Nodes that should run the scheduler.", ".status.nodes.desired"),
        Column("Attached", "integer", "Nodes whose kernel has attached it.", ".status.nodes.attached"),
        Column("Status", "string", "The state in a word or two.", ".status.summary"),
        Column("Age", "date", "The time since the resource was created.", ".metadata.creationTimestamp"),
        Column("Ready", "integer", "Nodes whose pod is ready.", ".status.nodes.ready", is_wide=True),
        Column("Unknown", "integer", "Nodes that do not report.", ".status.nodes.unknown", is_wide=True),
        Column("Image", "string", "The schedulers' images.", ".status.image", is_wide=True),
        Column(
            "Reason",
            "string",
            "Why the resource is ready or is not.",
            '.status.conditions[?(@.type=="Ready")].reason',
            is_wide=True,
        ),
    ),
    introduction="""\
A `SchedExt` asks sked to run a scheduler's image on nodes of a cluster, and reports the result in its status. This page
lists every field. The API server checks the limits and rules below when a resource is applied; `sked render`
checks the same ones offline.
""",
    example=f"""\
The smallest SchedExt runs a scheduler on every node:

```yaml
apiVersion: {API_VERSION}
kind: SchedExt
metadata:
  name: scx-rusty
spec:
  sched: ghcr.io/schedkit/scx_rusty:latest
```

The API server stores a resource as you wrote it, without defaults for absent fields. The description of each field says
what its absence means.
""",
)
SCHEDEXTNODE = Kind(
    model=SchedExtNode,
    kind=NODE_KIND,
    plural=NODE_PLURAL,
    singular="schedextnode",
    short_name="scxn",
    namespaced=False,
    columns=(
        Column("State", "string", "The state of the kernel's slot.", ".status.slot.state"),
        Column("Ops", "string", "The attached scheduler's name in the kernel.", ".status.slot.ops"),
        Column("SchedExt", "string", "The SchedExt that has the node.", ".status.schedExt"),
        Column("Attached", "date", "The time since it attached.", ".status.slot.since"),
        Column(
            "Fit", "string", "Whether the kernel can run schedulers.", '.status.conditions[?(@.type=="Fit")].status'
        ),
        Column("Age", "date", "The time since the node first reported.", ".metadata.creationTimestamp"),
        Column("Kernel", "string", "The kernel's release.", ".status.kernel.release", is_wide=True),
        Column(
            "Reason",
            "string",
            "Why the kernel can run schedulers or cannot.",
            '.status.conditions[?(@.type=="Fit")].reason',
            is_wide=True,
        ),
    ),
    introduction="""\
A `SchedExtNode` reports what one node's kernel is doing. `sked agent` on that node writes it when something
changes. It has the node's name, and is deleted with the node. It has no spec.
""",
)
KINDS: tuple[Kind, ...] = (SCHEDEXT, SCHEDEXTNODE)
