"""Kernels and agents that are played on simulated nodes, and watchers that count who is without a scheduler."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import aiohttp

from bench.plain import Json
from bench.reports import OPS, REPORTS, report

PODS = "/api/v1/pods"
SCHEDULERS = "managed-by=sked-controller,!sked.schedkit.io/pull"
WRITERS = 16
FREE = "bench.schedkit.io/free"  # annotation of a pod that waits: its kernel lets it go on
NO_LIMIT = aiohttp.ClientTimeout(total=None)


async def watch(session: aiohttp.ClientSession, path: str, selector: str = "") -> AsyncIterator[Json]:
    """All that is there, and then every change; a watch that the server ends, as of a slow reader, goes on there."""
    params = {"labelSelector": selector}
    async with session.get(path, params=params, timeout=NO_LIMIT) as answer:
        found: Json = await answer.json()
    for item in found["items"]:
        yield {"type": "ADDED", "object": item}
    version = found["metadata"]["resourceVersion"]
    while True:
        async with session.get(
            path, params=params | {"watch": "true", "resourceVersion": version}, timeout=NO_LIMIT
        ) as answer:
            async for line in answer.content:
                event: Json = json.loads(line)
                if event["type"] == "ERROR":
                    raise RuntimeError(f"watching {path}: {event['object']}")
                version = event["object"]["metadata"]["resourceVersion"]
                yield event


@dataclass
class PlayedKernel:
    """One node's kernel, and what its agent knows of it."""

    pods: dict[str, str] = field(default_factory=dict)  # those that run, by uid: their images
    waiting: dict[str, str] = field(default_factory=dict)  # those that wait for the slot, by uid: their paths
    attached: str = ""  # the uid of the pod
    enable_seq: int = 0
    since: str = ""
    left_at: float | None = None
    gap: int | None = None
    detach: Json | None = None
    told: tuple[Json, Json | None] | None = None  # what its agent reported last
    agent: asyncio.Lock = field(default_factory=asyncio.Lock)  # which tells one thing after the other

    def describe(self) -> Json:
        """The slot, as an agent reports it."""
        if not self.attached:
            return {"state": "disabled", "enableSeq": self.enable_seq}
        slot = {"state": "enabled", "ops": OPS, "enableSeq": self.enable_seq, "since": self.since}
        return slot if self.gap is None else slot | {"gapMilliseconds": self.gap}


class PlayedKernels:
    """Attaches what runs on the nodes, detaches what is gone, and reports it as an agent does."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._kernels: dict[str, PlayedKernel] = {}
        self._changed: asyncio.Queue[str] = asyncio.Queue()
        self._queued: set[str] = set()
        self._left: dict[str, int] = {}

    def refuse(self, image: str, after: int) -> None:
        """Attach an image on so many nodes, and on no other."""
        self._left[image] = after

    async def run(self) -> None:
        """Play until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WRITERS):
                group.create_task(self._write())
            async for event in watch(self._session, PODS, SCHEDULERS):
                self._see(event)

    def _see(self, event: Json) -> None:
        pod = event["object"]
        node, uid = pod["spec"].get("nodeName", ""), pod["metadata"]["uid"]
        kernel = self._kernels.setdefault(node, PlayedKernel())
        kernel.waiting.pop(uid, None)
        if event["type"] == "DELETED":
            kernel.pods.pop(uid, None)
        elif "deletionTimestamp" not in pod["metadata"] and _waits(pod):
            kernel.waiting[uid] = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        elif pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]:
            kernel.pods.setdefault(uid, pod["spec"]["containers"][0]["image"])
        if (self._change(kernel) or (kernel.waiting and not kernel.attached)) and node not in self._queued:
            self._queued.add(node)
            self._changed.put_nowait(node)

    def _change(self, kernel: PlayedKernel) -> bool:
        """Detach what is gone, and attach what runs; whether something changed."""
        now, stamp = time.monotonic(), f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        before = kernel.attached
        if kernel.attached and kernel.attached not in kernel.pods:
            kernel.attached, kernel.left_at = "", now
            kernel.detach = {"ops": OPS, "time": stamp, "enableSeq": kernel.enable_seq}
        for uid, image in kernel.pods.items() if not kernel.attached else ():
            if self._left.get(image, 1) <= 0:
                continue
            if image in self._left:
                self._left[image] -= 1
            kernel.attached, kernel.since = uid, stamp
            kernel.enable_seq += 1
            kernel.gap = None if kernel.left_at is None else round((now - kernel.left_at) * 1000)
            break
        return kernel.attached != before

    async def _write(self) -> None:
        while True:
            node = await self._changed.get()
            self._queued.discard(node)
            kernel = self._kernels[node]
            async with kernel.agent:
                if kernel.waiting and not kernel.attached:
                    _, path = kernel.waiting.popitem()
                    await self._let_go_on(path)
                told = kernel.describe(), kernel.detach
                if told != kernel.told:
                    kernel.told = told
                    await report(self._session, int(node.removeprefix("kwok-")), *told)

    async def _let_go_on(self, pod: str) -> None:
        patch = {"metadata": {"annotations": {FREE: "true"}}}
        headers = {"Content-Type": "application/merge-patch+json"}
        async with self._session.patch(pod, data=json.dumps(patch), headers=headers) as answer:
            if answer.status not in (200, 404):
                raise RuntimeError(f"{pod}: {await answer.text()}")


def _waits(pod: Json) -> bool:
    states = pod["status"].get("initContainerStatuses", [])
    return any("running" in found["state"] for found in states) and FREE not in pod["metadata"].get("annotations", {})


class IdleCounter:
    """Counts at every event of a watch how many nodes are without a scheduler."""

    def __init__(self, session: aiohttp.ClientSession, size: int) -> None:
        self._session = session
        self._size = size
        self._with: dict[str, set[str]] = {}  # by node, what says that it has one
        self.most = 0

    def restart(self) -> None:
        """Forget the maximum."""
        self.most = self.idle

    @property
    def idle(self) -> int:
        """How many are without now."""
        return self._size - len(self._with)

    async def watch_pods(self) -> None:
        """By the pods: one that is told to end does not count."""
        async for event in watch(self._session, PODS, SCHEDULERS):
            pod = event["object"]
            runs = event["type"] != "DELETED" and pod["status"].get("phase") == "Running"
            runs = runs and "deletionTimestamp" not in pod["metadata"]
            self._note(pod["spec"].get("nodeName", ""), pod["metadata"]["uid"], runs)

    async def watch_reports(self) -> None:
        """By the kernels' word."""
        async for event in watch(self._session, REPORTS):
            slot = event["object"].get("status", {}).get("slot", {})
            self._note(event["object"]["metadata"]["name"], "kernel", slot.get("state") == "enabled")

    def _note(self, node: str, what: str, has: bool) -> None:
        known = self._with.setdefault(node, set())
        (known.add if has else known.discard)(what)
        if not known:
            del self._with[node]
        self.most = max(self.most, self.idle)
