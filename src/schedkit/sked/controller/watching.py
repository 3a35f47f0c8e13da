"""What a change anywhere in the cluster means for which resource: informers in, keys out."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from schedkit.sked.api.selectors import InvalidSelectorError
from schedkit.sked.controller.claims import Board, Claim, make_claims
from schedkit.sked.controller.daemonsets import MANAGED_BY
from schedkit.sked.controller.failures import read_node
from schedkit.sked.controller.objects import DAEMONSETS, NODES, PODS, SCHEDEXTS, DaemonSet, Node, Pod, SchedExt
from schedkit.sked.controller.places import Places
from schedkit.sked.controller.reconciler import ADOPT, CONTROLLER, NODE, World, find_resource
from schedkit.sked.kube.client import Client
from schedkit.sked.kube.informer import Informer
from schedkit.sked.kube.objects import Key
from schedkit.sked.kube.store import by_controller

Wake = Callable[[Key], None]
Item = TypeVar("Item", SchedExt, DaemonSet, Pod, Node)


@dataclass(frozen=True)
class Watching:
    """The informers, and what they know as one value."""

    resources: Informer[SchedExt]
    daemonsets: Informer[DaemonSet]
    pods: Informer[Pod]
    nodes: Informer[Node]
    world: World


def watch_cluster(client: Client, namespaces: Sequence[str]) -> Watching:
    """Informers on all that a reconciliation looks at. Conflicts are seen among the namespaces that are watched."""
    labels = ",".join(f"{name}={value}" for name, value in MANAGED_BY.items())
    resources = Informer(client, SCHEDEXTS, SchedExt, namespaces=namespaces, transform=_trim)
    # All of them, not only ours: one of somebody else's may have a name that we need.
    daemonsets = Informer(
        client,
        DAEMONSETS,
        DaemonSet,
        namespaces=namespaces,
        indexes={CONTROLLER: by_controller},
        transform=_trim,
    )
    pods = Informer(
        client,
        PODS,
        Pod,
        namespaces=namespaces,
        label_selector=labels,
        indexes={CONTROLLER: by_controller, NODE: lambda pod: (read_node(pod),)},
        transform=_trim,
    )
    nodes = Informer(client, NODES, Node, transform=_trim)
    world = World(
        resources.store,
        daemonsets.store,
        pods.store,
        Places(nodes.store),
        Board(),
        resources.unreadable,
        (resources, daemonsets, pods, nodes),
    )
    return Watching(resources, daemonsets, pods, nodes, world)


def connect(
    watching: Watching, wake: Wake, blocked: Mapping[Key, Collection[Key]], forget: Callable[[str], None]
) -> None:
    """Have `wake` called for each resource that a change concerns, and `forget` with the uid of each pod that is gone.

    `blocked` says who waits, and for which pods.
    """
    world = watching.world

    def wake_blocked() -> None:
        for key in blocked:
            wake(key)

    def see_resource(old: SchedExt | None, new: SchedExt | None) -> None:
        known = new or old
        if known is None:
            return
        key = known.metadata.key
        wake(key)
        if old is None or new is None or _claims_differ(old, new):
            for concerned in world.board.put(key, _make_claims(new)):
                wake(concerned)

    def see_daemonset(old: DaemonSet | None, new: DaemonSet | None) -> None:
        known = new or old
        if known and (resource := find_resource(known)):
            wake(resource)
        if new is None or (old and _hands(old) != _hands(new)):
            wake_blocked()

    def see_pod(old: Pod | None, new: Pod | None) -> None:
        known = new or old
        daemonset = world.find_daemonset(known) if known else None
        if daemonset and (resource := find_resource(daemonset)):
            wake(resource)
        if old and (new is None or new.metadata.uid != old.metadata.uid):
            forget(old.metadata.uid)
        for key, pods in blocked.items():
            if known and known.metadata.key in pods:
                wake(key)

    def see_node(old: Node | None, new: Node | None) -> None:
        world.places.see(old, new)
        if old and (new is None or old.metadata.labels != new.metadata.labels):
            wake_blocked()  # DaemonSets follow labels by themselves; who waits for a node may no longer select it

    def wake_all() -> None:
        for key in world.resources.all_keys():
            wake(key)

    watching.resources.on_change(see_resource)
    watching.resources.on_unreadable(wake)
    watching.daemonsets.on_change(see_daemonset)
    watching.pods.on_change(see_pod)
    watching.nodes.on_change(see_node)
    for informer in world.informers:
        informer.on_sight(wake_all)


def _hands(daemonset: DaemonSet) -> tuple[object, object]:
    """Whose it is, and who may have it."""
    return daemonset.metadata.controller, daemonset.metadata.annotations.get(ADOPT)


def _claims_differ(old: SchedExt, new: SchedExt) -> bool:
    return old.spec != new.spec or old.metadata.uid != new.metadata.uid or _is_going(old) != _is_going(new)


def _is_going(resource: SchedExt) -> bool:
    return resource.metadata.deletion_timestamp is not None


def _make_claims(resource: SchedExt | None) -> tuple[Claim, ...]:
    if resource is None:
        return ()
    try:
        return make_claims(resource)
    except InvalidSelectorError:
        return ()  # stored before there was validation: it selects nothing that Kubernetes would take


def _trim(item: Item) -> Item:
    """An object without annotations that nobody here reads: they are long, and some change with every heartbeat."""
    annotations = item.metadata.annotations
    kept = {ADOPT: annotations[ADOPT]} if ADOPT in annotations else {}
    return msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, annotations=kept))
