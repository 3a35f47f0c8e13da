"""The objects of the cluster that the controller reads and writes, cut down to what it uses."""

import msgspec

from schedkit.sked.api.kubernetes import (
    Affinity,
    EnvironmentVariable,
    ResourceRequirements,
    Toleration,
)
from schedkit.sked.api.names import GROUP, KIND, PLURAL, VERSION
from schedkit.sked.api.types import UpdateStrategy
from schedkit.sked.kube.objects import Model, ObjectMeta
from schedkit.sked.kube.resources import Resource

SCHEDEXTS = Resource(GROUP, VERSION, PLURAL, KIND)
DAEMONSETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
EVENTS = Resource("", "v1", "events", "Event")
REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")


# The reasons of an end of which a runtime, or a kubelet, knows nothing: the container was gone when it came back.
LOST = ("Unknown", "ContainerStatusUnknown")
NOBODY = 65534
WAIT = "wait-for-slot"  # what runs before a scheduler of which the slot is to be the next
INITIALIZED = "Initialized"  # the condition of a pod whose scheduler may start


class SecurityContext(Model, frozen=True):
    """Loading a scheduler takes the capabilities that only a privileged container has everywhere."""

    privileged: bool = False


class VolumeMount(Model, frozen=True):
    """Where a volume is in the container."""

    name: str
    mount_path: str
    read_only: bool = False


class Container(Model, frozen=True):
    """The one container of a scheduler's pod."""

    name: str
    image: str
    command: tuple[str, ...] = ()  # never asked for: the image's own is run
    args: tuple[str, ...] = ()
    env: tuple[EnvironmentVariable, ...] = ()
    resources: ResourceRequirements | None = None
    volume_mounts: tuple[VolumeMount, ...] = ()
    image_pull_policy: str = ""
    security_context: SecurityContext = SecurityContext()


class ConfigMapVolume(Model, frozen=True):
    """A ConfigMap as files."""

    name: str = ""
    default_mode: int | None = None


class HostPathVolume(Model, frozen=True):
    """A path of the node."""

    path: str = ""
    type: str = ""


class Volume(Model, frozen=True):
    """What a pod can mount; one of the sources is set."""

    name: str
    config_map: ConfigMapVolume | None = None
    host_path: HostPathVolume | None = None


class RestrictedSecurity(Model, frozen=True, omit_defaults=False):
    """What Pod Security calls restricted."""

    allow_privilege_escalation: bool = False
    run_as_non_root: bool = True
    run_as_user: int = NOBODY
    read_only_root_filesystem: bool = True
    capabilities: dict[str, list[str]] = msgspec.field(default_factory=lambda: {"drop": ["ALL"]})
    seccomp_profile: dict[str, str] = msgspec.field(default_factory=lambda: {"type": "RuntimeDefault"})


class ExecAction(Model, frozen=True):
    """A command that a kubelet runs in a container."""

    command: tuple[str, ...] = ()


class StartupProbe(Model, frozen=True):
    """What must succeed before a container counts as started, and with it the containers after it start."""

    exec: ExecAction | None = None
    period_seconds: int = 0
    timeout_seconds: int = 0
    failure_threshold: int = 0


class SleepAction(Model, frozen=True):
    """What a kubelet does by itself, without anything that runs in a container."""

    seconds: int = 0


class LifecycleHandler(Model, frozen=True):
    """What is done at one moment of a container's life."""

    sleep: SleepAction | None = None


class Lifecycle(Model, frozen=True):
    """What is done before a container is told to end."""

    pre_stop: LifecycleHandler | None = None


class InitContainer(Model, frozen=True):
    """What runs before the scheduler: ours waits for the kernel's slot; of somebody else's, that there is one."""

    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    resources: ResourceRequirements | None = None
    image_pull_policy: str = ""
    security_context: RestrictedSecurity | None = None
    restart_policy: str = ""
    startup_probe: StartupProbe | None = None
    lifecycle: Lifecycle | None = None


class PullSecret(Model, frozen=True):
    """A Secret with credentials for a registry; Kubernetes takes one without a name, and looks for none then."""

    name: str = ""


class PodSpec(Model, frozen=True):
    """What of a pod's spec is ours."""

    containers: tuple[Container, ...]
    init_containers: tuple[InitContainer, ...] = ()
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    priority_class_name: str = ""
    image_pull_secrets: tuple[PullSecret, ...] = ()
    volumes: tuple[Volume, ...] = ()


class TemplateMeta(Model, frozen=True):
    """The labels of a DaemonSet's pods."""

    labels: dict[str, str] = {}


class PodTemplate(Model, frozen=True):
    """What a DaemonSet makes pods of."""

    metadata: TemplateMeta
    spec: PodSpec


class LabelSelector(Model, frozen=True):
    """The labels by which a DaemonSet selects its pods."""

    match_labels: dict[str, str] = {}


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

    @property
    def is_observed(self) -> bool:
        """Whether the DaemonSet controller has seen the newest spec."""
        return self.status.observed_generation >= self.metadata.generation


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
    started_at: str | None = None
    finished_at: str | None = None


class StateRunning(Model, frozen=True):
    """Since when a container runs."""

    started_at: str | None = None


class ContainerState(Model, frozen=True):
    """One of these is set."""

    running: StateRunning | None = None
    waiting: StateWaiting | None = None
    terminated: StateTerminated | None = None

    @property
    def ended(self) -> StateTerminated | None:
        """How it ended by itself. What a reboot or a restarted runtime took along is nobody's failure."""
        return None if self.terminated and self.terminated.reason in LOST else self.terminated


class ContainerStatus(Model, frozen=True):
    """What the kubelet tells of a container."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    image_id: str = msgspec.field(default="", name="imageID")
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class InitStatus(Model, frozen=True):
    """What the kubelet tells of a container that runs before the scheduler."""

    name: str = ""
    started: bool = False
    state: ContainerState = ContainerState()


class PodCondition(Model, frozen=True):
    """One aspect of a pod's state."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class PodStatus(Model, frozen=True):
    """What the kubelet and the scheduler of pods tell."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    init_container_statuses: tuple[InitStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class PodContainer(Model, frozen=True):
    """What of a pod's container tells which scheduler it is, and whether it can load one."""

    image: str = ""
    security_context: SecurityContext = SecurityContext()


class PodPlace(Model, frozen=True):
    """Where a pod is, or by its affinity is meant to be, and what it may do there."""

    node_name: str = ""
    affinity: Affinity = Affinity()
    containers: tuple[PodContainer, ...] = ()


class Pod(Model, frozen=True):
    """A scheduler's pod."""

    metadata: ObjectMeta
    spec: PodPlace = PodPlace()
    status: PodStatus = PodStatus()


class Taint(Model, frozen=True):
    """What keeps pods off a node that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Model, frozen=True):
    """What an administrator or a controller says of a node."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeCondition(Model, frozen=True):
    """One aspect of a node's state, without the time of its heartbeat."""

    type: str
    status: str


class NodeInfo(Model, frozen=True):
    """What a kubelet found when it started."""

    boot_id: str = msgspec.field(default="", name="bootID")


class NodeStatus(Model, frozen=True):
    """What the kubelet says of a node."""

    conditions: tuple[NodeCondition, ...] = ()
    node_info: NodeInfo = NodeInfo()


class Node(Model, frozen=True):
    """A node, of which only this matters here: heartbeats change nothing that is decoded."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def is_ready(self) -> bool:
        """Whether its kubelet says that it is well; where it never said anything, it is not."""
        for condition in self.status.conditions:  # asked of thousands at each look
            if condition.type == "Ready":
                return condition.status == "True"
        return False


class Namespace(Model, frozen=True):
    """A namespace, of which only the labels matter."""

    metadata: ObjectMeta


class InvolvedObject(Model, frozen=True):
    """What an Event is about."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class FailedCreateSeries(Model, frozen=True):
    """An Event that came more than once."""

    last_observed_time: str | None = None


class FailedCreate(Model, frozen=True):
    """Why a controller could not do something."""

    metadata: ObjectMeta
    involved_object: InvolvedObject = InvolvedObject()
    message: str = ""
    last_timestamp: str | None = None
    event_time: str | None = None
    series: FailedCreateSeries | None = None

    @property
    def time(self) -> str:
        """When it came last."""
        series = self.series.last_observed_time if self.series else None
        return series or self.last_timestamp or self.event_time or self.metadata.creation_timestamp or ""


class RevisionSpec(Model, frozen=True):
    """What of a DaemonSet's spec makes a revision."""

    template: PodTemplate


class RevisionData(Model, frozen=True):
    """A patch that makes a DaemonSet what it was."""

    spec: RevisionSpec


class ControllerRevision(Model, frozen=True):
    """A pod template that a DaemonSet has, or had."""

    metadata: ObjectMeta
    data: RevisionData
