"""What a change anywhere in the cluster means for which resource and which node: informers in, keys out."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from schedkit.sked.api.selectors import InvalidSelectorError
from schedkit.sked.api.types import SchedExt
from schedkit.sked.controller.claims import Claim, make_claims
from schedkit.sked.controller.daemonsets import MANAGED_BY, SLOT
from schedkit.sked.controller.failures import read_node
from schedkit.sked.controller.objects import (
    DAEMONSETS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    SCHEDEXTS,
    DaemonSet,
    FailedCreate,
    Namespace,
    Node,
    Pod,
)
from schedkit.sked.controller.placement import Placement
from schedkit.sked.controller.slots import read_slot
from schedkit.sked.controller.world import ABOUT, ADOPT, CONTROLLER, MAKER, NODE, World, about, find_resource
from schedkit.sked.kube.client import Client
from schedkit.sked.kube.informer import Informer
from schedkit.sked.kube.objects import Key
from schedkit.sked.kube.store import by_controller

ANY_PRIORITY = "sked.schedkit.io/any-priority"  # on a namespace, "true": its resources may exceed the ceiling
Wake = Callable[[Key], None]
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

    @property
    def needed(self) -> Sequence[Informer[Any]]:
        """Those without which nothing can be planned."""
        return (self.resources, self.daemonsets, self.pods, self.nodes)

    @property
    def optional(self) -> Sequence[Informer[Any]]:
        """Those of which each serves one feature."""
        return (self.failed_creates, self.namespaces)


def make_informers(client: Client) -> Informers:
    """Informers on all that a plan looks at: everything there is, as a slot is wanted across namespaces."""
    labels = ",".join(f"{name}={value}" for name, value in MANAGED_BY.items())
    return Informers(
        Informer(client, SCHEDEXTS, SchedExt, indexes={MAKER: _by_daemonset}, transform=_trim),
        # All of them, not only ours: one of somebody else's may have a name that we need.
        Informer(client, DAEMONSETS, DaemonSet, indexes={CONTROLLER: by_controller}, transform=_trim),
        Informer(
            client,
            PODS,
            Pod,
            label_selector=labels,
            indexes={CONTROLLER: by_controller, MAKER: _by_maker, NODE: lambda pod: (read_node(pod),)},
            transform=_trim,
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
    )


def make_world(informers: Informers, namespaces: Collection[str] = ()) -> World:
    """What the informers know, as one value."""
    return World(
        resources=informers.resources.store,
        daemonsets=informers.daemonsets.store,
        pods=informers.pods.store,
        nodes=informers.nodes.store,
        failed_creates=informers.failed_creates.store,
        free_namespaces=informers.namespaces.store,
        unreadable=informers.resources.unreadable,
        informers=informers.needed,
        placement=Placement(informers.nodes.store),
        namespaces=namespaces,
    )


class Wiring:
    """Has resources and nodes woken for whatever a change concerns; what comes in waves wakes them `soon`."""

    def __init__(
        self,
        world: World,
        *,
        wake: Wake,
        wake_soon: Wake,
        wake_node: Callable[[str], None],
        forget_pod: Callable[[str], None],
        forget_daemonset: Callable[[str], None],
        forget_resource: Wake,
        ceiling: int,
        now: Callable[[], datetime],
    ) -> None:
        self._world = world
        self._wake = wake
        self._wake_soon = wake_soon
        self._wake_node = wake_node
        self._forget_pod = forget_pod
        self._forget_daemonset = forget_daemonset
        self._forget_resource = forget_resource
        self._ceiling = ceiling
        self._now = now

    def connect(self, informers: Informers) -> None:
        """Listen to all informers."""
        informers.resources.on_change(self._see_resource)
        informers.resources.on_unreadable(self._wake)
        informers.daemonsets.on_change(self._see_daemonset)
        informers.pods.on_change(self._see_pod)
        informers.nodes.on_change(self._see_node)
        informers.failed_creates.on_change(self._see_failed_create)
        informers.namespaces.on_change(self._see_namespace)
        for informer in informers.needed:
            informer.on_sync_change(self._wake_all)

    def note_refused_node(self, name: str, why: str) -> None:
        """Keep in mind whether a node can be labelled, and have those looked at whom it concerns."""
        if self._world.refused_nodes.get(name, "") == why:
            return
        self._world.refused_nodes.pop(name, None)
        self._world.refused_nodes.update({name: why} if why else {})
        for claim in self._world.decision(name).participants:
            self._wake(claim.owner)

    def look_again(self, claims: Iterable[Claim]) -> None:
        """Decide again of all nodes of some claims."""
        for claim in claims:
            for name in list(self._world.placement.of(claim)):
                self._decide(name)

    def _see_resource(self, old: SchedExt | None, new: SchedExt | None) -> None:
        known = new or old
        if known is None:
            return
        self._wake(known.metadata.key)
        if new is None:
            self._forget_resource(known.metadata.key)
        if old is None or new is None or _claims_differ(old, new):
            self._put_claims(known.metadata.key, new, {found.metadata.uid for found in (old, new) if found})

    def _put_claims(self, key: Key, resource: SchedExt | None, uids: Iterable[str]) -> None:
        world = self._world
        before = world.placement.name_owner(key.name)
        # A suspended one keeps its name: a node that is reserved for it must not go to a namesake.
        world.placement.put_name(key, (resource.metadata.creation_timestamp or "") if resource else None)
        names = world.placement.put(key, self._make_claims(resource))
        meant = {before, world.placement.name_owner(key.name)}
        for other in meant - {None, key} if len(meant) > 1 else ():  # somebody else is meant by the name alone
            if other:
                self._wake(other)
                names.update(name for claim in world.placement.claims(other) for name in world.placement.of(claim))
        for daemonset in (found for uid in uids for found in world.daemonsets.find(CONTROLLER, uid)):
            names.update(world.note_stray(daemonset.metadata.key))
            names.update(map(read_node, world.pods_of(daemonset)))
        for name in names:
            self._decide(name)

    def _see_daemonset(self, old: DaemonSet | None, new: DaemonSet | None) -> None:
        world = self._world
        for version in (old, new):  # one that lost its owner concerns who that was
            if version and (resource := find_resource(version)):
                self._wake(resource)
        known = new or old
        if known is None:
            return
        if new is None or (old and old.metadata.uid != new.metadata.uid):
            world.forget_daemonset((old or known).metadata.uid)
            self._forget_daemonset((old or known).metadata.uid)
        if old is None or new is None or _ownership(old) != _ownership(new) or _selection(old) != _selection(new):
            names = {read_node(pod) for version in (old, new) if version for pod in world.pods_of(version)}
            names.update(world.note_stray(known.metadata.key))
            for claim in world.placement.named(known.metadata.key):
                self._wake(claim.owner)
                names.update(world.placement.of(claim))
            for name in names:
                self._decide(name)

    def _see_pod(self, old: Pod | None, new: Pod | None) -> None:
        world = self._world
        known = new or old
        if known is None:
            return
        if old and (new is None or new.metadata.uid != old.metadata.uid):
            self._forget_pod(old.metadata.uid)
        daemonset = world.find_daemonset(known)
        if daemonset and (owner := find_resource(daemonset)):
            self._wake_soon(owner)
            # The first pod shows that they can be created; and after the last one that is open again.
            first_or_last = (old is None or new is None) and world.count_pods(daemonset) <= 1
            if first_or_last and (claim := world.find_claim(daemonset)):
                world.note_refusal(daemonset, self._now())
                self.look_again([claim])
        for name in {read_node(version) for version in (old, new) if version}:
            self._decide(name)
            for claim in world.placement.on(name) if daemonset is None and new is None else ():
                self._wake_soon(claim.owner)  # who may have waited for it
        if daemonset is None and (maker := known.metadata.controller):  # whose status may count what is left
            for resource in world.resources.find(MAKER, str(Key(known.metadata.namespace, maker.name))):
                self._wake_soon(resource.metadata.key)

    def _see_node(self, old: Node | None, new: Node | None) -> None:
        world = self._world
        known = new or old
        if known is None:
            return
        name = known.metadata.name
        before = {claim.owner for claim in world.placement.on(name)}
        changed = world.placement.see_node(old, new)
        is_other = old is None or new is None or _health(old) != _health(new)
        if new is None:
            world.refused_nodes.pop(name, None)
        if not changed and not is_other and old and new and not self._may_matter(old, new):
            return
        if changed or is_other:  # how many nodes there are, and how they are, is in the status
            for owner in before | {claim.owner for claim in world.placement.on(name)}:
                self._wake_soon(owner)
        if is_other and world.is_complete:
            # A claim that has yet to show that its pods can be created does so on a node that is ready.
            self.look_again(claim for claim in world.placement.on(name) if not world.has_pods(claim))
        self._decide(name)

    def _may_matter(self, old: Node, new: Node) -> bool:
        """Whether a change of a node on which the same claims could run may change who has its slot."""
        if read_slot(old) != read_slot(new):
            return True
        return old.metadata.labels != new.metadata.labels and self._world.has_narrowed

    def _see_failed_create(self, old: FailedCreate | None, new: FailedCreate | None) -> None:
        event = new or old
        name = event.involved_object.name if event else ""
        daemonset = self._world.daemonsets.get(event.metadata.namespace, name) if event else None
        if daemonset and (resource := find_resource(daemonset)):
            self._wake(resource)
            self.note_refusal(daemonset)

    def note_refusal(self, daemonset: DaemonSet) -> None:
        """Find out whether a DaemonSet's pods may be created at all, and decide again where that matters."""
        if self._world.note_refusal(daemonset, self._now()) and (claim := self._world.find_claim(daemonset)):
            self.look_again([claim])

    def _see_namespace(self, old: Namespace | None, new: Namespace | None) -> None:
        known = new or old
        for resource in self._world.resources if known else ():
            if known and resource.metadata.namespace == known.metadata.name:
                self._put_claims(resource.metadata.key, resource, [resource.metadata.uid])
                self._wake(resource.metadata.key)

    def _decide(self, name: str) -> None:
        """Decide of a node, and of those that somebody may take, or may not, because of it."""
        world = self._world
        if not world.is_complete:
            return  # all nodes are looked at when it is
        names = [name]
        while names:
            next_name = names.pop()
            self._decide_one(next_name)
            for claim in world.end_trials(next_name):
                names += world.placement.of(claim)

    def _decide_one(self, name: str) -> None:
        """Decide of a node; where there is or was something to decide, its label is looked at."""
        world = self._world
        was_decided = world.is_decided(name)
        for owner in world.refresh(name):
            self._wake_soon(owner)
        node = world.nodes.get("", name)
        labelled = node is not None and (SLOT in node.metadata.labels or SLOT in node.metadata.annotations)
        if was_decided or labelled or world.is_decided(name):
            self._wake_node(name)

    def _make_claims(self, resource: SchedExt | None) -> tuple[Claim, ...]:
        if resource is None:
            return ()
        is_free = self._world.free_namespaces.get("", resource.metadata.namespace) is not None
        try:
            return make_claims(resource, None if is_free else self._ceiling)
        except InvalidSelectorError:
            return ()  # stored before there was validation: it selects nothing that Kubernetes would take

    def _wake_all(self) -> None:
        """What can be seen at all changed: nothing that was concluded before is certain."""
        world = self._world
        for key in world.resources.all_keys():
            self._wake(key)
        if world.is_complete:
            for node in list(world.nodes):
                self._decide(node.metadata.name)


def _by_daemonset(resource: SchedExt) -> Iterable[str]:
    """An index function: the names of the DaemonSets that a resource has, or last had."""
    names = {resource.metadata.name, *(pool.daemon_set for pool in resource.status.pools if pool.daemon_set)}
    return (str(Key(resource.metadata.namespace, name)) for name in names)


def _by_maker(pod: Pod) -> Iterable[str]:
    """An index function: the name of the DaemonSet that made a pod, which may be gone."""
    owner = pod.metadata.controller
    return (str(Key(pod.metadata.namespace, owner.name)),) if owner and owner.kind == "DaemonSet" else ()


def _ownership(daemonset: DaemonSet) -> tuple[object, ...]:
    """Whose it is, who may have it, and whether it is going."""
    metadata = daemonset.metadata
    return metadata.uid, metadata.controller, metadata.annotations.get(ADOPT), metadata.deletion_timestamp is None


def _selection(daemonset: DaemonSet) -> tuple[object, ...]:
    pod = daemonset.spec.template.spec
    return pod.node_selector, pod.affinity


def _health(node: Node) -> tuple[bool, bool]:
    return node.is_ready, node.spec.unschedulable


def _claims_differ(old: SchedExt, new: SchedExt) -> bool:
    return old.spec != new.spec or old.metadata.uid != new.metadata.uid or _is_going(old) != _is_going(new)


def _is_going(resource: SchedExt) -> bool:
    return resource.metadata.deletion_timestamp is not None


def _trim(item: Item) -> Item:
    """An object without annotations that nobody here reads: they are long, and some change with every heartbeat."""
    annotations = item.metadata.annotations
    kept = {name: annotations[name] for name in (ADOPT, SLOT) if name in annotations}
    return msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, annotations=kept))


def _trim_node(node: Node) -> Node:
    """Of a node's conditions only whether it is ready: the others change more often."""
    ready = tuple(condition for condition in node.status.conditions if condition.type == "Ready")
    return msgspec.structs.replace(_trim(node), status=msgspec.structs.replace(node.status, conditions=ready))
