"""The objects of the cluster that the controller reads and writes, cut down to what it uses."""

from schedkit.sked.api.kubernetes import (
    Affinity,
    EnvironmentVariable,
    LocalObjectReference,
    ResourceRequirements,
    Toleration,
)
from schedkit.sked.api.types import GROUP, KIND, PLURAL, VERSION, SchedExtSpec, SchedExtStatus
from schedkit.sked.kube.objects import Model, ObjectMeta
from schedkit.sked.kube.resources import Resource

SCHEDEXTS = Resource(GROUP, VERSION, PLURAL, KIND)
DAEMONSETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)


class SchedExt(Model, frozen=True):
    """A SchedExt as the cluster has it."""

    metadata: ObjectMeta
    spec: SchedExtSpec
    status: SchedExtStatus = SchedExtStatus()


class SecurityContext(Model, frozen=True):
    """Loading a scheduler takes the capabilities that only a privileged container has everywhere."""

    privileged: bool = False


class Container(Model, frozen=True):
    """The one container of a scheduler's pod."""

    name: str
    image: str
    args: tuple[str, ...] = ()
    env: tuple[EnvironmentVariable, ...] = ()
    resources: ResourceRequirements | None = None
    image_pull_policy: str = ""
    security_context: SecurityContext = SecurityContext()


class PodSpec(Model, frozen=True):
    """What of a pod's spec is ours."""

    containers: tuple[Container, ...]
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    priority_class_name: str = ""
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()


class TemplateMeta(Model, frozen=True):
    """The labels of a DaemonSet's pods."""

    labels: dict[str, str]


class PodTemplate(Model, frozen=True):
    """What a DaemonSet makes pods of."""

    metadata: TemplateMeta
    spec: PodSpec


class LabelSelector(Model, frozen=True):
    """By which labels a DaemonSet knows its pods."""

    match_labels: dict[str, str] = {}


class RollingUpdate(Model, frozen=True):
    """How many nodes may be without scheduler at a time during an update."""

    max_unavailable: int | str | None = None


class UpdateStrategy(Model, frozen=True):
    """How a change reaches the nodes."""

    type: str = ""
    rolling_update: RollingUpdate | None = None


class DaemonSetSpec(Model, frozen=True):
    """What of a DaemonSet's spec is ours."""

    selector: LabelSelector
    template: PodTemplate
    update_strategy: UpdateStrategy | None = None


class DaemonSetStatus(Model, frozen=True):
    """What the DaemonSet controller counted."""

    observed_generation: int = 0
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    number_ready: int = 0
    updated_number_scheduled: int = 0
    number_unavailable: int = 0
    number_misscheduled: int = 0


class DaemonSet(Model, frozen=True):
    """A DaemonSet, wanted or seen."""

    metadata: ObjectMeta
    spec: DaemonSetSpec
    status: DaemonSetStatus = DaemonSetStatus()


class StateWaiting(Model, frozen=True):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class StateTerminated(Model, frozen=True):
    """How a container ended."""

    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""


class ContainerState(Model, frozen=True):
    """One of these is set."""

    waiting: StateWaiting | None = None
    terminated: StateTerminated | None = None


class ContainerStatus(Model, frozen=True):
    """What the kubelet tells of a container."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodCondition(Model, frozen=True):
    """One aspect of a pod's state."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class PodStatus(Model, frozen=True):
    """What the kubelet and the scheduler of pods tell."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class PodPlace(Model, frozen=True):
    """Where a pod is, or by its affinity is meant to be."""

    node_name: str = ""
    affinity: Affinity = Affinity()


class Pod(Model, frozen=True):
    """A scheduler's pod."""

    metadata: ObjectMeta
    spec: PodPlace = PodPlace()
    status: PodStatus = PodStatus()


class Node(Model, frozen=True):
    """A node, of which only the labels matter here: heartbeats change nothing that is decoded."""

    metadata: ObjectMeta
