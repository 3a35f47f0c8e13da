"""The yardstick of a rollout: the same pods and labels from a plain loop that judges nothing and remembers nothing.

It moves nodes from one revision's DaemonSet to another's, both made by the operator: a pod that pulls, the label by
which a pod waits on the node, the label that gives it the slot.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import msgspec

from bench.kernels import PODS, watch
from bench.plain import DAEMONSETS, MERGE, Json, send
from bench.reports import REPORTS
from schedkit.sked.api.requests import NEXT, SLOT, make_slot
from schedkit.sked.controller.objects import DaemonSet
from schedkit.sked.controller.pulls import PULL, PullPod, make_pull_pod
from schedkit.sked.kube.objects import Key

NAMESPACE = "default"
NAMED = f"/api/v1/namespaces/{NAMESPACE}/pods"
PULLED, WAITS, ATTACHED = "pulled", "waits", "attached"


@dataclass
class PlainRollout:
    """Moves nodes to a revision, at most `most` at a time without a scheduler and twice as many being prepared."""

    session: aiohttp.ClientSession
    revision: Json
    most: int
    _happened: defaultdict[tuple[str, str], asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))
    _attached_before: dict[str, int] = field(default_factory=dict)

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """See what becomes of the nodes, which all of these need."""
        watches = [asyncio.ensure_future(one) for one in (self._watch_pods(), self._watch_reports())]
        try:
            yield
        finally:
            for watch in watches:
                watch.cancel()

    async def move(self, nodes: Iterable[str], *, idle: Iterable[str] = (), pulls: bool = False) -> None:
        """Move nodes; return when the kernel of the last one has attached its scheduler.

        `idle` are without a scheduler already, so they go first. `pulls`: the image is brought to each node first.
        """
        ahead, room = asyncio.Semaphore(3 * self.most), asyncio.Semaphore(self.most)

        async def give(node: str) -> None:
            async with room:
                await self._give(node)
                await self._happened[ATTACHED, node].wait()

        async def prepare_and_give(node: str) -> None:
            async with ahead:
                if pulls:
                    await self._pull(node)
                    await self._remove_puller(node)
                await self._prepare(node)
                await give(node)

        async with asyncio.TaskGroup() as group:
            for node in idle:
                group.create_task(give(node))
            for node in nodes:
                group.create_task(prepare_and_give(node))

    async def fail(self, given: Iterable[str], waiting: Iterable[str], pulled: Iterable[str]) -> None:
        """Leave nodes as they are when a rollout fails: given what will not attach, or on the way to that."""
        await asyncio.gather(*map(self._give, given), *map(self._prepare, waiting), *map(self._pull, pulled))

    async def clear_away(self, waiting: Iterable[str], pulled: Iterable[str]) -> None:
        """Take back what was on its way to nodes."""
        unlabelled = (self._label(node, {NEXT: None}) for node in waiting)
        await asyncio.gather(*unlabelled, *map(self._remove_puller, pulled))

    @property
    def _slot(self) -> str:
        return make_slot(Key(NAMESPACE, self.revision["metadata"]["name"]))

    async def _prepare(self, node: str) -> None:
        await self._label(node, {NEXT: self._slot})
        await self._happened[WAITS, node].wait()

    def _make_puller(self, node: str) -> PullPod:
        return make_pull_pod(msgspec.convert(self.revision, DaemonSet), node)

    async def _pull(self, node: str) -> None:
        await send(self.session, "POST", NAMED, msgspec.to_builtins(self._make_puller(node)), "application/json")
        await self._happened[PULLED, node].wait()

    async def _remove_puller(self, node: str) -> None:
        name = self._make_puller(node).metadata.name
        await send(self.session, "DELETE", f"{NAMED}/{name}", {}, "application/json")

    async def _give(self, node: str) -> None:
        await self._label(node, {SLOT: self._slot, NEXT: None})

    async def _label(self, node: str, said: dict[str, str | None]) -> None:
        await send(
            self.session, "PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": said, "annotations": said}}, MERGE
        )

    async def _watch_pods(self) -> None:
        revision = self.revision["metadata"]
        async for event in watch(self.session, PODS, "managed-by=sked-controller"):
            pod = event["object"]
            node = pod["spec"].get("nodeName", "")
            is_own = any(owner["uid"] == revision["uid"] for owner in pod["metadata"].get("ownerReferences", ()))
            if is_own and PULL in pod["metadata"]["labels"]:
                if pod["status"].get("containerStatuses"):
                    self._happened[PULLED, node].set()
            elif is_own and pod["status"].get("initContainerStatuses"):
                self._happened[WAITS, node].set()

    async def _watch_reports(self) -> None:
        async for event in watch(self.session, REPORTS):
            node, status = event["object"]["metadata"]["name"], event["object"].get("status", {})
            seq = status.get("slot", {}).get("enableSeq", 0)
            if seq > self._attached_before.setdefault(node, seq):
                self._happened[ATTACHED, node].set()


async def fetch_revision(session: aiohttp.ClientSession, image: str) -> Json:
    """The DaemonSet of the revision that runs an image."""
    async with session.get(DAEMONSETS.format(NAMESPACE)) as answer:
        found: Json = await answer.json()
    for item in found["items"]:
        if item["spec"]["template"]["spec"]["containers"][0]["image"] == image:
            revision: Json = {"apiVersion": "apps/v1", "kind": "DaemonSet"} | item
            return revision
    raise RuntimeError(f"no revision runs {image}")
