"""Why a scheduler's pod does not run, in words that stay the same while nothing changes."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from schedkit.sked.api.kubernetes import NODE_NAME_FIELD
from schedkit.sked.api.types import NodeFailure
from schedkit.sked.controller.objects import ContainerStatus, Pod, StateTerminated, StateWaiting
from schedkit.sked.kube.objects import Key

PULL = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}
LOOPING = "CrashLoopBackOff"  # the kubelet's word
CRASH_LOOPING = "CrashLooping"  # ours
# Waiting for these is how a healthy pod begins.
BEGINNING = {"", "ContainerCreating", "PodInitializing"}
MESSAGE_LENGTH = 500
OVERDUE = timedelta(seconds=60)  # beyond its grace a pod is killed, and its kubelet says so within seconds


@dataclass(frozen=True)
class Crash:
    """An end of a scheduler's container of which Kubernetes tells no reason: its log may."""

    pod: Key
    uid: str
    container: str
    restarts: int


def find_failures(pods: Iterable[Pod]) -> list[NodeFailure]:
    """The pods that do not run, by node; a pod that is going is nobody's failure."""
    found = (_find_failure(pod) for pod in pods if not pod.metadata.deletion_timestamp)
    return sorted((failure for failure in found if failure), key=lambda failure: (failure.node, failure.pod))


def find_crash(pod: Pod) -> Crash | None:
    """The end that keeps a pod waiting for its restart.

    Only then is it certain which log is meant: of the container before, also when it has started again meanwhile.
    """
    for status in pod.status.container_statuses:
        if (
            status.state.waiting
            and status.state.waiting.reason == LOOPING
            and not _read_why(status.last_state.terminated)
        ):
            return Crash(pod.metadata.key, pod.metadata.uid, status.name, status.restart_count)
    return None


def shorten(text: str, length: int) -> str:
    """A text in one line, cut to a length."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1] + "…"


def read_node(pod: Pod) -> str:
    """The node a pod runs on; of one that waits for a place, the node its DaemonSet made it for."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    for term in required.node_selector_terms if required else ():
        for requirement in term.match_fields:
            if requirement.key == NODE_NAME_FIELD and len(requirement.values) == 1:
                return requirement.values[0]
    return ""


def is_overdue(pod: Pod, now: datetime) -> bool:
    """Whether a pod should be gone for so long that its node must be dead, and nobody will ever tell that it went."""
    due = pod.metadata.deletion_timestamp
    return due is not None and datetime.fromisoformat(due) + OVERDUE < now


def _find_failure(pod: Pod) -> NodeFailure | None:
    described = _describe(pod)
    if described is None:
        return None
    reason, message = described
    message = shorten(message, MESSAGE_LENGTH)
    return NodeFailure(node=read_node(pod), pod=pod.metadata.name, reason=reason, message=message)


def _describe(pod: Pod) -> tuple[str, str] | None:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return "Unschedulable", condition.message or condition.reason
    if pod.status.phase == "Failed":
        return pod.status.reason or "Failed", pod.status.message or "the pod failed"
    for status in pod.status.container_statuses:
        if described := _describe_container(status):
            return described
    return None


def _describe_container(status: ContainerStatus) -> tuple[str, str] | None:
    waiting, ended = status.state.waiting, status.state.terminated or status.last_state.terminated
    if waiting and waiting.reason in PULL:
        return "PullFailed", _strip_back_off(waiting)
    if (waiting and waiting.reason == LOOPING) or status.state.terminated:
        return CRASH_LOOPING, _describe_end(ended)
    if waiting and waiting.reason not in BEGINNING:
        return waiting.reason, waiting.message
    return None


def _strip_back_off(waiting: StateWaiting) -> str:
    """The kubelet alternates between the fault and waiting to try again; the fault is what stays."""
    prefix, _, fault = waiting.message.partition(": ErrImagePull: ")
    if prefix.startswith("Back-off pulling image") and fault:
        return fault
    return waiting.message or waiting.reason


def _describe_end(ended: StateTerminated | None) -> str:
    if ended is None:
        return "the scheduler ends again and again"
    how = f"signal {ended.signal}" if ended.signal else f"status {ended.exit_code}"
    why = _read_why(ended)
    return f"the scheduler ended with {how}{': ' + why if why else ''}"


def _read_why(ended: StateTerminated | None) -> str:
    """What Kubernetes itself knows of an end."""
    if ended is None:
        return ""
    return ended.message.strip() or ("" if ended.reason in ("Error", "Completed") else ended.reason)
