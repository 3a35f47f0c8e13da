"""Why a scheduler's pod does not run, in words that stay the same while nothing changes."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from schedkit.sked.api.kubernetes import NODE_NAME_FIELD
from schedkit.sked.api.types import NodeFailure
from schedkit.sked.controller.objects import (
    INITIALIZED,
    WAIT,
    ContainerStatus,
    Pod,
    StateRunning,
    StateTerminated,
    StateWaiting,
)
from schedkit.sked.kube.objects import Key

PULL = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}
LOOPING = "CrashLoopBackOff"  # the kubelet's word
CRASH_LOOPING = "CrashLooping"  # ours
# Waiting for these is how a healthy pod begins.
BEGINNING = {"", "ContainerCreating", "PodInitializing"}
ENDED = ("Failed", "Succeeded")
MESSAGE_LENGTH = 500
STEADY = timedelta(minutes=5)  # for so long it must run again before a crash is over: a loop must not look well
LATE_SECONDS = 2.0
OVERDUE = timedelta(seconds=60)  # beyond its grace a pod is killed, and its kubelet says so within seconds


@dataclass(frozen=True)
class Crash:
    """An end of a scheduler's container of which Kubernetes tells no reason: its log may."""

    pod: Key
    uid: str
    container: str
    restarts: int


def find_failures(pods: Iterable[Pod], now: datetime) -> list[NodeFailure]:
    """The pods that do not run, or not for long enough again, by node; a pod that is going is nobody's failure."""
    found = (_find_failure(pod, now) for pod in pods if not pod.metadata.deletion_timestamp)
    return sorted((failure for failure in found if failure), key=lambda failure: (failure.node, failure.pod))


def has_trouble(pod: Pod) -> bool:
    """Whether something is wrong with a pod, or was: of all others no failure is found, however late it is."""
    containers = pod.status.container_statuses
    states = [found.state for found in pod.status.init_container_statuses]
    states += [found.state for found in containers]
    return (
        pod.status.phase == "Failed"
        or is_unschedulable(pod)
        or any(state.waiting is not None and state.waiting.reason not in BEGINNING for state in states)
        or any(found.state.ended or found.last_state.ended for found in containers)
    )


def find_crash(pod: Pod) -> Crash | None:
    """The last end of a pod's scheduler, when Kubernetes tells no reason of it.

    It is the same while the pod waits for its restart and after that: both times the container before is meant.
    """
    for status in pod.status.container_statuses:
        if _read_why(status.last_state.ended):
            continue
        if status.state.waiting and status.state.waiting.reason == LOOPING:
            return Crash(pod.metadata.key, pod.metadata.uid, status.name, status.restart_count)
        if status.state.running and status.last_state.ended:
            return Crash(pod.metadata.key, pod.metadata.uid, status.name, status.restart_count - 1)
    return None


def steady_in(pod: Pod, now: datetime) -> float | None:
    """In how many seconds a scheduler that ended before has run for long enough; None when it never did, or has."""
    left = [_steady_in(status, now) for status in pod.status.container_statuses]
    return max((seconds for seconds in left if seconds is not None), default=None)


def _steady_in(status: ContainerStatus, now: datetime) -> float | None:
    running = status.state.running
    if running is None or running.started_at is None or status.last_state.ended is None:
        return None
    left = (datetime.fromisoformat(running.started_at) + STEADY - now).total_seconds()
    return left if left > 0 else None


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
    left = overdue_in(pod, now)
    return left is not None and left < 0


def overdue_in(pod: Pod, now: datetime) -> float | None:
    """In how many seconds a pod that is going is overdue; None when it is not going."""
    due = pod.metadata.deletion_timestamp
    return None if due is None else (datetime.fromisoformat(due) + OVERDUE - now).total_seconds()


def late_in(pod: Pod, now: datetime) -> float | None:
    """In how many seconds a pod that is going should be gone; None when it is not going."""
    left = overdue_in(pod, now)
    return None if left is None else left - OVERDUE.total_seconds() + LATE_SECONDS


def is_ready(pod: Pod) -> bool:
    """Whether a pod is ready."""
    for condition in pod.status.conditions:  # asked of thousands at each look: a generator would take twice as long
        if condition.type == "Ready":
            return condition.status == "True"
    return False


def is_waiting(pod: Pod) -> bool:
    """Whether a pod waits for the kernel's slot."""
    return find_waiting(pod) is not None


def find_waiting(pod: Pod) -> StateRunning | None:
    """What runs in a pod that waits for the kernel's slot; None when it does not wait, or no longer.

    A pod of an older operator waits with a plain init container: that counts as started for as long as it runs.
    """
    held = any(found.type == INITIALIZED and found.status == "False" for found in pod.status.conditions)
    statuses = (status for status in pod.status.init_container_statuses if status.name == WAIT)
    waiting = next((status.state.running for status in statuses if held or not status.started), None)
    return None if is_running(pod) else waiting


def is_running(pod: Pod) -> bool:
    """Whether a pod's scheduler runs."""
    return any(status.state.running for status in pod.status.container_statuses)


def has_begun(pod: Pod) -> bool:
    """Whether a pod's scheduler has been started."""
    return any(
        status.state.running or status.state.terminated or status.last_state.terminated
        for status in pod.status.container_statuses
    )


def find_pull_fault(pod: Pod) -> str:
    """Why an image of a pod cannot be pulled, or nothing; registries may answer with a whole page."""
    states = [status.state for status in pod.status.init_container_statuses]
    states += [status.state for status in pod.status.container_statuses]
    for state in states:
        waiting = state.waiting
        if waiting and waiting.reason in PULL:
            return shorten(_strip_back_off(waiting), MESSAGE_LENGTH)
    return ""


def is_unschedulable(pod: Pod) -> bool:
    """Whether a pod waits for a node that does not take it."""
    return any(condition.type == "PodScheduled" and condition.status == "False" for condition in pod.status.conditions)


def _find_failure(pod: Pod, now: datetime) -> NodeFailure | None:
    described = _describe(pod, now)
    if described is None:
        return None
    reason, message = described
    message = shorten(message, MESSAGE_LENGTH)
    return NodeFailure(node=read_node(pod), pod=pod.metadata.name, reason=reason, message=message)


def _describe(pod: Pod, now: datetime) -> tuple[str, str] | None:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return "Unschedulable", condition.message or condition.reason
    if pod.status.phase == "Failed":
        return pod.status.reason or "Failed", pod.status.message or "the pod failed"
    if fault := find_pull_fault(pod):
        return "PullFailed", fault
    for status in pod.status.container_statuses:
        if described := _describe_container(status, now):
            return described
    return None


def _describe_container(status: ContainerStatus, now: datetime) -> tuple[str, str] | None:
    waiting, ended = status.state.waiting, status.state.ended or status.last_state.ended
    if (waiting and waiting.reason == LOOPING) or status.state.ended or _steady_in(status, now) is not None:
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
