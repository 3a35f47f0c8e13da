"""What would be created for resources in files: the same claims and DaemonSets, without a cluster."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import yaml

from schedkit.sked.api.requests import make_slot
from schedkit.sked.api.selectors import Selector, Term
from schedkit.sked.api.types import SchedExt
from schedkit.sked.controller.claims import Claim, make_claims
from schedkit.sked.controller.daemonsets import make_daemonset, name_revision
from schedkit.sked.controller.objects import DAEMONSETS, DaemonSet
from schedkit.sked.kube.objects import Key

EVERY_NODE = Selector((Term(),))


class Rendered(NamedTuple):
    """What resources become without a cluster."""

    daemonsets: tuple[DaemonSet, ...]
    warnings: tuple[str, ...]  # who gets no nodes, and why


def plan(resources: Sequence[SchedExt]) -> Rendered:
    """The DaemonSets of the resources, as if these were all there are and were created in this order.

    Who gets a node that two of them select is decided in the cluster, node by node; here it is only known of those
    that select the same nodes as a stronger one.
    """
    claims: list[Claim] = []
    warnings = []
    for place, resource in enumerate(resources):
        metadata = msgspec.structs.replace(
            resource.metadata,
            namespace=resource.metadata.namespace or "default",
            creation_timestamp=resource.metadata.creation_timestamp or f"{place:06}",
        )
        own = make_claims(msgspec.structs.replace(resource, metadata=metadata))
        if not own:
            reason = "it is suspended" if resource.spec.suspend else "it is being deleted"
            warnings.append(f"{metadata.key} gets no nodes: {reason}")
        claims += own
    for claim in claims:
        if winner := next((other for other in claims if _has_all_nodes_of(other, claim)), None):
            pool = f", pool {claim.workload.pool}," if claim.workload.pool else ""
            warnings.append(f"{claim.owner}{pool} gets no nodes: {winner.owner} comes first on all that it selects")
    return Rendered(tuple(_render_claim(claim) for claim in claims), tuple(warnings))


def _render_claim(claim: Claim) -> DaemonSet:
    """The DaemonSet of a claim, or of its first revision: where that runs is said by the nodes' labels."""
    plain = make_daemonset(claim)
    if claim.rollout is None:
        return plain
    name = name_revision(claim, plain)
    return make_daemonset(claim, (make_slot(Key(claim.key.namespace, name)),), name=name, takes_free=False)


def _has_all_nodes_of(winner: Claim, claim: Claim) -> bool:
    """Whether a stronger claim surely could run on every node that another selects."""
    if winner.rank >= claim.rank or not set(claim.tolerations) <= set(winner.tolerations):
        return False
    return winner.selector in (EVERY_NODE, claim.selector)


def render_yaml(daemonsets: Sequence[DaemonSet]) -> str:
    """Manifests as kubectl takes them, without the owner: only the cluster knows its uid."""
    return "---\n".join(yaml.safe_dump(_to_manifest(daemonset), sort_keys=False) for daemonset in daemonsets)


def render_json(daemonsets: Sequence[DaemonSet]) -> str:
    """The same as one List."""
    items = [_to_manifest(daemonset) for daemonset in daemonsets]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=2, ensure_ascii=False) + "\n"


def _to_manifest(daemonset: DaemonSet) -> dict[str, Any]:
    manifest: dict[str, Any] = msgspec.to_builtins(daemonset)
    manifest["metadata"].pop("ownerReferences", None)
    return {"apiVersion": DAEMONSETS.api_version, "kind": DAEMONSETS.kind, **manifest}
