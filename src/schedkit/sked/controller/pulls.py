"""Images brought to a node before its scheduler leaves: a pod without any privilege that pulls, runs nothing and ends.

So a node is without a scheduler for a stop and a start, and not for a download; and an image that cannot be pulled
costs no node its scheduler.
"""

import hashlib

import msgspec

from schedkit.sked.api.kubernetes import Toleration
from schedkit.sked.controller.daemonsets import MANAGED_BY
from schedkit.sked.controller.failures import MESSAGE_LENGTH, shorten
from schedkit.sked.controller.failures import PULL as PULL_REASONS
from schedkit.sked.controller.objects import DAEMONSETS, DaemonSet, Pod, PullSecret
from schedkit.sked.kube.objects import Model, ObjectMeta, OwnerReference

PULL = "sked.schedkit.io/pull"  # on such a pod: the revision whose image it pulls
NOBODY = 65534


class PullSecurity(Model, frozen=True, omit_defaults=False):
    """What Pod Security calls restricted."""

    allow_privilege_escalation: bool = False
    run_as_non_root: bool = True
    run_as_user: int = NOBODY
    read_only_root_filesystem: bool = True
    capabilities: dict[str, list[str]] = msgspec.field(default_factory=lambda: {"drop": ["ALL"]})
    seccomp_profile: dict[str, str] = msgspec.field(default_factory=lambda: {"type": "RuntimeDefault"})


class PullContainer(Model, frozen=True, omit_defaults=False):
    """A container that is there for its image only: asked for its version, a scheduler ends at once."""

    image: str
    name: str = "pull"
    args: tuple[str, ...] = ("--version",)
    image_pull_policy: str = ""
    security_context: PullSecurity = PullSecurity()


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


def make_pull_pod(revision: DaemonSet, node: str) -> PullPod:
    """The pod that brings a revision's image to a node; it goes with the revision."""
    metadata, template = revision.metadata, revision.spec.template.spec
    container = template.containers[0]
    owner = OwnerReference(
        api_version=DAEMONSETS.api_version, kind=DAEMONSETS.kind, name=metadata.name, uid=metadata.uid
    )
    digest = hashlib.sha256(node.encode()).hexdigest()[:10]
    return PullPod(
        ObjectMeta(
            name=f"{metadata.name}-pull-{digest}",
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


def has_pulled(pod: Pod) -> bool:
    """Whether an image is on the node: a container was made of it, whatever became of that."""
    return any(
        status.state.running or status.state.terminated or status.last_state.terminated
        for status in pod.status.container_statuses
    )


def find_refusal(pod: Pod) -> str:
    """Why an image cannot be pulled, or nothing."""
    for status in pod.status.container_statuses:
        waiting = status.state.waiting
        if waiting and waiting.reason in PULL_REASONS:
            return shorten(waiting.message or waiting.reason, MESSAGE_LENGTH)  # registries may answer with a whole page
    failed = pod.status.phase == "Failed" and not has_pulled(pod)
    return shorten(pod.status.message, MESSAGE_LENGTH) if failed else ""
