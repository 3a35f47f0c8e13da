"""The DaemonSet that the Go operator makes of a SchedExt, as its users have it in their clusters."""

from typing import Any

Json = dict[str, Any]
LABELS = {"managed-by": "sked-controller"}


def make_described(resource: Json, **pod: object) -> Json:
    """The described DaemonSet of a resource that is stored; `pod` is what somebody added to the pods' spec."""
    name = resource["metadata"]["name"]
    owner = {"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExt", "name": name, "uid": resource["metadata"]["uid"]}
    owners = [owner | {"controller": True, "blockOwnerDeletion": True}]
    container = {"name": "scx", "image": resource["spec"]["sched"], "securityContext": {"privileged": True}}
    template = {"metadata": {"labels": {"name": name} | LABELS}, "spec": {"containers": [container], **pod}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default", "labels": LABELS, "ownerReferences": owners},
        "spec": {"selector": {"matchLabels": {"name": name}}, "template": template},
    }
