"""Verdicts that outlive the process: in a ConfigMap of the operator's own namespace, which no tenant can write.

What a resource's status says is never taken for a verdict: whoever may write statuses could make one up.
"""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from schedkit.errors import SchedkitError
from schedkit.sked.controller.verification import Acceptance
from schedkit.sked.kube.client import Client
from schedkit.sked.kube.logs import fields
from schedkit.sked.kube.objects import Applied, Model, Object, ObjectMeta
from schedkit.sked.kube.resources import Resource

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
NAME = "sked-verdicts"
KEY = "verdicts.json"
MOST = 2000  # the newest; a ConfigMap holds a megabyte
LONGEST_SIGNER = 200
PACE_SECONDS = 2.0
RETRY_SECONDS = 60.0

_logger = logging.getLogger(__name__)


class _Map(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}


class _AppliedMap(Applied, frozen=True):
    data: dict[str, str]


class Verdicts:
    """Which images were accepted, and by which policy; of each image the last verdict."""

    def __init__(self, client: Client, namespace: str, fence: Callable[[], None]) -> None:
        self._client = client
        self._namespace = namespace
        self._fence = fence
        self._known: dict[str, Acceptance] = {}  # by repository@digest, the oldest first
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._known)

    def find(self, image: str, policy: str) -> Acceptance | None:
        """The verdict on an image, if it was reached by this policy."""
        found = self._known.get(image)
        return found if found and found.policy == policy else None

    def put(self, image: str, verdict: Acceptance) -> None:
        """Keep a verdict."""
        self._known.pop(image, None)
        self._known[image] = verdict
        while len(self._known) > MOST:
            del self._known[next(iter(self._known))]
        self._changed.set()

    async def load(self) -> None:
        """Read what was kept; where that is not possible, everything is verified again."""
        try:
            found = await self._client.fetch(CONFIG_MAPS, _Map, NAME, namespace=self._namespace)
            kept = msgspec.json.decode(found.data.get(KEY, "{}"), type=dict[str, Acceptance])
        except (SchedkitError, msgspec.DecodeError) as error:
            self._tell("cannot read the verdicts that were kept", error)
            return
        self._known = kept | self._known

    async def run(self) -> None:
        """Write what changed, not too often, until cancelled."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(PACE_SECONDS)
            self._changed.clear()
            try:
                await self._write()
            except SchedkitError as error:
                self._tell("cannot keep verdicts", error)
                await asyncio.sleep(RETRY_SECONDS)
                self._changed.set()

    async def _write(self) -> None:
        self._fence()
        kept = {
            image: msgspec.to_builtins(verdict) | {"signer": verdict.signer[:LONGEST_SIGNER]}
            for image, verdict in self._known.items()
        }
        body = _AppliedMap(
            CONFIG_MAPS.api_version,
            CONFIG_MAPS.kind,
            ObjectMeta(name=NAME, namespace=self._namespace),
            {KEY: msgspec.json.encode(kept).decode()},
        )
        await self._client.apply(CONFIG_MAPS, Object, NAME, body, namespace=self._namespace, force=True)

    def _tell(self, what: str, error: Exception) -> None:
        name = f"{self._namespace}/{NAME}"
        _logger.warning(what, extra=fields(configmap=name, error=getattr(error, "message", str(error))))
