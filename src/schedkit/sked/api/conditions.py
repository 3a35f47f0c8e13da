"""The conditions of a SchedExt, and every reason that they give: what programs match on and the reference explains."""

from enum import StrEnum

READY = "Ready"
RECONCILING = "Reconciling"
STALLED = "Stalled"
PROGRESSING = "Progressing"
DEGRADED = "Degraded"
CONFLICTED = "Conflicted"
SUSPENDED = "Suspended"
CONDITIONS = {
    READY: "Every node that can be judged runs what was asked for.",
    RECONCILING: "The operator or the cluster is still on its way there (kstatus).",
    STALLED: "It cannot get there until somebody changes something (kstatus).",
    PROGRESSING: "Pods are still being created, replaced, removed or waited for.",
    DEGRADED: "The scheduler fails on some node, or the operator could not do its part.",
    CONFLICTED: "The resource yields nodes that it selects to others.",
    SUSPENDED: "The resource is suspended: its schedulers are taken off the nodes.",
}
CONDITION_TYPES = tuple(CONDITIONS)


class Reason(StrEnum):
    """Why a condition is as it is. Failures of pods have the reasons of Kubernetes besides."""

    about: str

    def __new__(cls, value: str, about: str) -> "Reason":
        reason = str.__new__(cls, value)
        reason._value_ = value
        reason.about = about
        return reason

    # Ready
    READY = "Ready", "Every node that can be judged runs the scheduler's newest pod, and it is ready."
    NO_NODES = "NoNodes", "No node of the cluster is selected."
    PROGRESSING = "Progressing", "Some nodes do not run the newest pod yet, or it is not ready."
    CONFLICTED = "Conflicted", "Every selected node belongs to another resource, or is reserved."
    SUSPENDED = "Suspended", "The resource is suspended and its schedulers are gone."
    SUSPENDING = "Suspending", "The resource is suspended and some of its pods are still on their nodes."

    # Progressing, Reconciling
    ROLLING_OUT = "RollingOut", "Pods are being created or replaced."
    WAITING_FOR_NODES = (
        "WaitingForNodes",
        "Another scheduler's pod has yet to leave a node, or a node's label to be set.",
    )
    REMOVING = "Removing", "Pods that are no longer wanted are still on their nodes."
    SETTLED = "Settled", "Everything asked for has been carried out."

    # Degraded, Stalled
    NO_FAILURES = "NoFailures", "The scheduler fails on no node."
    SEVERAL_FAILURES = (
        "SeveralFailures",
        "The scheduler fails on several nodes for different reasons; see status.failures.",
    )
    MODIFIED_BY_OTHERS = (
        "ModifiedByOthers",
        "Somebody else added fields to the DaemonSet, so that it runs something else.",
    )
    FOREIGN_DAEMON_SET = "ForeignDaemonSet", "A DaemonSet of the name that is needed belongs to somebody else."
    FAILED_CREATE = "FailedCreate", "Kubernetes refuses to create the pods: Pod Security, a quota or a webhook."
    CRASH_LOOPING = "CrashLooping", "The scheduler ends again and again; it counts until it has run for five minutes."
    PULL_FAILED = "PullFailed", "A node cannot pull the image."
    UNSCHEDULABLE = "Unschedulable", "A node has no room for the pod, or does not accept it."
    NOT_WRITABLE = "NodesNotWritable", "Several resources want a node, and sked may not label nodes."
    UNREADABLE = "Unreadable", "The stored spec does not fit its definition; what runs is left as it is."
    INVALID_SELECTOR = "InvalidSelector", "The stored selector is one that Kubernetes refuses."
    FORBIDDEN = "Forbidden", "The operator lacks a right that it needs."
    INVALID = "Invalid", "The API server refuses the DaemonSet."
    REFUSED = "ApiServerRefused", "The API server refuses a request for another reason."
    NOT_STALLED = "NotStalled", "Nothing keeps the operator from going on."

    # Conflicted
    YIELDS = "Yields", "Resources that come first have some of the selected nodes."
    RESERVED = "Reserved", "An administrator reserved some of the selected nodes by their slot label."
    UNDECIDED = "Undecided", "Several resources select some nodes, and sked may not label nodes to decide."
    NO_OVERLAP = "NoOverlap", "No other resource has nodes that this one selects."

    # Suspended
    ASKED = "Asked", "spec.suspend is true."
    NOT_ASKED = "NotAsked", "spec.suspend is not true."
