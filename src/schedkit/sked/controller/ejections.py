"""The ejections that a resource's nodes show: of which revision, and what the kernel said."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from schedkit.sked.api.conditions import Reason
from schedkit.sked.api.types import SchedExt
from schedkit.sked.controller.attachment import NodeState, read_image
from schedkit.sked.controller.claims import Claim
from schedkit.sked.controller.health import Health
from schedkit.sked.controller.judgements import Change
from schedkit.sked.controller.objects import Pod
from schedkit.sked.controller.plan import REVISION
from schedkit.sked.controller.quarantine import NodeEjection
from schedkit.sked.controller.slots import read_slot_of
from schedkit.sked.controller.verification import runs
from schedkit.sked.controller.world import World
from schedkit.sked.kube.objects import format_time


def find_ejections(
    world: World, resource: SchedExt, healths: Sequence[Health], changes: Sequence[Change], now: datetime
) -> Iterator[NodeEjection]:
    """All that can be seen, also of before this program started: whoever counts them knows which are new."""
    key = resource.metadata.key
    failures = (failure for health in healths for failure in health.failures)
    failed = {failure.node: failure for failure in failures if failure.reason == Reason.EJECTED}
    found = [(change.node, change.after, change.slot) for change in changes]
    found += [(name, after, "") for health in healths for name, after in health.kernels.bad.items()]
    for node, after, slot in found:
        claim = world.find_holder(node)
        if after.state is not NodeState.EJECTED or claim is None or claim.owner != key:
            continue
        failure = failed.get(node)
        pod = world.pods.get(key.namespace, failure.pod) if failure else None
        if pod and slot not in ("", read_slot_of(pod)):  # another one was ejected, while this one waited
            failure = pod = None
        revision = _name_revision(world, claim, pod, slot or world.read_slot(node))
        if revision:  # else it is not known what was ejected, as its label is gone already and its pod too
            message, time = failure.message if failure else after.message, after.since or format_time(now)
            yield NodeEjection(node, str(key), revision, time, failure.pod if failure else "", message)


def _name_revision(world: World, claim: Claim, pod: Pod | None, slot: str) -> str:
    """The revision of which a pod is: not what is asked for by now, nor what the label says meanwhile."""
    if world.workloads.rolls(claim):
        return world.workloads.find_revision(claim, read_slot_of(pod) if pod else slot)
    seen = world.workloads.find_main(claim)
    image = seen.spec.template.spec.containers[0].image if seen else ""
    if pod is None or not image or read_image(pod) == image or runs(pod, image):
        return world.workloads.name_work(claim)
    return f"{claim.name}-{pod.metadata.labels.get(REVISION, '')}"
