"""The SchedExt resource: what a user asks for, and what the operator reports."""

from typing import Annotated

from schedkit.sked.api import container_rules, rollout_rules, rules
from schedkit.sked.api.about import about
from schedkit.sked.api.conditions import CONDITION_TYPES
from schedkit.sked.api.kubernetes import (
    Affinity,
    Condition,
    ConfigSource,
    EnvironmentVariable,
    Image,
    LabelValue,
    LocalObjectReference,
    ObjectName,
    ResourceRequirements,
    SpecModel,
    Toleration,
)
from schedkit.sked.api.names import API_VERSION, KIND
from schedkit.sked.api.rollout_types import PHASES, Quarantine, Rollout, RolloutStatus
from schedkit.sked.kube.objects import ObjectMeta

POOLS = 16
WINNERS_TOLD = 10
FAILURES_TOLD = 10  # status.failures holds no more than these; status.failureCount counts them all

ROLLING_UPDATE = "RollingUpdate"
ON_DELETE = "OnDelete"


class Workload(SpecModel, frozen=True, kw_only=True):
    """The scheduler of a resource or pool, and the nodes that it runs on."""

    sched: Annotated[Image | None, about("The scheduler's image.")] = None
    args: Annotated[
        tuple[Annotated[str, about("", maxLength=4096)], ...] | None,
        about("Arguments of the scheduler, given to the image's entrypoint.", list_type="atomic", maxItems=64),
    ] = None
    env: Annotated[
        tuple[EnvironmentVariable, ...] | None,
        about(
            "Environment variables of the scheduler.",
            container_rules.ENVIRONMENT_NAMES,
            list_key="name",
            maxItems=64,
        ),
    ] = None
    config_from: Annotated[
        ConfigSource | None, about("A ConfigMap that the scheduler reads as files, for example its configuration.")
    ] = None
    host_stats: Annotated[
        bool | None,
        about("Mount the host's /var/run/scx, where schedulers serve statistics; absent means false."),
    ] = None
    resources: Annotated[
        ResourceRequirements | None, about("Resource requests and limits of the scheduler's container.")
    ] = None
    node_selector: Annotated[
        dict[str, LabelValue] | None,
        about(
            "Labels that a node must have to be selected; absent selects every node.",
            rules.LABEL_KEYS,
            map_type="atomic",
            maxProperties=16,
        ),
    ] = None
    affinity: Annotated[
        Affinity | None, about("Conditions that a node must meet to be selected, in addition to nodeSelector.")
    ] = None
    tolerations: Annotated[
        tuple[Toleration, ...] | None,
        about("Taints of nodes that the scheduler tolerates.", list_type="atomic", maxItems=32),
    ] = None
    rollout: Annotated[
        Rollout | None,
        about(
            "Steps in which a new revision reaches the nodes, with rollback if kernels eject it; "
            "absent: updateStrategy applies."
        ),
    ] = None


class Pool(Workload, frozen=True, kw_only=True):
    """Nodes with their own scheduler or settings; absent fields are taken from the resource."""

    RULES = (rules.POOL_SELECTS,)

    name: Annotated[
        str, about("The pool's name; its DaemonSet is called <resource>-<pool>.", rules.POOL_NAME, maxLength=63)
    ]


class RollingUpdate(SpecModel, frozen=True, kw_only=True):
    """How many nodes are updated at the same time."""

    RULES = (rules.NO_SURGE,)

    max_unavailable: Annotated[
        int | str | None,
        about(
            "How many nodes, or which percentage, may be without the scheduler at the same time; absent means 1.",
            rules.MAX_UNAVAILABLE,
            maxLength=8,
        ),
    ] = None
    max_surge: Annotated[
        int | str | None,
        about("Refused: a kernel has one slot for a scheduler, so two pods cannot overlap on a node.", maxLength=8),
    ] = None


class UpdateStrategy(SpecModel, frozen=True, kw_only=True):
    """How a change reaches the nodes."""

    RULES = (rules.ROLLING_ONLY,)

    type: Annotated[
        str | None,
        about(
            "RollingUpdate replaces the scheduler node by node, OnDelete only when its pod is deleted; "
            "absent means RollingUpdate.",
            enum=[ROLLING_UPDATE, ON_DELETE],
        ),
    ] = None
    rolling_update: Annotated[RollingUpdate | None, about("Settings of a RollingUpdate.")] = None


class SchedExtSpec(Workload, frozen=True, kw_only=True):
    """The desired state: which scheduler runs on which nodes."""

    RULES = (rules.HAS_IMAGE, rollout_rules.ONE_PACE)

    priority_class_name: Annotated[ObjectName | None, about("The PriorityClass of the scheduler's pods.")] = None
    image_pull_policy: Annotated[
        str | None,
        about(
            "When nodes pull the image; absent means Always for the tag latest, else IfNotPresent.",
            enum=["Always", "IfNotPresent", "Never"],
        ),
    ] = None
    image_pull_secrets: Annotated[
        tuple[LocalObjectReference, ...],
        about("Secrets of the namespace with credentials for registries.", list_key="name", maxItems=16),
    ] = ()
    update_strategy: Annotated[UpdateStrategy | None, about("How a change reaches the nodes.")] = None
    priority: Annotated[
        int,
        about(
            "If two resources select a node, the one with the higher priority gets it; absent means 0.",
            format="int32",
            minimum=-(2**31),
            maximum=2**31 - 1,
        ),
    ] = 0
    skip_unfit_nodes: Annotated[
        bool,
        about(
            "Leave out nodes whose kernel, according to their agents, cannot run schedulers; "
            "absent means false: the scheduler is started there, and fails."
        ),
    ] = False
    paused: Annotated[bool, about("Pause a rollout; absent means false.")] = False
    quarantine: Annotated[
        Quarantine | None,
        about("When to leave a node without a scheduler because its kernel repeatedly ejects it; absent: never."),
    ] = None
    suspend: Annotated[bool, about("Remove the schedulers from the nodes, but keep the resource.")] = False
    pools: Annotated[
        tuple[Pool, ...],
        about(
            "Nodes with their own scheduler or settings, one DaemonSet for each pool; the resource itself has none.",
            rules.POOL_NAMES,
            list_key="name",
            maxItems=POOLS,
        ),
    ] = ()


class NodeCounts(SpecModel, frozen=True, kw_only=True, omit_defaults=False):
    """How many nodes are in which state."""

    desired: Annotated[int, about("Nodes that should run the scheduler.", format="int32")] = 0
    scheduled: Annotated[int, about("Nodes that have its pod.", format="int32")] = 0
    ready: Annotated[int, about("Nodes whose pod is ready.", format="int32")] = 0
    updated: Annotated[int, about("Nodes whose pod has the newest spec.", format="int32")] = 0
    unavailable: Annotated[
        int, about("Nodes that should run the scheduler and have no available pod.", format="int32")
    ] = 0
    misscheduled: Annotated[int, about("Nodes that have its pod and should not.", format="int32")] = 0
    not_ready: Annotated[
        int, about("Desired nodes that are NotReady; they do not keep the resource from being Ready.", format="int32")
    ] = 0
    cordoned: Annotated[
        int, about("Desired nodes that are cordoned; they do not keep the resource from being Ready.", format="int32")
    ] = 0
    attached: Annotated[int, about("Nodes whose kernel has attached the scheduler.", format="int32")] = 0
    detached: Annotated[
        int, about("Nodes whose pod runs, or crashes, and whose kernel has attached nothing.", format="int32")
    ] = 0
    foreign: Annotated[
        int, about("Nodes whose kernel has attached a scheduler that is not this one.", format="int32")
    ] = 0
    ejected: Annotated[
        int,
        about("Nodes where it was attached and left without being stopped, in the last five minutes.", format="int32"),
    ] = 0
    unfit: Annotated[
        int, about("Nodes whose kernel cannot run it, including those that skipUnfitNodes leaves out.", format="int32")
    ] = 0
    unknown: Annotated[
        int, about("Nodes whose agent does not report the kernel's state; see condition Attached.", format="int32")
    ] = 0
    quarantined: Annotated[
        int,
        about("Selected nodes that are left without it, because their kernels ejected it too often.", format="int32"),
    ] = 0
    yielded: Annotated[int, about("Selected nodes that another resource has.", format="int32")] = 0
    reserved: Annotated[int, about("Selected nodes that are reserved by their slot label.", format="int32")] = 0


class Verified(SpecModel, frozen=True, kw_only=True):
    """Who signed an image."""

    digest: Annotated[str, about("The digest that was verified; for a multi-platform image, that of the index.")]
    signer: Annotated[str, about("Who signed it.", maxLength=1024)]
    policy: Annotated[str, about("The hash of the trust policy.")]
    time: Annotated[str, about("When it was verified.", format="date-time")]


class PoolStatus(SpecModel, frozen=True, kw_only=True):
    """The state of one DaemonSet of the resource."""

    name: Annotated[str, about("The pool's name; empty for a resource without pools.")]
    daemon_set: Annotated[str, about("The name of the DaemonSet.")] = ""
    image: Annotated[str, about("The image that it runs.")] = ""
    resolved_image: Annotated[str, about("The image by digest, as resolved for this generation.")] = ""
    verified: Annotated[
        Verified | None,
        about("Who signed resolvedImage; absent if it has no trusted signature, or if sked does not verify images."),
    ] = None
    nodes: Annotated[NodeCounts | None, about("How many nodes are in which state.")] = None
    excluded_by: Annotated[
        tuple[str, ...],
        about(
            "The first of the resources that have nodes which this one selects, as namespace/name.", list_type="atomic"
        ),
    ] = ()
    rollout: Annotated[RolloutStatus | None, about("The state of its rollout; absent without one.")] = None


class RolloutSummary(SpecModel, frozen=True, kw_only=True):
    """The state of the rollout; with several pools, of the one that is furthest from its end."""

    phase: Annotated[str, about("The phase of the rollout.", enum=list(PHASES))]
    step: Annotated[int, about("The current step, from 0.", format="int32")] = 0
    message: Annotated[str, about("What it does or waits for.", maxLength=1024)] = ""
    since: Annotated[str | None, about("Since when it has been in this phase and step.", format="date-time")] = None


class NodeFailure(SpecModel, frozen=True, kw_only=True):
    """Why the scheduler does not run on a node."""

    node: Annotated[str, about("The node's name; empty if no node is known.")]
    pod: Annotated[str, about("The name of the scheduler's pod; absent if there is none.")] = ""
    reason: Annotated[str, about("Why, as one word that programs may match on.")]
    message: Annotated[str, about("Why, as a sentence for people.", maxLength=1024)] = ""


class SchedExtStatus(SpecModel, frozen=True, kw_only=True):
    """What the operator reports about the resource."""

    observed_generation: Annotated[
        int, about("The generation of the spec that this status is about.", format="int64")
    ] = 0
    priority: Annotated[
        int, about("The effective priority: spec.priority, or the ceiling if it is lower.", format="int32")
    ] = 0
    summary: Annotated[str, about("The state in a word or two, shown as STATUS.")] = ""
    scheduler: Annotated[str, about("The short names of the schedulers, shown as SCHEDULER.")] = ""
    image: Annotated[str, about("The images of the schedulers, shown as IMAGE.")] = ""
    nodes: Annotated[NodeCounts | None, about("How many nodes are in which state, of all pools together.")] = None
    conditions: Annotated[
        tuple[Condition, ...],
        about(
            f"The conditions of the resource: {', '.join(CONDITION_TYPES)}.",
            list_key="type",
            maxItems=16,
        ),
    ] = ()
    pools: Annotated[
        tuple[PoolStatus, ...],
        about("The state of each DaemonSet of the resource.", list_key="name", maxItems=POOLS + 1),
    ] = ()
    current_revision: Annotated[str, about("The stable revisions of all pools; absent without a rollout.")] = ""
    update_revision: Annotated[str, about("The revisions that the nodes should get; absent without a rollout.")] = ""
    rollout: Annotated[RolloutSummary | None, about("The state of the rollout; absent without one.")] = None
    failures: Annotated[
        tuple[NodeFailure, ...],
        about("The first nodes where the scheduler does not run, and why.", list_type="atomic", maxItems=FAILURES_TOLD),
    ] = ()
    last_handled_refresh: Annotated[
        str, about("The value of the annotation sked.schedkit.io/refresh when the images were last resolved.")
    ] = ""
    failure_count: Annotated[
        int, about("How many nodes fail, including those that are not in failures.", format="int32")
    ] = 0


class SchedExt(SpecModel, frozen=True, kw_only=True, omit_defaults=False):
    """A sched_ext scheduler for the kernels of the selected nodes."""

    RULES = (rules.NAME_FITS,)

    api_version: Annotated[str, about("The API version, sked.schedkit.io/v1.")] = API_VERSION
    kind: Annotated[str, about("The kind of the resource, SchedExt.")] = KIND
    metadata: Annotated[ObjectMeta, about("The name, the namespace, labels and annotations.")] = ObjectMeta()
    spec: Annotated[SchedExtSpec, about("The desired state: which scheduler runs on which nodes.")]
    status: Annotated[SchedExtStatus, about("What the operator reports about the resource.")] = SchedExtStatus()
