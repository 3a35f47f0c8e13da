"""What would be created for resources in a file: the same planning, offline."""

from collections.abc import Sequence

import msgspec
import yaml

from schedkit.sked.api.types import SchedExt as FileSchedExt
from schedkit.sked.controller.claims import Board, Claim, make_claims
from schedkit.sked.controller.daemonsets import make_daemonset
from schedkit.sked.controller.objects import DAEMONSETS, DaemonSet, SchedExt
from schedkit.sked.controller.reconciler import subtract


def plan(resources: Sequence[FileSchedExt]) -> list[DaemonSet]:
    """The DaemonSets of the resources, as if these were all there are and were created in this order."""
    board = Board()
    claims: list[Claim] = []
    for place, given in enumerate(resources):
        resource = msgspec.convert(msgspec.to_builtins(given), SchedExt)
        metadata = msgspec.structs.replace(
            resource.metadata,
            namespace=resource.metadata.namespace or "default",
            creation_timestamp=resource.metadata.creation_timestamp or f"{place:06}",
        )
        resource = msgspec.structs.replace(resource, metadata=metadata)
        own = make_claims(resource)
        board.put(metadata.key, own)
        claims += own
    planned = []
    for claim in claims:
        winners = tuple(rival for rival in board.rivals(claim) if rival.rank < claim.rank)
        remaining = subtract(claim.selector, winners)
        if remaining is not None:
            planned.append(make_daemonset(claim, remaining if winners else None))
    return planned


def render_yaml(daemonsets: Sequence[DaemonSet]) -> str:
    """Manifests as kubectl takes them. The owner's uid is empty: only the cluster gives one."""
    documents = []
    for daemonset in daemonsets:
        body = {"apiVersion": DAEMONSETS.api_version, "kind": DAEMONSETS.kind} | msgspec.to_builtins(daemonset)
        documents.append(yaml.safe_dump(body, sort_keys=False))
    return "---\n".join(documents)
