"""A cluster in memory around the real controller: what is written is kept as an API server keeps it, and seen at once.

The same behaviour on a real API server is proven in tests/integration/sked_controller.
"""

import asyncio
import atexit
import copy
from collections import deque
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from schedkit.sked.controller.lastwords import LastWords
from schedkit.sked.controller.reconciler import Reconciler
from schedkit.sked.controller.telling import Teller
from schedkit.sked.controller.watching import connect, watch_cluster
from schedkit.sked.kube.client import Client, Preconditions
from schedkit.sked.kube.errors import ApiError, Status, make_api_error
from schedkit.sked.kube.informer import Informer
from schedkit.sked.kube.objects import Key, ObjectMeta
from schedkit.sked.kube.resources import Resource
from schedkit.sked.kube.workers import Result
from tests.unit.sked_controller.making import fill_defaults

Json = dict[str, Any]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CAP = 200  # reconciliations: a controller that is not done by then never is
_loop = asyncio.new_event_loop()  # one for all turns of a world: its queues belong to the loop they were first used in
atexit.register(_loop.close)


def refusal(code: int, reason: str, message: str = "no") -> ApiError:
    return make_api_error(Status(code=code, reason=reason, message=message), "apply")


class World:
    """The objects by plural and key, the controller that watches them, and each write that it made or tried."""

    def __init__(self, before: "World | None" = None) -> None:
        self.objects: dict[str, dict[Key, Json]] = before.objects if before else {}
        self.writes: list[str] = []
        self.bodies: list[Any] = []
        self.events: list[tuple[str, str, str]] = []
        self.results: dict[Key, Result | None] = {}
        self.refusals: dict[str, ApiError] = {}  # by the beginning of a write
        self.logs: dict[str, str | ApiError] = {}  # by pod
        self._version: int = before._version if before else 0
        self._queue: deque[Key] = deque()
        client = cast(Client, self)
        watching = watch_cluster(client, ())
        self.informers: dict[str, Informer[Any]] = {found.resource.plural: found for found in watching.world.informers}
        self._crash_logs = LastWords(client, self._wake)
        self._reconciler = Reconciler(
            client, watching.world, Teller(client, self._record, lambda: NOW), self._crash_logs, lambda: NOW
        )
        connect(watching, self._wake, self._reconciler.blocked, self._crash_logs.forget)
        for plural, informer in self.informers.items():
            for document in self.objects.setdefault(plural, {}).values():
                self._show(plural, document)
            for stream in informer._streams:
                stream.synced.set()

    def put(self, plural: str, document: Json) -> Json:
        """Store an object as the API server does, and have the controller see it."""
        metadata = document["metadata"] = {"namespace": "default"} | document["metadata"]
        key = Key(metadata["namespace"], metadata["name"])
        old = self.objects[plural].get(key, {})
        self._version += 1
        born = {"uid": f"uid-{self._version}", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 0}
        kept = {name: old.get("metadata", {}).get(name, value) for name, value in born.items()}
        kept["generation"] += old.get("spec") != document.get("spec")
        metadata |= kept | {"resourceVersion": str(self._version)}
        self.objects[plural][key] = document
        self._show(plural, document)
        return document

    def change(self, plural: str, name: str, **parts: Any) -> None:
        """Replace parts of an object, as somebody else would."""
        self.put(plural, self.get(plural, name) | parts)

    def get(self, plural: str, name: str) -> Json:
        return self.objects[plural][Key("default", name)]

    def names(self, plural: str) -> list[str]:
        return [key.name for key in self.objects[plural]]

    def remove(self, plural: str, name: str) -> None:
        """Delete an object for good."""
        del self.objects[plural][Key("default", name)]
        self.informers[plural].remove(Key("default", name))

    def apply_resource(self, name: str = "one", **spec: Any) -> None:
        """What `kubectl apply` of a SchedExt does."""
        old = self.objects["schedexts"].get(Key("default", name), {})
        document = {"metadata": {"name": name}, "spec": {"sched": "example.com/scx_rusty:1"} | spec}
        self.put("schedexts", document | ({"status": old["status"]} if "status" in old else {}))

    def add_pod(self, daemonset: str, node: str, **status: Any) -> None:
        """One pod of a DaemonSet, with what a kubelet says of it."""
        uid = self.get("daemonsets", daemonset)["metadata"]["uid"]
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": daemonset, "uid": uid, "controller": True}
        metadata = {"name": f"{daemonset}-{node}", "ownerReferences": [owner]}
        self.put("pods", {"metadata": metadata, "spec": {"nodeName": node}, "status": status})

    def roll_out(self, name: str, desired: int = 3, ready: int = 3) -> None:
        """What the DaemonSet controller does in the end."""
        generation = self.get("daemonsets", name)["metadata"]["generation"]
        counts = {"observedGeneration": generation, "desiredNumberScheduled": desired, "numberReady": ready}
        counts |= {"currentNumberScheduled": desired, "updatedNumberScheduled": desired}
        self.change("daemonsets", name, status=counts | {"numberUnavailable": desired - ready})

    def run(self) -> list[str]:
        """Let the controller work until it has nothing to do; the writes that it made or tried meanwhile."""
        _loop.run_until_complete(self._work())
        done, self.writes = self.writes, []
        return done

    def condition(self, name: str, type: str) -> tuple[str, str]:
        found = {found["type"]: found for found in self.get("schedexts", name)["status"]["conditions"]}
        return found[type]["status"], found[type]["reason"]

    def message(self, name: str, type: str) -> str:
        (found,) = (found for found in self.get("schedexts", name)["status"]["conditions"] if found["type"] == type)
        return str(found["message"])

    # --- what the controller calls ----------------------------------------------------------------------------------

    async def apply(
        self, resource: Resource, type: type[Any], name: str, body: object, *, status: bool = False, **options: Any
    ) -> Any:
        sent: Json = msgspec.json.decode(msgspec.json.encode(body))
        what = f"{resource.plural}/status" if status else resource.plural
        self._note(f"apply {what} {name}{' force' if options['force'] and not status else ''}", sent)
        old = self.objects[resource.plural].get(Key("default", name))
        if status:
            if old is None:
                raise refusal(404, "NotFound")
            return msgspec.convert(self.put(resource.plural, old | {"status": sent["status"]}), type)
        if old and not options["force"]:
            raise refusal(409, "Conflict")
        fill_defaults(sent)
        if old:  # what others added stays
            for part in ("labels", "annotations"):
                sent["metadata"][part] = old["metadata"].get(part, {}) | sent["metadata"].get(part, {})
            sent["status"] = old.get("status", {})
        return msgspec.convert(self.put(resource.plural, sent), type)

    async def patch(self, resource: Resource, type: type[Any], name: str, body: object, **options: Any) -> Any:
        assert (options["kind"], options["status"]) == ("json", True)
        test, add = msgspec.json.decode(msgspec.json.encode(body))
        self._note(f"patch {resource.plural}/status {name}", body)
        assert test["value"] == self.get(resource.plural, name)["metadata"]["uid"]
        return msgspec.convert(
            self.put(resource.plural, self.get(resource.plural, name) | {"status": add["value"]}), type
        )

    async def delete(self, resource: Resource, name: str, *, preconditions: Preconditions, **_options: Any) -> None:
        self._note(f"delete {resource.plural} {name}", None)
        old = self.objects[resource.plural].get(Key("default", name))
        if old is None or old["metadata"]["uid"] != preconditions.uid:
            raise refusal(404 if old is None else 409, "")
        if any(f"{name}-" in pod for pod in self.names("pods")):  # it goes when they have gone
            going = old["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}
            self.put(resource.plural, old | {"metadata": going})
        else:
            self.remove(resource.plural, name)

    async def fetch(self, resource: Resource, type: type[Any], name: str, **_options: Any) -> Any:
        if Key("default", name) not in self.objects[resource.plural]:
            raise refusal(404, "NotFound")
        return msgspec.json.decode(msgspec.json.encode(self.get(resource.plural, name)), type=type)

    async def fetch_text(self, resource: Resource, name: str, **_options: Any) -> str:
        found = self.logs[name]
        if isinstance(found, ApiError):
            raise found
        return found

    # --- inside -----------------------------------------------------------------------------------------------------

    def _show(self, plural: str, document: Json) -> None:
        informer = self.informers[plural]
        item = informer.decode(msgspec.Raw(msgspec.json.encode(document)))
        if item is not None:
            informer.put(item)

    def _wake(self, key: Key) -> None:
        if key not in self._queue:
            self._queue.append(key)

    def _record(self, metadata: ObjectMeta, kind: str, reason: str, note: str) -> None:
        self.events.append((metadata.name, kind, reason))

    def _note(self, write: str, body: object) -> None:
        self.writes.append(write)
        self.bodies.append(copy.deepcopy(body))
        for beginning, error in self.refusals.items():
            if write.startswith(beginning):
                raise error

    async def _work(self) -> None:
        reading = asyncio.ensure_future(self._crash_logs.run())
        try:
            for _ in range(CAP):
                for _ in range(20):
                    await asyncio.sleep(0)  # logs are read beside
                if not self._queue:
                    return
                key = self._queue.popleft()
                self.results[key] = await self._reconciler.reconcile(key)
            raise AssertionError(f"no end after {CAP} reconciliations: {self.writes[-10:]}")
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


def running(**spec: Any) -> World:
    """A world with one resource that is Ready, and nothing left to do."""
    world = World()
    world.apply_resource(**spec)
    world.run()
    world.roll_out("one")
    world.run()
    assert world.condition("one", "Ready") == ("True", "Ready")
    return world


def foreign(**metadata: Any) -> Json:
    """A DaemonSet of somebody else's under the name of the resource `one`."""
    labels = {"app": "theirs"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "example.com/a:1"}]}}
    document = {
        "metadata": {"name": "one"} | metadata,
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    fill_defaults(document)
    return document
