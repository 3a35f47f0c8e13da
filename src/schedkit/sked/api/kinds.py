"""The kinds that sked adds to a cluster: their names, their types and what kubectl shows of them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from schedkit.sked.api import types
from schedkit.sked.api.kubernetes import SpecModel
from schedkit.sked.api.schema import Schema, build_schema
from schedkit.sked.api.types import API_VERSION, GROUP, SchedExt

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
    kind=types.KIND,
    plural=types.PLURAL,
    singular="schedext",
    short_name="scx",
    namespaced=True,
    columns=(
        Column("Scheduler", "string", "The schedulers' short names.", ".status.scheduler"),
        Column("Desired", "integer", "Nodes that should run the scheduler.", ".status.nodes.desired"),
        Column("Ready", "integer", "Nodes whose pod is ready.", ".status.nodes.ready"),
        Column("Status", "string", "The state in a word or two.", ".status.summary"),
        Column("Age", "date", "The time since the resource was made.", ".metadata.creationTimestamp"),
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
A `SchedExt` asks sked to run one scheduler image on the nodes of a cluster, and tells what became of it. This page
lists every field of it. The API server checks the limits and rules below when a resource is applied; `sked render`
checks the same ones offline.
""",
    example=f"""\
The smallest one, which runs a scheduler on every node:

```yaml
apiVersion: {API_VERSION}
kind: SchedExt
metadata:
  name: scx-rusty
spec:
  sched: ghcr.io/schedkit/scheds/scx_rusty:latest
```

Nothing is filled in for fields that are left out: what is stored is what was written. What an absent field means is
said beside it.
""",
)
KINDS: tuple[Kind, ...] = (SCHEDEXT,)
