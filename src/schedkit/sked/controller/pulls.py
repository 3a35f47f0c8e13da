"""Images brought to a node before its scheduler leaves: a pod without any privilege that pulls, runs nothing and ends.

So a node is without a scheduler for a stop and a start, and not for a download; and an image that cannot be pulled
costs no node its scheduler.
"""

import hashlib

from schedkit.sked.api.kubernetes import Toleration
from schedkit.sked.controller.daemonsets import MANAGED_BY
from schedkit.sked.controller.failures import MESSAGE_LENGTH, find_pull_fault, has_begun, shorten
from schedkit.sked.controller.objects import DAEMONSETS, DaemonSet, Pod, PullSecret, RestrictedSecurity
from schedkit.sked.kube.objects import Model, ObjectMeta, OwnerReference

DEADLINE_EXCEEDED = "DeadlineExceeded"  # the kubelet's word for a pod that took longer than it may
PULL = "sked.schedkit.io/pull"  # on such a pod: the revision whose image it pulls


class PullContainer(Model, frozen=True, omit_defaults=False):
    """A container that is there for its image only: asked for its version, a scheduler ends at once."""

    image: str
    name: str = "pull"
    args: tuple[str, ...] = ("--version",)
    image_pull_policy: str = ""
    security_context: RestrictedSecurity = RestrictedSecurity()


class PullSpec(Model, frozen=True, omit_defaults=False):
    """A pod that is given to a node past all schedulers of pods, and never started again."""

    node_name: str
    containers: tuple[PullContainer, ...]
    image_pull_secrets: tuple[PullSecret, ...] = ()
    tolerations: tuple[Toleration, ...] = (Toleration(operator="Exists"),)
    restart_policy: str = "Never"
    automount_service_account_token: bool = False
    enable_service_links: bool = False
    termination_grace_period_seconds: int = 0
    active_deadline_seconds: int = 3600


class PullPod(Model, frozen=True, omit_defaults=False):
    """A pod as it is created."""

    metadata: ObjectMeta
    spec: PullSpec
    api_version: str = "v1"
    kind: str = "Pod"


def name_pull_pod(revision: str, node: str) -> str:
    """The name of the pod that brings a revision's image to a node."""
    return f"{revision}-pull-{hashlib.sha256(node.encode()).hexdigest()[:10]}"


def make_pull_pod(revision: DaemonSet, node: str) -> PullPod:
    """The pod that brings a revision's image to a node; it goes with the revision."""
    metadata, template = revision.metadata, revision.spec.template.spec
    container = template.containers[0]
    owner = OwnerReference(
        api_version=DAEMONSETS.api_version, kind=DAEMONSETS.kind, name=metadata.name, uid=metadata.uid
    )
    return PullPod(
        ObjectMeta(
            name=name_pull_pod(metadata.name, node),
            namespace=metadata.namespace,
            labels=MANAGED_BY | {PULL: metadata.name},
            owner_references=(owner,),
        ),
        PullSpec(
            node,
            (PullContainer(container.image, image_pull_policy=container.image_pull_policy),),
            template.image_pull_secrets,
        ),
    )


def judge_pull(pod: Pod) -> str | None:
    """Why a pod has not brought its image, empty while it may yet do so; None: there is nothing to wait for.

    That a container was made of an image shows that it is there. And a node that did not take the pod, as it has no
    room for one more, tells nothing of the image.
    """
    if has_begun(pod):
        return None
    fault, status = find_pull_fault(pod), pod.status
    if fault or status.phase != "Failed":
        return fault
    return shorten(status.message, MESSAGE_LENGTH) if status.reason == DEADLINE_EXCEEDED else None
