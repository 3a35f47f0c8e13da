"""The conditions of sked's kinds, and every reason that they give: programs match on them, the reference explains."""

from enum import StrEnum
from typing import Self

READY = "Ready"
RECONCILING = "Reconciling"
STALLED = "Stalled"
PROGRESSING = "Progressing"
DEGRADED = "Degraded"
CONFLICTED = "Conflicted"
SUSPENDED = "Suspended"
ATTACHED = "Attached"
VERIFIED = "Verified"  # only where the operator verifies images
CONDITIONS = {
    READY: "Every node that can be judged runs what the spec asks for.",
    ATTACHED: "The kernel of every node has attached the scheduler; Unknown if nodes do not report.",
    RECONCILING: "The operator or the cluster is still working on it (kstatus).",
    STALLED: "It cannot continue until someone changes something (kstatus).",
    PROGRESSING: "Pods are being created, replaced or removed, or sked waits for pods.",
    DEGRADED: "The scheduler fails on some node, or the operator could not do its work.",
    CONFLICTED: "The resource yields nodes that it selects to others.",
    SUSPENDED: "The resource is suspended: its schedulers are removed from the nodes.",
    VERIFIED: "The images are signed as the administrator's trust policy requires; only if sked verifies images.",
}
CONDITION_TYPES = tuple(CONDITIONS)

# Of a SchedExtNode.
FIT = "Fit"
NODE_CONDITIONS = {
    FIT: "The node's kernel can run schedulers.",
    ATTACHED: "A scheduler is attached to the node's kernel.",
}


class ConditionReason(StrEnum):
    """A word that programs match on, and the sentence that explains it."""

    about: str

    def __new__(cls, value: str, about: str) -> Self:
        reason = str.__new__(cls, value)
        reason._value_ = value
        reason.about = about
        return reason


class NodeReason(ConditionReason):
    """Why a condition of a node's report is as it is."""

    # Fit
    KERNEL_FIT = "KernelFit", "Nothing was found that keeps schedulers from running."
    KERNEL_LIMITED = "KernelLimited", "Some schedulers cannot run on this kernel; see status.kernel.problems."
    KERNEL_UNFIT = "KernelUnfit", "No scheduler can run on this kernel; see status.kernel.problems."
    NOT_EXAMINED = "NotExamined", "Something that every scheduler needs could not be checked."

    # Attached
    SCHEDULER_ATTACHED = "SchedulerAttached", "A scheduler is attached."
    ATTACHING = "Attaching", "A scheduler is being attached."
    DETACHING = "Detaching", "A scheduler is being detached."
    SLOT_FREE = "SlotFree", "No scheduler is attached."
    NO_SCHED_EXT = "NoSchedExt", "The kernel has no sched_ext."
    STATE_UNKNOWN = "StateUnknown", "The kernel's state could not be read."


class Reason(ConditionReason):
    """Why a condition is as it is. Failures of pods have the reasons of Kubernetes besides."""

    # Ready
    READY = "Ready", "Every node that can be judged runs the scheduler's newest pod, and its kernel attached it."
    NO_NODES = "NoNodes", "No node of the cluster is selected."
    PROGRESSING = "Progressing", "Some nodes do not run the newest pod yet, or it is not ready."
    CONFLICTED = "Conflicted", "Every selected node belongs to another resource, or is reserved."
    SUSPENDED = "Suspended", "The resource is suspended and its schedulers are gone."
    SUSPENDING = "Suspending", "The resource is suspended and some of its pods are still on their nodes."

    # Attached, and of nodes in status.failures
    ATTACHED = "Attached", "The kernel of every node has attached the scheduler."
    ATTACHING = "Attaching", "Some kernels have not attached the scheduler yet; it has 30 seconds after its start."
    DETACHED = "Detached", "The scheduler's pod runs, but the kernel has attached nothing for more than 30 seconds."
    FOREIGN_SCHEDULER = "ForeignScheduler", "The kernel has attached a scheduler that sked did not start there."
    EJECTED = (
        "Ejected",
        (
            "The scheduler was attached and left without being stopped: the kernel ejected it, or it ended; "
            "this lasts until it has run for five minutes."
        ),
    )
    UNFIT = "Unfit", "The kernel cannot run the scheduler; the message names the failed check of schedctl doctor."
    NO_AGENTS = "NoAgents", "No agent runs in the cluster, so the state of the kernels is unknown."
    NOT_REPORTED = "NotReported", "The agents of some nodes do not run, or have not reported."

    # Progressing, Reconciling
    ROLLING_OUT = "RollingOut", "Pods are being created or replaced."
    WAITING_FOR_NODES = (
        "WaitingForNodes",
        "Another scheduler's pod has not left a node yet, or a node's label is not set yet.",
    )
    PAUSED = "Paused", "The rollout waits: for a person, for the end of its pause, or because spec.paused is true."
    ROLLING_BACK = "RollingBack", "The new revision failed, and the nodes that have it get the stable one again."
    REMOVING = "Removing", "Pods that are no longer needed are still on their nodes."
    SETTLED = "Settled", "The spec has been carried out."

    # Degraded, Stalled
    NO_FAILURES = "NoFailures", "The scheduler fails on no node."
    SEVERAL_FAILURES = (
        "SeveralFailures",
        "The scheduler fails on several nodes for different reasons; see status.failures.",
    )
    MODIFIED_BY_OTHERS = (
        "ModifiedByOthers",
        "Someone else added fields to the DaemonSet, so its pods differ from the resource.",
    )
    FOREIGN_DAEMON_SET = "ForeignDaemonSet", "A DaemonSet with the required name was not created by sked."
    FAILED_CREATE = "FailedCreate", "Kubernetes refuses to create the pods: Pod Security, a quota or a webhook."
    CRASH_LOOPING = "CrashLooping", "The scheduler ends repeatedly; this lasts until it has run for five minutes."
    PULL_FAILED = "PullFailed", "A node cannot pull the image."
    UNSCHEDULABLE = "Unschedulable", "A node lacks resources for the pod, or does not accept it."
    NOT_WRITABLE = "NodesNotWritable", "Several resources want a node, and sked may not label nodes."
    UNREADABLE = "Unreadable", "The stored spec is invalid; running schedulers are not changed."
    INVALID_SELECTOR = "InvalidSelector", "The stored selector is one that Kubernetes refuses."
    FORBIDDEN = "Forbidden", "The operator lacks a permission that it needs."
    INVALID = "Invalid", "The API server refuses the DaemonSet."
    REFUSED = "ApiServerRefused", "The API server refuses a request for another reason."
    ROLLED_BACK = (
        "RolledBack",
        "The new revision failed and the stable one is back; nothing happens until spec changes.",
    )
    ROLLOUT_FAILED = "RolloutFailed", "The new revision failed, and the rollout waits for a person."
    NOT_ATTACHED_IN_TIME = "NotAttachedInTime", "The kernel has not attached the new revision in time."
    QUARANTINED = "Quarantined", "Its kernel ejected the scheduler too often, so the node is left without one."
    NOT_STALLED = "NotStalled", "Nothing keeps the operator from continuing."

    # Conflicted
    YIELDS = "Yields", "Resources that rank higher have some of the selected nodes."
    RESERVED = "Reserved", "An administrator reserved some of the selected nodes by their slot label."
    UNDECIDED = "Undecided", "Several resources select some nodes, and sked may not label nodes to decide."
    NO_OVERLAP = "NoOverlap", "No other resource has nodes that this one selects."

    # Suspended
    ASKED = "Asked", "spec.suspend is true."
    NOT_ASKED = "NotAsked", "spec.suspend is not true."

    # Verified; those of `schedctl verify`
    VERIFIED = "Verified", "Every image is signed by someone whom the policy trusts."
    VERIFYING = "Verifying", "An image is being looked up and verified."
    UNSIGNED = "Unsigned", "The image is not signed."
    UNTRUSTED = "Untrusted", "It is signed by others than the policy trusts, or the policy has no rule for it."
    EXPIRED = "Expired", "A certificate was not valid when the image was signed."
    NO_LOG_ENTRY = "NoLogEntry", "No trusted transparency log has the signature."
    BAD_SIGNATURE = "BadSignature", "The signature is broken, or belongs to another image."
    UNSAFE_OVERRIDE = "UnsafeOverride", "env or configFrom could make the image run other code."
    BAD_POLICY = "BadPolicy", "The administrator's trust policy cannot be read; no new image is used."
    UNAVAILABLE = "Unavailable", "The registry is unreachable, refuses the request, or has an internal error."
    NO_ANSWER = "NoAnswer", "The registry does not respond in time."
    NO_PERMISSION = "NoPermission", "The registry requires credentials, or refuses those that sked has."
    NOT_FOUND = "NotFound", "The registry has no such image."
    BAD_DATA = "BadData", "The registry's response is invalid."
    USAGE = "Usage", "The text is not an image reference."
    INTERNAL = "Internal", "The verification failed unexpectedly."
