"""The one writer of DaemonSets, pods, and who has which node: it does what a plan says, while this process leads."""

from collections.abc import Callable
from typing import Literal

from schedkit.sked.api.requests import NEXT, QUARANTINE, SLOT
from schedkit.sked.controller.daemonsets import differs
from schedkit.sked.controller.objects import DAEMONSETS, NODES, PODS, DaemonSet, DaemonSetSpec, Node, Pod
from schedkit.sked.controller.pulls import PullPod
from schedkit.sked.controller.reports import REPORTS, AppliedHolder, HolderStatus, NodeReport
from schedkit.sked.kube.client import Client, Preconditions
from schedkit.sked.kube.errors import ApiAlreadyExistsError, ApiNotFoundError
from schedkit.sked.kube.lease import LeadershipLostError
from schedkit.sked.kube.objects import Applied, Object, ObjectMeta
from schedkit.sked.kube.resources import Resource

Fence = Callable[[], None]


class _AppliedDaemonSet(Applied, frozen=True):
    spec: DaemonSetSpec


def make_fence(leads: Callable[[], bool]) -> Fence:
    """A fence around writes: what a process does after its lease ran out, somebody else may have undone already."""

    def check() -> None:
        if not leads():
            raise LeadershipLostError("the lease has expired, or another manager holds it")

    return check


class Executor:
    """Writes to the cluster; `fence` is called before each write, and raises when this process may not any more."""

    def __init__(self, client: Client, fence: Fence) -> None:
        self._client = client
        self._fence = fence
        # Writes that left a difference, by the DaemonSet's uid: others may own fields that make it differ for good.
        self.written: dict[str, tuple[int, DaemonSet]] = {}

    def forget(self, uid: str) -> None:
        """A DaemonSet is gone."""
        self.written.pop(uid, None)

    async def apply(self, wanted: DaemonSet, *, force: bool) -> DaemonSet:
        """Apply a DaemonSet; without force that is refused where there is somebody's that has not been seen yet."""
        self._fence()
        metadata = wanted.metadata
        # Applied always, also where there is none: what is owned by apply can be taken away again by apply.
        body = _AppliedDaemonSet(DAEMONSETS.api_version, DAEMONSETS.kind, metadata, wanted.spec)
        written = await self._client.apply(
            DAEMONSETS, DaemonSet, metadata.name, body, namespace=metadata.namespace, force=force
        )
        self.forget(written.metadata.uid)
        if differs(wanted, written):
            self.written[written.metadata.uid] = written.metadata.generation, wanted
        return written

    async def delete(self, daemonset: DaemonSet) -> None:
        """Delete a DaemonSet. It is gone at once and its pods follow: one on a dead node would hold it forever."""
        await self._delete(DAEMONSETS, daemonset.metadata, "Background")

    async def evict(self, pod: Pod) -> None:
        """Delete a pod of an older spec, so that its DaemonSet makes one of the newest."""
        await self._delete(PODS, pod.metadata)

    async def pull(self, pod: PullPod) -> bool:
        """Have an image brought to a node; not where a pod has the name that has not been seen yet, or is another's."""
        self._fence()
        try:
            await self._client.create(PODS, Object, pod, namespace=pod.metadata.namespace)
        except ApiAlreadyExistsError:
            return False
        return True

    async def write_slot(self, node: Node, value: str, quarantine: str = "", coming: str = "") -> None:
        """Say on a node who has its slot and who waits for it, or nothing; refused when the node changed since then."""
        self._fence()
        seen = node.metadata
        said = {name: what for name, what in ((SLOT, value), (NEXT, coming)) if what}
        # Without the annotation it is a person's, even if sked wrote it before: what is not sent would go.
        kept = {SLOT: seen.labels[SLOT]} if SLOT in seen.labels and SLOT not in seen.annotations else {}
        metadata = ObjectMeta(
            name=seen.name,
            uid=seen.uid,
            resource_version=seen.resource_version,
            labels=kept | said,
            annotations=said | ({QUARANTINE: quarantine} if quarantine else {}),
        )
        body = Applied(NODES.api_version, NODES.kind, metadata)
        try:
            await self._client.apply(NODES, Object, seen.name, body, force=True)
        except ApiNotFoundError:
            return

    async def write_holder(self, report: NodeReport, said: HolderStatus) -> None:
        """Say in a node's report who has the node and why nobody has, or nothing; never make a report."""
        self._fence()
        seen = report.metadata
        metadata = ObjectMeta(name=seen.name, uid=seen.uid)
        body = AppliedHolder(REPORTS.api_version, REPORTS.kind, metadata, said)
        try:
            await self._client.apply(REPORTS, Object, seen.name, body, status=True, force=True)
        except ApiNotFoundError:
            return

    async def _delete(
        self, resource: Resource, metadata: ObjectMeta, propagation: Literal["", "Background"] = ""
    ) -> None:
        """Delete this very object, and none of the same name that was made since."""
        self._fence()
        try:
            await self._client.delete(
                resource,
                metadata.name,
                namespace=metadata.namespace,
                preconditions=Preconditions(uid=metadata.uid),
                propagation=propagation,
            )
        except ApiNotFoundError:
            return
