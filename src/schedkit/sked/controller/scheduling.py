"""Whether a node may run a pod, judged as the DaemonSet controller judges it: labels, name, taints, tolerations."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from schedkit.sked.api.kubernetes import Toleration
from schedkit.sked.api.selectors import Selector
from schedkit.sked.controller.objects import Node, Taint

NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"
_PREFIX = "node.kubernetes.io/"
# What the DaemonSet controller adds to the tolerations of every pod that it makes.
DAEMON_TOLERATIONS = (
    Toleration(key=f"{_PREFIX}not-ready", operator="Exists", effect=NO_EXECUTE),
    Toleration(key=f"{_PREFIX}unreachable", operator="Exists", effect=NO_EXECUTE),
    Toleration(key=f"{_PREFIX}disk-pressure", operator="Exists", effect=NO_SCHEDULE),
    Toleration(key=f"{_PREFIX}memory-pressure", operator="Exists", effect=NO_SCHEDULE),
    Toleration(key=f"{_PREFIX}pid-pressure", operator="Exists", effect=NO_SCHEDULE),
    Toleration(key=f"{_PREFIX}unschedulable", operator="Exists", effect=NO_SCHEDULE),
)
# Taints that come and go with a node's health. A decision that followed them would move schedulers about whenever a
# kubelet is late.
PASSING = frozenset(
    f"{_PREFIX}{name}"
    for name in (
        "not-ready",
        "unreachable",
        "disk-pressure",
        "memory-pressure",
        "pid-pressure",
        "unschedulable",
        "network-unavailable",
    )
) | {"node.cloudprovider.kubernetes.io/uninitialized", "node.cloudprovider.kubernetes.io/shutdown"}


class Fit(NamedTuple):
    """What the DaemonSet controller does about a node: start a pod there, and leave one that runs there alone."""

    starts: bool
    stays: bool


def judge_node(selector: Selector, tolerations: Sequence[Toleration], node: Node) -> Fit:
    """Whether a DaemonSet's pod would be started on a node as it is now, and whether one there would stay."""
    if not selector.matches(node.metadata.labels, node.metadata.name):
        return Fit(False, False)
    all_tolerations = (*tolerations, *DAEMON_TOLERATIONS)
    starts = tolerates_all(all_tolerations, node.spec.taints, (NO_SCHEDULE, NO_EXECUTE))
    return Fit(starts, starts or tolerates_all(all_tolerations, node.spec.taints, (NO_EXECUTE,)))


def could_run(selector: Selector, tolerations: Sequence[Toleration], node: Node) -> bool:
    """Whether a node is one for these pods, whatever its health is at the moment."""
    if not selector.matches(node.metadata.labels, node.metadata.name):
        return False
    lasting = [taint for taint in node.spec.taints if taint.key not in PASSING]
    return not lasting or tolerates_all((*tolerations, *DAEMON_TOLERATIONS), lasting, (NO_SCHEDULE, NO_EXECUTE))


def tolerates_all(tolerations: Sequence[Toleration], taints: Iterable[Taint], effects: Sequence[str]) -> bool:
    """Whether every taint with one of these effects is tolerated."""
    return all(
        any(_tolerates(toleration, taint) for toleration in tolerations) for taint in taints if taint.effect in effects
    )


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    # An absent operator means Equal. An empty key is allowed with Exists only, and matches nothing otherwise.
    return bool(toleration.key) and (toleration.value or "") == taint.value
