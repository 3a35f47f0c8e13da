"""Which image a claim runs now, by what is known of the one that it asks for: pure functions of that.

Under `enforce` a container is made of a verified image, by its digest, or it stays as it is. So an outage of a registry
changes nothing that runs, and neither does a policy that no longer trusts it.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from schedkit.images.reference import Reference, is_digest
from schedkit.sked.api.conditions import Reason
from schedkit.sked.api.requests import REFRESH
from schedkit.sked.api.types import ON_DELETE, PoolStatus, SchedExt, UpdateStrategy, Verified
from schedkit.sked.api.workloads import ResolvedWorkload
from schedkit.sked.controller.daemonsets import read_revision, same_pods, same_work
from schedkit.sked.controller.failures import shorten
from schedkit.sked.controller.objects import DaemonSet, Pod, PodTemplate
from schedkit.sked.controller.volumes import select_own

REFRESH_LENGTH = 64
# With these, what is not in the image can be made to run in its process: by the loader, or by an interpreter.
UNSAFE_PREFIXES = ("LD_", "GLIBC_", "MALLOC_", "BASH_", "PYTHON", "PERL", "RUBY", "NODE_", "JAVA_", "DOTNET_")
UNSAFE_VARIABLES = ("PATH", "ENV", "GCONV_PATH", "LOCPATH", "NLSPATH", "IFS", "SHELLOPTS", "CLASSPATH", "_JAVA_OPTIONS")
SAFE_FOLDERS = ("/etc/scx", "/config")  # where no program, library or list of libraries is looked for


class Mode(StrEnum):
    """What becomes of an image that is not verified."""

    OFF = "off"  # nothing is asked
    WARN = "warn"  # it is told, and used as written
    ENFORCE = "enforce"  # it is not used


@dataclass(frozen=True)
class Acceptance:
    """Somebody whom the policy trusts has signed it."""

    signer: str
    rule: str
    policy: str  # the hash of the policy
    time: str  # when that was found


@dataclass(frozen=True)
class Failure:
    """Why an image is not verified."""

    reason: str
    message: str
    refused: bool  # looked at, and not trusted; else it could not be looked at


@dataclass(frozen=True)
class ImageJudgement:
    """What is known of the image that a claim asks for; neither accepted nor failed: it is being verified."""

    mode: Mode
    reference: str  # as it was written
    resolved: str = ""  # repository@digest; empty until that is known
    accepted: Acceptance | None = None
    failure: Failure | None = None
    again_seconds: float | None = None  # when to look again

    @property
    def may_run(self) -> bool:
        """Whether a container may be made of it."""
        return self.mode is not Mode.ENFORCE or self.accepted is not None


def find_loophole(workload: ResolvedWorkload) -> Failure | None:
    """What a workload asks for besides its image that would let something else run in its place."""
    for variable in workload.env:
        if variable.name in UNSAFE_VARIABLES or variable.name.startswith(UNSAFE_PREFIXES):
            message = f"env {variable.name} can make a verified image run what is not in it; remove it"
            return Failure(Reason.UNSAFE_OVERRIDE, message, refused=True)
    path = workload.config_from.mount_path.rstrip("/") if workload.config_from else ""
    if path and not any(path == folder or path.startswith(f"{folder}/") for folder in SAFE_FOLDERS):
        folders = " or ".join(SAFE_FOLDERS)
        message = f"configFrom.mountPath {path} may hide a part of the image; mount it at or below {folders}"
        return Failure(Reason.UNSAFE_OVERRIDE, message, refused=True)
    return None


def read_refresh(resource: SchedExt) -> str:
    """The value of the annotation that asks for another look, as far as it is kept."""
    return resource.metadata.annotations.get(REFRESH, "")[:REFRESH_LENGTH]


def recall_digest(resource: SchedExt, pool: str, reference: Reference) -> str:
    """The digest that a reference was resolved to for this generation, by the resource's own status; empty: not yet.

    Whoever may write statuses may have made that up. It says which digest to judge, and nothing about the verdict: of
    another digest of the same repository, its author might as well have written it into the spec.
    """
    status = resource.status
    if (status.observed_generation, status.last_handled_refresh) != (
        resource.metadata.generation,
        read_refresh(resource),
    ):
        return ""
    told = next((found.resolved_image for found in status.pools if found.name == pool), "")
    repository, _, digest = told.partition("@")
    return digest if repository == reference.repository and is_digest(digest) else ""


def fit(
    wanted: DaemonSet, judgement: ImageJudgement | None, seen: DaemonSet | None, pods: Collection[Pod]
) -> DaemonSet | None:
    """A DaemonSet as it may be: with its image by digest, or with the container that is there; None: not at all."""
    if judgement is None or judgement.mode is not Mode.ENFORCE:
        return wanted
    if judgement.accepted:
        return _keep_pods(_with_image(wanted, judgement.resolved), seen, pods)
    return keep_containers(wanted, seen) if seen else None


def is_carried_out(wanted: DaemonSet, judgement: ImageJudgement, seen: DaemonSet | None) -> bool:
    """Whether what is there is what is asked for, though it is not known (any more) that it may be."""
    return bool(judgement.resolved) and seen is not None and same_work(_with_image(wanted, judgement.resolved), seen)


def is_held(seen: DaemonSet, strategy: UpdateStrategy | None) -> bool:
    """Whether a DaemonSet's pods were kept when its image came to be written by digest, so that sked replaces them."""
    has = seen.spec.update_strategy
    return has is not None and has.type == ON_DELETE and not (strategy and strategy.type == ON_DELETE)


def is_same_image(pod: Pod, made_of: bytes, newest: bytes) -> bool:
    """Whether a pod of another template differs in nothing but how its image is written."""
    template, other = (msgspec.json.decode(found, type=PodTemplate) for found in (newest, made_of))
    return _without_image(template) == _without_image(other) and runs(pod, template.spec.containers[0].image)


def runs(pod: Pod, image: str) -> bool:
    """Whether a pod's kubelet says that it runs exactly this digest."""
    digest = image.partition("@")[2]
    found = [status.image_id.rpartition("@")[2] for status in pod.status.container_statuses]
    return bool(digest) and found == [digest]


def tell_pool(judgement: ImageJudgement | None, runs_image: str, pool: PoolStatus) -> PoolStatus:
    """A pool's status with what is known of its image."""
    if judgement is None:
        return pool
    accepted, digest = judgement.accepted, judgement.resolved.partition("@")[2]
    return msgspec.structs.replace(
        pool,
        image=(runs_image if judgement.mode is Mode.ENFORCE else "") or pool.image,
        resolved_image=judgement.resolved,
        verified=Verified(signer=accepted.signer, policy=accepted.policy, time=accepted.time, digest=digest)
        if accepted
        else None,
    )


def describe(judgements: Iterable[ImageJudgement]) -> tuple[str, str, str] | None:
    """The condition of all images of a resource, the worst of them first: status, reason, message; None: none asked."""
    found = list(judgements)
    if not found:
        return None
    for refused in (True, False):
        for judgement in found:
            failure = judgement.failure
            if failure and failure.refused is refused:
                note = _tell_consequence(judgement)
                return "False" if refused else "Unknown", failure.reason, f"{shorten(failure.message, 800)}{note}"
    if waiting := next((judgement for judgement in found if judgement.accepted is None), None):
        return "Unknown", Reason.VERIFYING, f"{waiting.reference} is being verified"
    signers = dict.fromkeys(judgement.accepted.signer for judgement in found if judgement.accepted)
    return "True", Reason.VERIFIED, f"signed by {shorten('; '.join(signers), 800)}"


def _tell_consequence(judgement: ImageJudgement) -> str:
    if judgement.mode is Mode.WARN:
        return "; it is used anyway (--verification=warn)"
    return "; running schedulers continue, and nothing new is started"


def _with_image(daemonset: DaemonSet, image: str) -> DaemonSet:
    """The same with an image by digest, which is pulled once: no outage of the registry keeps pods from restarting.

    It is said and not left to Kubernetes, which would keep the `Always` that it filled in for the tag latest.
    """
    replace = msgspec.structs.replace
    template = daemonset.spec.template
    (container,) = template.spec.containers
    policy = container.image_pull_policy or "IfNotPresent"
    pod = replace(template.spec, containers=(replace(container, image=image, image_pull_policy=policy),))
    return replace(daemonset, spec=replace(daemonset.spec, template=replace(template, spec=pod)))


def keep_containers(wanted: DaemonSet, seen: DaemonSet) -> DaemonSet | None:
    """Where to run as wanted, what to run as it is; None: there is no such container."""
    replace = msgspec.structs.replace
    template, there = wanted.spec.template, seen.spec.template.spec
    (own,) = template.spec.containers
    containers = tuple(
        replace(container, volume_mounts=select_own(container.volume_mounts))
        for container in there.containers
        if container.name == own.name  # what others add to the list is theirs
    )
    if not containers:
        return None
    pod = replace(template.spec, containers=containers, volumes=select_own(there.volumes))
    return replace(wanted, spec=replace(wanted.spec, template=replace(template, spec=pod)))


def _keep_pods(wanted: DaemonSet, seen: DaemonSet | None, pods: Collection[Pod]) -> DaemonSet:
    """The same, never rolled by Kubernetes where the pods that are there run this digest already."""
    if seen is None:
        return wanted
    image = wanted.spec.template.spec.containers[0].image
    running = [pod for pod in pods if not pod.metadata.deletion_timestamp]
    moves = _without_image(wanted.spec.template) == _without_image(seen.spec.template) and not same_pods(wanted, seen)
    keeps = moves and bool(running) and all(runs(pod, image) for pod in running)
    # And then until the next change, as going back would restart them.
    stays = is_held(seen, wanted.spec.update_strategy) and same_pods(wanted, seen)
    if not keeps and not stays:
        return wanted
    held = UpdateStrategy(type=ON_DELETE)
    return msgspec.structs.replace(wanted, spec=msgspec.structs.replace(wanted.spec, update_strategy=held))


def _without_image(template: PodTemplate) -> bytes:
    """A template as a value that is the same for two which differ in how the image is written or pulled."""
    replace = msgspec.structs.replace
    containers = tuple(replace(item, image="@", image_pull_policy="") for item in template.spec.containers)
    return read_revision(replace(template, spec=replace(template.spec, containers=containers)))
