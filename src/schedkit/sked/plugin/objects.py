"""The objects of a cluster as people want to see them, cut down to what is shown."""

import msgspec

from schedkit.sked.api.kubernetes import NODE_NAME_FIELD, Affinity
from schedkit.sked.api.names import GROUP, KIND, NODE_KIND, NODE_PLURAL, PLURAL, VERSION
from schedkit.sked.api.node_types import NodeQuarantine
from schedkit.sked.api.requests import NONE, QUARANTINE, SLOT
from schedkit.sked.kube.objects import Model, ObjectMeta
from schedkit.sked.kube.resources import Resource

SCHEDEXTS = Resource(GROUP, VERSION, PLURAL, KIND)
REPORTS = Resource(GROUP, VERSION, NODE_PLURAL, NODE_KIND, namespaced=False)
DAEMONSETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
AGENT_LABELS = "app.kubernetes.io/name=sked,app.kubernetes.io/component=agent"
POD_LABELS = "managed-by=sked-controller"
REASON_LENGTH = 200


class _Aspect(Model, frozen=True):
    """One condition of a node or a pod."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class _NodeSpec(Model, frozen=True):
    unschedulable: bool = False


class _NodeInfo(Model, frozen=True):
    kernel_version: str = ""


class _NodeStatus(Model, frozen=True):
    conditions: tuple[_Aspect, ...] = ()
    node_info: _NodeInfo = _NodeInfo()


class ClusterNode(Model, frozen=True):
    """A node: whether it is well, and what is said of its slot."""

    metadata: ObjectMeta
    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()

    @property
    def not_ready(self) -> str:
        """Why it is not ready, or nothing when it is."""
        for condition in self.status.conditions:
            if condition.type == "Ready":
                why = condition.message or condition.reason or "its kubelet says no more"
                return "" if condition.status == "True" else why
        return "its kubelet has not said anything"

    @property
    def slot(self) -> str:
        """What the label says; empty where there is none."""
        value = self.metadata.labels.get(SLOT)
        return NONE if value == "" else value or ""

    @property
    def slot_is_ours(self) -> bool:
        """Whether sked wrote the label, and not a person."""
        return self.slot == self.metadata.annotations.get(SLOT, "")

    @property
    def quarantine(self) -> NodeQuarantine | None:
        """Why sked keeps it without a scheduler."""
        text = self.metadata.annotations.get(QUARANTINE)
        if text is None:
            return None
        try:
            return msgspec.json.decode(text, type=NodeQuarantine)
        except msgspec.DecodeError:  # a person wrote it
            return NodeQuarantine(sched_ext="", since="", reason=text[:REASON_LENGTH])


class _Ended(Model, frozen=True):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    finished_at: str | None = None


class _Waiting(Model, frozen=True):
    reason: str = ""
    message: str = ""


class _Running(Model, frozen=True):
    started_at: str | None = None


class _State(Model, frozen=True):
    running: _Running | None = None
    waiting: _Waiting | None = None
    terminated: _Ended | None = None


class _PodContainerStatus(Model, frozen=True):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: _State = _State()
    last_state: _State = _State()


class _Container(Model, frozen=True):
    image: str = ""
    args: tuple[str, ...] = ()


class _PodSpec(Model, frozen=True):
    node_name: str = ""
    affinity: Affinity | None = None
    containers: tuple[_Container, ...] = ()


class _PodStatus(Model, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[_Aspect, ...] = ()
    container_statuses: tuple[_PodContainerStatus, ...] = ()


class ScheduledPod(Model, frozen=True):
    """The pod of a scheduler, or of an agent."""

    metadata: ObjectMeta
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()

    @property
    def is_ready(self) -> bool:
        return any(condition.type == "Ready" and condition.status == "True" for condition in self.status.conditions)

    @property
    def node(self) -> str:
        """The node it runs on; of one that waits for a place, the node its DaemonSet made it for."""
        affinity = self.spec.affinity.node_affinity if self.spec.affinity else None
        required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
        meant = (
            requirement.values[0]
            for term in (required.node_selector_terms if required else ())
            for requirement in term.match_fields
            if requirement.key == NODE_NAME_FIELD and len(requirement.values) == 1
        )
        return self.spec.node_name or next(meant, "")

    @property
    def daemonset(self) -> str:
        """The name of the DaemonSet that made it."""
        owner = self.metadata.controller
        return owner.name if owner and owner.kind == "DaemonSet" else ""


class _Template(Model, frozen=True):
    spec: _PodSpec = _PodSpec()


class _DaemonSetSpec(Model, frozen=True):
    template: _Template = _Template()


class _DaemonSetStatus(Model, frozen=True):
    current_number_scheduled: int = 0
    number_ready: int = 0


class RevisionSet(Model, frozen=True):
    """A DaemonSet that is, or was, a revision."""

    metadata: ObjectMeta
    spec: _DaemonSetSpec = _DaemonSetSpec()
    status: _DaemonSetStatus = _DaemonSetStatus()

    @property
    def container(self) -> _Container:
        containers = self.spec.template.spec.containers
        return containers[0] if containers else _Container()
