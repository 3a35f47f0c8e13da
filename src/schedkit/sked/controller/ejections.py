"""The ejections that a resource's nodes show: of which revision, and what the kernel said."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

import msgspec

from schedkit.sked.api.conditions import Reason
from schedkit.sked.api.types import SchedExt
from schedkit.sked.controller.attachment import NodeState, read_image
from schedkit.sked.controller.claims import Claim
from schedkit.sked.controller.daemonsets import read_work
from schedkit.sked.controller.health import Health
from schedkit.sked.controller.judgements import Change
from schedkit.sked.controller.objects import DaemonSet, Pod, PodTemplate
from schedkit.sked.controller.plan import REVISION
from schedkit.sked.controller.quarantine import NodeEjection
from schedkit.sked.controller.slots import read_slot_of
from schedkit.sked.controller.verification import is_same_image, runs
from schedkit.sked.controller.world import World
from schedkit.sked.kube.objects import format_time

# What pods with a hash are made of; None: it is being looked up.
MadeOf = Callable[[DaemonSet, str], bytes | None]


def find_ejections(
    world: World,
    resource: SchedExt,
    healths: Sequence[Health],
    changes: Sequence[Change],
    made_of: MadeOf,
    now: datetime,
) -> Iterator[NodeEjection]:
    """All that can be seen, also of before this program started: whoever counts them knows which are new."""
    key = resource.metadata.key
    failures = (failure for health in healths for failure in health.failures)
    failed = {failure.node: failure for failure in failures if failure.reason == Reason.EJECTED}
    found = [(change.node, change.after, change.slot) for change in changes]
    found += [(name, after, "") for health in healths for name, after in health.kernels.bad.items()]
    works = _Works(made_of)
    for node, after, slot in found:
        claim = world.find_holder(node)
        if after.state is not NodeState.EJECTED or claim is None or claim.owner != key:
            continue
        failure = failed.get(node)
        pod = world.pods.get(key.namespace, failure.pod) if failure else None
        if pod and slot not in ("", read_slot_of(pod)):  # another one was ejected, while this one waited
            failure = pod = None
        if world.workloads.rolls(claim):
            label = slot or world.read_slot(node)
            revision = world.workloads.find_revision(claim, read_slot_of(pod) if pod else label)
        else:
            revision = _name_plain(world, claim, pod, node, works)
        # Else it is not known what was ejected: its label and its pod are gone, or its template is being looked up.
        if revision:
            message, time = failure.message if failure else after.message, after.since or format_time(now)
            yield NodeEjection(node, str(key), revision, time, failure.pod if failure else "", message)


class _Works:
    """What pods of DaemonSets do; each template is read once, however many pods are of it."""

    def __init__(self, made_of: MadeOf) -> None:
        self._made_of = made_of
        self._newest: dict[str, bytes] = {}  # by DaemonSet
        self._known: dict[tuple[str, str], bytes | None] = {}  # by DaemonSet and the hash on its pods

    def is_newest(self, seen: DaemonSet, pod: Pod) -> bool | None:
        """Whether a pod does what its DaemonSet is to do by now: not only the same image; None: not known yet."""
        image = seen.spec.template.spec.containers[0].image
        if read_image(pod) != image and not runs(pod, image):
            return False
        uid, revision = seen.metadata.uid, pod.metadata.labels.get(REVISION, "")
        if uid not in self._newest:
            self._newest[uid] = read_work(seen.spec.template)
        if (uid, revision) not in self._known:
            template = self._made_of(seen, revision)
            work = read_work(msgspec.json.decode(template, type=PodTemplate)) if template else None
            self._known[uid, revision] = work
        does, newest = self._known[uid, revision], self._newest[uid]
        return None if does is None else does == newest or is_same_image(pod, does, newest)


def _name_plain(world: World, claim: Claim, pod: Pod | None, node: str, works: _Works) -> str:
    """The revision of what was ejected, of a claim without a rollout: that of its pod, not what is asked for by now."""
    seen = world.workloads.find_main(claim)
    pod = pod or (world.workloads.find_pod(seen, node) if seen else None)
    if seen is None or pod is None:
        return world.workloads.name_work(claim)
    is_newest = works.is_newest(seen, pod)
    if is_newest is None:
        return ""
    return world.workloads.name_work(claim) if is_newest else f"{claim.name}-{pod.metadata.labels.get(REVISION, '')}"
