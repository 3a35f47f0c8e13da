"""The reports of nodes and the pods of their agents, cut down to what judging takes."""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from schedkit.sked.api.names import GROUP, NODE_KIND, NODE_PLURAL, VERSION
from schedkit.sked.controller.objects import PodCondition, PullSecret
from schedkit.sked.kube.objects import Applied, Model, ObjectMeta
from schedkit.sked.kube.resources import Resource

REPORTS = Resource(GROUP, VERSION, NODE_PLURAL, NODE_KIND, namespaced=False)
AGENT_LABELS = "app.kubernetes.io/name=sked,app.kubernetes.io/component=agent"
READY = "ready"  # the index of agents
ENABLED, DISABLED, UNSUPPORTED, UNKNOWN = "enabled", "disabled", "unsupported", "unknown"  # states of a slot
CHANGING = ("enabling", "disabling")
NO = "False"
ERROR, WARNING = "error", "warning"


class ReportedProblem(Model, frozen=True):
    """Something that keeps schedulers from running, or may keep some."""

    check: str = ""
    severity: str = ""
    message: str = ""


class ReportedKernel(Model, frozen=True):
    """Which boot it is, and whether the kernel can run schedulers."""

    boot_id: str = msgspec.field(default="", name="bootID")
    supported: str = ""
    problems: tuple[ReportedProblem, ...] = ()


class ReportedSlot(Model, frozen=True):
    """What is attached."""

    state: str = UNKNOWN
    ops: str = ""
    enable_seq: int | None = None
    since: str | None = None
    message: str = ""
    gap_milliseconds: int | None = None


class ReportedDetachment(Model, frozen=True):
    """What left last."""

    ops: str = ""
    time: str | None = None
    enable_seq: int | None = None
    reason: str = ""


class QuarantineNote(Model, frozen=True):
    """Why a node is left without a scheduler."""

    sched_ext: str = ""
    revision: str = ""  # what was ejected; empty: whatever there is
    since: str = ""
    until: str | None = None
    reason: str = ""


class Ejections(Model, frozen=True):
    """What counts towards a node's quarantine; by the node's clock, as its agent told it."""

    sched_ext: str = ""
    revision: str = ""
    last: str = ""  # the one that was counted last, also when all were counted out
    times: tuple[str, ...] = ()


NO_KERNEL, NO_SLOT = ReportedKernel(), ReportedSlot()


class ReportStatus(Model, frozen=True):
    """What an agent saw, and what the operator added."""

    kernel: ReportedKernel = NO_KERNEL
    slot: ReportedSlot = NO_SLOT
    last_detach: ReportedDetachment | None = None
    sched_ext: str = ""
    quarantine: QuarantineNote | None = None
    ejections: Ejections | None = None


class NodeReport(Model, frozen=True):
    """A SchedExtNode."""

    metadata: ObjectMeta
    status: ReportStatus = ReportStatus()

    @property
    def is_unfit(self) -> bool:
        """Whether the kernel can run no scheduler at all."""
        return self.status.kernel.supported == NO or self.status.slot.state == UNSUPPORTED

    @property
    def is_held(self) -> bool:
        """Whether something is in the slot, or on its way in or out."""
        return self.status.slot.state in (ENABLED, *CHANGING)


class AgentContainer(Model, frozen=True):
    """What an agent is made of."""

    image: str = ""


class AgentPlace(Model, frozen=True):
    """Where an agent runs, and of what image."""

    node_name: str = ""
    containers: tuple[AgentContainer, ...] = ()
    image_pull_secrets: tuple[PullSecret, ...] = ()


class AgentStatus(Model, frozen=True):
    """Whether an agent is well."""

    conditions: tuple[PodCondition, ...] = ()


class AgentPod(Model, frozen=True):
    """An agent's pod, which is ready while the agent can look at its kernel and tell what it sees."""

    metadata: ObjectMeta
    spec: AgentPlace = AgentPlace()
    status: AgentStatus = AgentStatus()

    @property
    def is_ready(self) -> bool:
        return bool(self.status.conditions)

    @property
    def public_image(self) -> str:
        """The image that its node has, and that every namespace may use; empty: it takes credentials."""
        return "" if self.spec.image_pull_secrets or not self.spec.containers else self.spec.containers[0].image


class AppliedHolder(Applied, frozen=True):
    """What the operator adds to a report."""

    status: "HolderStatus"


class HolderStatus(Model, frozen=True):
    """The resource that has the node, why nobody may, and what was counted; nothing is sent of what there is not."""

    sched_ext: str = ""
    quarantine: QuarantineNote | None = None
    ejections: Ejections | None = None


def same_sight(old: NodeReport, new: NodeReport) -> bool:
    """Whether two versions of a report differ in nothing that an agent saw."""
    return _without_ours(old.status) == _without_ours(new.status)


def _without_ours(status: ReportStatus) -> ReportStatus:
    return replace(status, sched_ext="", quarantine=None, ejections=None)


def trim_report(report: NodeReport) -> NodeReport:
    """A report without what nobody here reads: thousands are kept."""
    kernel = report.status.kernel
    problems = tuple(problem for problem in kernel.problems if problem.severity in (ERROR, WARNING))
    status = replace(report.status, kernel=replace(kernel, problems=problems))
    return replace(report, metadata=_trim(report.metadata), status=status)


def trim_agent(pod: AgentPod) -> AgentPod:
    """An agent's pod without all but where it is, and whether it is ready."""
    ready = tuple(
        PodCondition(condition.type, condition.status)
        for condition in pod.status.conditions
        if condition.type == "Ready" and condition.status == "True"
    )
    return replace(pod, metadata=_trim(pod.metadata), status=AgentStatus(ready))


def by_ready_node(pod: AgentPod) -> Iterable[str]:
    """An index function: where an agent runs that is ready."""
    return (pod.spec.node_name,) if pod.is_ready and pod.spec.node_name else ()


def _trim(metadata: ObjectMeta) -> ObjectMeta:
    return ObjectMeta(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )
