"""What the operator looks at in a cluster: one informer for each kind, and of each object what is read of it."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from schedkit.sked.api.kubernetes import Affinity
from schedkit.sked.api.requests import NEXT, QUARANTINE, REFRESH, SLOT
from schedkit.sked.api.types import SchedExt
from schedkit.sked.controller.daemonsets import MANAGED_BY, read_claim
from schedkit.sked.controller.failures import has_trouble, read_node
from schedkit.sked.controller.objects import (
    DAEMONSETS,
    EVENTS,
    INITIALIZED,
    NAMESPACES,
    NODES,
    PODS,
    SCHEDEXTS,
    WAIT,
    DaemonSet,
    FailedCreate,
    Namespace,
    Node,
    Pod,
)
from schedkit.sked.controller.placement import Placement
from schedkit.sked.controller.pulls import PULL
from schedkit.sked.controller.reports import (
    AGENT_LABELS,
    READY,
    REPORTS,
    AgentPod,
    NodeReport,
    by_ready_node,
    trim_agent,
    trim_report,
)
from schedkit.sked.controller.rolling import ASKED
from schedkit.sked.controller.sight import Sight
from schedkit.sked.controller.workloads import (
    ABOUT,
    ADOPT,
    CLAIMED,
    CONTROLLER,
    MAKER,
    NODE,
    TROUBLED,
    Workloads,
    about,
    claimed,
)
from schedkit.sked.controller.world import World
from schedkit.sked.kube.client import Client
from schedkit.sked.kube.informer import Informer
from schedkit.sked.kube.objects import Key
from schedkit.sked.kube.store import by_controller

ANY_PRIORITY = "sked.schedkit.io/any-priority"  # on a namespace, "true": its resources may exceed the ceiling
READ = (ADOPT, SLOT, NEXT, QUARANTINE, REFRESH, *ASKED)  # annotations
NO_AFFINITY = Affinity()
Item = TypeVar("Item", SchedExt, DaemonSet, Pod, Node, FailedCreate, Namespace)


@dataclass(frozen=True)
class Informers:
    """One for each kind that the operator looks at."""

    resources: Informer[SchedExt]
    daemonsets: Informer[DaemonSet]
    pods: Informer[Pod]
    nodes: Informer[Node]
    failed_creates: Informer[FailedCreate]
    namespaces: Informer[Namespace]
    reports: Informer[NodeReport]
    agents: Informer[AgentPod]

    @property
    def needed(self) -> Sequence[Informer[Any]]:
        """Those without which nothing can be planned."""
        return (self.resources, self.daemonsets, self.pods, self.nodes)

    @property
    def optional(self) -> Sequence[Informer[Any]]:
        """Those of which each serves one feature."""
        return (self.failed_creates, self.namespaces, *self.reporting)

    @property
    def reporting(self) -> Sequence[Informer[Any]]:
        """Those by which kernels are judged."""
        return (self.reports, self.agents)


def make_informers(client: Client, agents_namespace: str) -> Informers:
    """Informers on all that a plan looks at: everything there is, as a slot is wanted across namespaces.

    Agents run where the operator does: anybody could call a pod of a namespace of theirs one.
    """
    labels = ",".join(f"{name}={value}" for name, value in MANAGED_BY.items())
    return Informers(
        Informer(client, SCHEDEXTS, SchedExt, indexes={MAKER: _by_daemonset}, transform=_trim),
        # All of them, not only ours: one of somebody else's may have a name that we need.
        Informer(
            client,
            DAEMONSETS,
            DaemonSet,
            indexes={CONTROLLER: by_controller, CLAIMED: _by_claim},
            transform=_trim,
        ),
        Informer(
            client,
            PODS,
            Pod,
            label_selector=labels,
            indexes={
                CONTROLLER: by_controller,
                MAKER: _by_maker,
                NODE: lambda pod: (read_node(pod),),
                PULL: _by_pull,
                TROUBLED: _by_trouble,
            },
            transform=_trim_pod,
        ),
        Informer(client, NODES, Node, transform=_trim_node),
        Informer(
            client,
            EVENTS,
            FailedCreate,
            field_selector="involvedObject.kind=DaemonSet,reason=FailedCreate",
            indexes={ABOUT: lambda event: (about(event.metadata.namespace, event.involved_object.uid),)},
            transform=_trim,
        ),
        Informer(client, NAMESPACES, Namespace, label_selector=f"{ANY_PRIORITY}=true", transform=_trim),
        Informer(client, REPORTS, NodeReport, transform=trim_report),
        Informer(
            client,
            PODS,
            AgentPod,
            namespaces=[agents_namespace],
            label_selector=AGENT_LABELS,
            indexes={READY: by_ready_node},
            transform=trim_agent,
        ),
    )


def make_world(informers: Informers, namespaces: Collection[str] = ()) -> World:
    """What the informers know, as one value."""
    daemonsets, pods, placement = informers.daemonsets.store, informers.pods.store, Placement(informers.nodes.store)
    return World(
        resources=informers.resources.store,
        daemonsets=daemonsets,
        pods=pods,
        nodes=informers.nodes.store,
        free_namespaces=informers.namespaces.store,
        sight=Sight(informers.reports.store, informers.agents.store, informers.reporting),
        unreadable=informers.resources.unreadable,
        informers=informers.needed,
        placement=placement,
        workloads=Workloads(daemonsets, pods, informers.failed_creates.store, placement),
        namespaces=namespaces,
    )


def _by_daemonset(resource: SchedExt) -> Iterable[str]:
    """An index function: the names of the DaemonSets that a resource has, or last had."""
    names = {resource.metadata.name, *(pool.daemon_set for pool in resource.status.pools if pool.daemon_set)}
    return (str(Key(resource.metadata.namespace, name)) for name in names)


def _by_claim(daemonset: DaemonSet) -> Iterable[str]:
    """An index function: whose a DaemonSet is, unless it is on its way out."""
    owner = daemonset.metadata.controller
    return (claimed(owner.uid, read_claim(daemonset)),) if owner and not daemonset.metadata.deletion_timestamp else ()


def _by_maker(pod: Pod) -> Iterable[str]:
    """An index function: the name of the DaemonSet that made a pod, which may be gone."""
    owner = pod.metadata.controller
    return (str(Key(pod.metadata.namespace, owner.name)),) if owner and owner.kind == "DaemonSet" else ()


def _by_pull(pod: Pod) -> Iterable[str]:
    """An index function: the revision whose image a pod brings to its node."""
    revision = pod.metadata.labels.get(PULL)
    return (str(Key(pod.metadata.namespace, revision)),) if revision else ()


def _by_trouble(pod: Pod) -> Iterable[str]:
    """An index function: the uid of the DaemonSet of a pod that something may be told of."""
    return by_controller(pod) if has_trouble(pod) else ()


def _trim_pod(pod: Pod) -> Pod:
    """A pod without what takes memory and nobody reads.

    One that is on its node needs no affinity, which says the same in 600 bytes. Of the times at which its conditions
    changed only one is read: when it was done with waiting for the slot. Without them most conditions are equal.
    """
    replace = msgspec.structs.replace
    waits = any(status.name == WAIT for status in pod.status.init_container_statuses)
    conditions = tuple(
        found
        if waits and found.type == INITIALIZED and found.status == "True"
        else replace(found, last_transition_time=None)
        for found in pod.status.conditions
    )
    pod = replace(_trim(pod), status=replace(pod.status, conditions=conditions))
    return replace(pod, spec=replace(pod.spec, affinity=NO_AFFINITY)) if pod.spec.node_name else pod


def _trim_node(node: Node) -> Node:
    """Keep only the condition Ready of a node: the others change more often."""
    ready = tuple(condition for condition in node.status.conditions if condition.type == "Ready")
    return msgspec.structs.replace(_trim(node), status=msgspec.structs.replace(node.status, conditions=ready))


def _trim(item: Item) -> Item:
    """An object without annotations that nobody here reads: they are long, and some change with every heartbeat."""
    annotations = item.metadata.annotations
    kept = {name: annotations[name] for name in READ if name in annotations}
    return msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, annotations=kept))
