"""What would be created for resources in a file: the same claims and DaemonSets, without a cluster."""

from collections.abc import Sequence

import msgspec
import yaml

from schedkit.sked.api.types import SchedExt as FileSchedExt
from schedkit.sked.controller.claims import make_claims
from schedkit.sked.controller.daemonsets import make_daemonset
from schedkit.sked.controller.objects import DAEMONSETS, DaemonSet, SchedExt


def plan(resources: Sequence[FileSchedExt]) -> list[DaemonSet]:
    """The DaemonSets of the resources; who gets a node that two of them select is decided in the cluster."""
    planned = []
    for given in resources:
        resource = msgspec.convert(msgspec.to_builtins(given), SchedExt)
        namespace = resource.metadata.namespace or "default"
        metadata = msgspec.structs.replace(resource.metadata, namespace=namespace)
        planned += [
            make_daemonset(claim) for claim in make_claims(msgspec.structs.replace(resource, metadata=metadata))
        ]
    return planned


def render_yaml(daemonsets: Sequence[DaemonSet]) -> str:
    """Manifests as kubectl takes them. The owner's uid is empty: only the cluster gives one."""
    documents = []
    for daemonset in daemonsets:
        body = {"apiVersion": DAEMONSETS.api_version, "kind": DAEMONSETS.kind} | msgspec.to_builtins(daemonset)
        documents.append(yaml.safe_dump(body, sort_keys=False))
    return "---\n".join(documents)
