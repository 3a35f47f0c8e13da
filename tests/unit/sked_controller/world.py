"""A cluster in memory around the real controller: what is written is kept as an API server keeps it, and seen at once.

The same behaviour on a real API server is proven in tests/integration/sked_controller.
"""

import asyncio
import atexit
import copy
import hashlib
import json
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec

from schedkit.sked.api.requests import NEXT, QUARANTINE, SLOT
from schedkit.sked.controller.announcements import Announcer
from schedkit.sked.controller.crash_logs import CrashLogs
from schedkit.sked.controller.execute import Executor
from schedkit.sked.controller.informers import make_informers, make_world
from schedkit.sked.controller.judgements import Judgements
from schedkit.sked.controller.reconciler import Reconciler
from schedkit.sked.controller.revisions import RevisionCache
from schedkit.sked.controller.rollout_metrics import RolloutMetrics
from schedkit.sked.controller.status_writer import StatusWriter
from schedkit.sked.controller.wiring import Wiring
from schedkit.sked.kube.client import Client, Preconditions
from schedkit.sked.kube.errors import ApiError, ApiStatus, make_api_error
from schedkit.sked.kube.informer import Informer
from schedkit.sked.kube.lease import LeadershipLostError
from schedkit.sked.kube.metrics import MetricsRegistry
from schedkit.sked.kube.objects import Key, Object, ObjectMeta
from schedkit.sked.kube.resources import Resource
from schedkit.sked.kube.workers import Result
from tests.unit.sked_controller.making import fill_defaults

Json = dict[str, Any]
AGENTS_NAMESPACE = "sked-system"
AGENTS = "agents"
REPORT = "report of "  # before the name of a node whose report is to be looked at
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SOON = 30.0  # seconds: a status that was written too recently waits for no longer
CAP = 2000  # reconciliations: a controller that is not done by then never is
_loop = asyncio.new_event_loop()  # one for all turns of a world: its queues belong to the loop they were first used in
atexit.register(_loop.close)


def refusal(code: int, reason: str, message: str = "no") -> ApiError:
    return make_api_error(ApiStatus(code=code, reason=reason, message=message), "apply")


class World:
    """The objects by plural and key, the controller that watches them, and each write that it made or tried."""

    def __init__(self, before: "World | None" = None, namespaces: tuple[str, ...] = (), verifier: Any = None) -> None:
        self.objects: dict[str, dict[Key, Json]] = before.objects if before else {}
        self.writes: list[str] = []
        self.bodies: list[Any] = []
        self.events: list[tuple[str, str, str]] = []
        self.node_events: list[tuple[str, str, str]] = []
        self.notes: list[str] = []  # of both
        self.registry = MetricsRegistry()
        self.leads = True
        self.patience = SOON
        self.results: dict[Key | str, Result | None] = {}
        self.refusals: dict[str, ApiError] = {}  # by the beginning of a write
        self.logs: dict[str, str | ApiError] = {}  # by pod
        self.theirs: dict[str, Json] = before.theirs if before else {}  # fields of pods that others own, by DaemonSet
        self.templates: dict[str, Json] = before.templates if before else {}  # by hash
        self._applied: dict[str, Json] = before._applied if before else {}  # by node: the metadata that was sent last
        self.now: datetime = before.now if before else NOW
        self._version: int = before._version if before else 0
        self._queue: deque[Key | str] = deque()  # a node is a string
        client = cast(Client, self)
        informers = make_informers(client, AGENTS_NAMESPACE)
        everything = (*informers.needed, *informers.optional)
        self.informers: dict[str, Informer[Any]] = {found.resource.plural: found for found in everything}
        # Agents are pods by labels that only the API server looks at.
        self.informers |= {"pods": informers.pods, AGENTS: informers.agents}
        self.known = make_world(informers, namespaces)
        self.known.verified = set() if verifier and verifier.mode == "enforce" else None
        self._crash_logs = CrashLogs(client, self._wake)
        self._revisions = RevisionCache(client, self._wake)
        self.judgements = Judgements(self.known.sight)
        announcer = Announcer(self._record, self._record_node, self.registry)
        status_writer = StatusWriter(client, self._record, lambda: self.now, self._fence, clock=self._tell_time)
        wiring = Wiring(
            self.known,
            wake=self._wake,
            wake_soon=self._wake,
            wake_node=self._wake,
            wake_report=lambda name: self._wake(f"{REPORT}{name}"),
            forget_pod=self._crash_logs.forget,
            forget_node=self.judgements.forget_node,
            forget_daemonset=self._revisions.forget,
            forget_resource=status_writer.forget,
            ceiling=0,
            now=lambda: self.now,
        )
        self._reconciler = Reconciler(
            self.known,
            wiring,
            Executor(client, self._fence),
            status_writer,
            self._crash_logs,
            self._revisions,
            self.judgements,
            announcer,
            lambda: self.now,
            RolloutMetrics(self.registry),
            lambda _: 0.0,
            verifier,
        )
        wiring.connect(informers)
        for plural, informer in self.informers.items():
            for document in self.objects.setdefault(plural, {}).values():
                self._show(plural, document)
            for stream in informer._streams:
                stream.synced.set()
            informer.sync_changed()

    def put(self, plural: str, document: Json) -> Json:
        """Store an object as the API server does, and have the controller see it."""
        metadata = document["metadata"] = {"namespace": namespace_of(plural)} | document["metadata"]
        key = Key(metadata["namespace"], metadata["name"])
        old = self.objects[plural].get(key, {})
        self._version += 1
        born = {"uid": f"uid-{self._version}", "creationTimestamp": f"{self.now:%Y-%m-%dT%H:%M:%SZ}", "generation": 0}
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
        return self.objects[plural][Key(namespace_of(plural), name)]

    def names(self, plural: str) -> list[str]:
        return [key.name for key in self.objects[plural]]

    def remove(self, plural: str, name: str) -> None:
        """Delete an object for good."""
        key = Key(namespace_of(plural), name)
        del self.objects[plural][key]
        self._version += 1
        self.informers[plural].remove(key)

    def apply_resource(self, name: str = "one", **spec: Any) -> None:
        """What `kubectl apply` of a SchedExt does."""
        old = self.objects["schedexts"].get(Key("default", name), {})
        document = {"metadata": {"name": name}, "spec": {"sched": "example.com/scx_rusty:1"} | spec}
        self.put("schedexts", document | ({"status": old["status"]} if "status" in old else {}))

    def add_node(self, name: str, labels: Json | None = None, taints: Sequence[Json] = (), ready: bool = True) -> None:
        """A node as its kubelet registers it."""
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name} | (labels or {})}
        self.put(
            "nodes", {"metadata": metadata, "spec": {"taints": list(taints)}, "status": {"conditions": conditions}}
        )

    def add_pod(self, daemonset: str, node: str, **status: Any) -> None:
        """One pod of a DaemonSet, with what a kubelet says of it."""
        found = self.get("daemonsets", daemonset)
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": daemonset, "uid": found["metadata"]["uid"]}
        template = found["spec"]["template"]
        labels = template["metadata"].get("labels", {}) | {"controller-revision-hash": self.hash_of(template)}
        metadata = {
            "name": f"{daemonset}-{node}",
            "ownerReferences": [owner | {"controller": True}],
            "labels": labels,
        }
        self.put("pods", {"metadata": metadata, "spec": template["spec"] | {"nodeName": node}, "status": status})

    def roll_out(self, name: str, desired: int = 3, ready: int = 3) -> None:
        """What the DaemonSet controller and kubelets do in the end, on so many nodes."""
        found = self.get("daemonsets", name)
        labels = found["spec"]["template"]["spec"].get("nodeSelector", {})
        for number in range(1, desired + 1):
            node = f"node-{'-'.join((*labels.values(), str(number)))}"
            self.add_node(node, labels)
            self.add_pod(name, node, phase="Running", conditions=[{"type": "Ready", "status": str(number <= ready)}])
        self.count(name)

    def count(self, name: str) -> None:
        """Have a DaemonSet's status tell of its pods, as the DaemonSet controller does."""
        found = self.get("daemonsets", name)
        pods = self.pods_of(found)
        newest = self.hash_of(found["spec"]["template"])
        fresh = [pod for pod in pods if pod["metadata"]["labels"]["controller-revision-hash"] == newest]
        counts = {"observedGeneration": found["metadata"]["generation"], "desiredNumberScheduled": len(pods)}
        status = counts | {"updatedNumberScheduled": len(fresh)}
        if found.get("status") != status:
            self.change("daemonsets", name, status=status)

    def pods_of(self, daemonset: Json) -> list[Json]:
        """The pods that a DaemonSet made and that are not going."""
        uid = daemonset["metadata"]["uid"]
        return [
            pod
            for pod in self.objects["pods"].values()
            if (owner := pod["metadata"]["ownerReferences"][0])["uid"] == uid
            and owner.get("controller")
            and "deletionTimestamp" not in pod["metadata"]
        ]

    def hash_of(self, template: Json) -> str:
        """The hash that the DaemonSet controller puts on pods of a template, remembered as a ControllerRevision."""
        digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]
        self.templates[digest] = copy.deepcopy(template)
        return digest

    def run(self) -> list[str]:
        """Let the controller work until it has nothing to do; the writes that it made or tried meanwhile."""
        self.now += timedelta(minutes=1)
        _loop.run_until_complete(self._work())
        done, self.writes = self.writes, []
        return done

    def condition(self, name: str, type: str) -> tuple[str, str]:
        found = {found["type"]: found for found in self.get("schedexts", name)["status"]["conditions"]}
        return found[type]["status"], found[type]["reason"]

    def metric(self, name: str) -> list[str]:
        """The samples whose names begin so."""
        return [line for line in self.registry.render().decode().splitlines() if line.startswith(name)]

    def message(self, name: str, type: str) -> str:
        (found,) = (found for found in self.get("schedexts", name)["status"]["conditions"] if found["type"] == type)
        return str(found["message"])

    # --- what the controller calls ----------------------------------------------------------------------------------

    async def apply(
        self, resource: Resource, type: type[Any], name: str, body: object, *, status: bool = False, **options: Any
    ) -> Any:
        sent: Json = msgspec.json.decode(msgspec.json.encode(body))
        if resource.plural == "nodes":
            return self._label_node(name, sent)
        what = f"{resource.plural}/status" if status else resource.plural
        self._note(f"apply {what} {name}{' force' if options['force'] and not status else ''}", sent)
        old = self.objects[resource.plural].get(Key(namespace_of(resource.plural), name))
        if old and resource.plural == "schedextnodes":  # another manager's fields stay
            assert sent["metadata"]["uid"] == old["metadata"]["uid"]
            ours = ("schedExt", "quarantine", "ejections")
            kept = {field: value for field, value in old["status"].items() if field not in ours}
            sent["status"] = kept | sent.get("status", {})
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
            for field, value in self.theirs.get(name, {}).items():
                sent["spec"]["template"]["spec"].setdefault(field, value)
        return msgspec.convert(self.put(resource.plural, sent), type)

    async def create(self, resource: Resource, type: type[Any], body: object, **_options: Any) -> Any:
        sent: Json = msgspec.json.decode(msgspec.json.encode(body))
        self._note(f"create {resource.plural} {sent['metadata']['name']}", sent)
        return msgspec.convert(self.put(resource.plural, sent | {"status": {"phase": "Pending"}}), type)

    async def patch(self, resource: Resource, type: type[Any], name: str, body: object, **options: Any) -> Any:
        assert (options["kind"], options["status"]) == ("json", True)
        test, add = msgspec.json.decode(msgspec.json.encode(body))
        self._note(f"patch {resource.plural}/status {name}", body)
        assert test["value"] == self.get(resource.plural, name)["metadata"]["uid"]
        return msgspec.convert(
            self.put(resource.plural, self.get(resource.plural, name) | {"status": add["value"]}), type
        )

    async def delete(self, resource: Resource, name: str, *, preconditions: Preconditions, **options: Any) -> None:
        self._note(f"delete {resource.plural} {name}", None)
        old = self.objects[resource.plural].get(Key("default", name))
        if old is None or old["metadata"]["uid"] != preconditions.uid:
            raise refusal(404 if old is None else 409, "")
        if resource.plural == "pods":
            self.end_pod(name)
            return
        assert options["propagation"] == "Background"
        self.remove(resource.plural, name)

    def end_pod(self, name: str) -> None:
        """Have a pod go: the kubelet is told, and has its grace."""
        pod = self.get("pods", name)
        if "deletionTimestamp" not in pod["metadata"]:
            due = f"{self.now + timedelta(seconds=30):%Y-%m-%dT%H:%M:%SZ}"
            self.change("pods", name, metadata=pod["metadata"] | {"deletionTimestamp": due})

    def _label_node(self, name: str, sent: Json) -> Any:
        """Server-side apply to a node: what was applied before and is not sent any more goes."""
        value = sent["metadata"].get("annotations", {}).get(SLOT, "")
        label = sent["metadata"].get("labels", {}).get(SLOT)
        assert set(sent) == {"apiVersion", "kind", "metadata"}
        self._note(f"label {name} {value or 'nothing'}", sent)
        node = self.get("nodes", name)
        assert sent["metadata"]["uid"] == node["metadata"]["uid"]
        if sent["metadata"]["resourceVersion"] != node["metadata"]["resourceVersion"]:
            raise refusal(409, "Conflict")
        metadata = copy.deepcopy(node["metadata"])
        assert label in (value or None, metadata["labels"].get(SLOT)), "another label than the annotation says"
        written = dict(metadata.get("annotations", {}))
        for part in ("labels", "annotations"):
            held, before = metadata.setdefault(part, {}), self._applied.get(name, {}).get(part, {})
            for ours in (SLOT, NEXT, QUARANTINE):
                # What a person wrote since is theirs; what was sent last is not, also without the annotation.
                if held.get(ours) in (written.get(ours), before.get(ours)):
                    held.pop(ours, None)
            held.update(sent["metadata"].get(part, {}))
        self._applied[name] = sent["metadata"]
        return msgspec.convert(self.put("nodes", node | {"metadata": metadata}), Object)

    async def fetch(self, resource: Resource, type: type[Any], name: str, **_options: Any) -> Any:
        if resource.plural == "controllerrevisions":
            if error := self.refusals.get("fetch controllerrevisions"):
                raise error
            data = {"spec": {"template": self.templates[name.rpartition("-")[2]]}}
            return msgspec.convert({"metadata": {"name": name}, "data": data}, type)
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

    def _fence(self) -> None:
        if not self.leads:
            raise LeadershipLostError("no")

    def _tell_time(self) -> float:
        return self.now.timestamp()

    def _wake(self, key: Key | str) -> None:
        if key not in self._queue:
            self._queue.append(key)

    def _record(self, metadata: ObjectMeta, kind: str, reason: str, note: str) -> None:
        self.events.append((metadata.name, kind, reason))
        self.notes.append(note)

    def _record_node(self, metadata: ObjectMeta, kind: str, reason: str, note: str) -> None:
        self.node_events.append((metadata.name, kind, reason))
        self.notes.append(note)

    def _note(self, write: str, body: object) -> None:
        self.writes.append(write)
        self.bodies.append(copy.deepcopy(body))
        for beginning, error in self.refusals.items():
            if write.startswith(beginning):
                raise error

    async def _work(self) -> None:
        beside = [asyncio.ensure_future(task()) for task in (self._crash_logs.run, self._revisions.run)]
        try:
            for _ in range(CAP):
                for _ in range(20):
                    await asyncio.sleep(0)  # logs and revisions are read beside
                if not self._queue and not self._pass_time():
                    return
                key = self._queue.popleft()
                self.results[key] = await self._reconcile(key)
            raise AssertionError(f"no end after {CAP} reconciliations: {self.writes[-10:]}")
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def _reconcile(self, key: Key | str) -> Result | None:
        if not isinstance(key, str):
            return await self._reconciler.reconcile(key)
        if key.startswith(REPORT):
            return await self._reconciler.reconcile_report(key.removeprefix(REPORT))
        return await self._reconciler.reconcile_node(key)

    def _pass_time(self) -> bool:
        """Let the time pass until something is due, if that is soon."""
        due = {key: result.after_seconds for key, result in self.results.items() if result and result.after_seconds}
        soon = min(due, key=lambda key: due[key] or 0.0, default=None)
        if soon is None or (due[soon] or 0.0) > self.patience:
            return False
        self.now += timedelta(seconds=due[soon] or 0.0)
        self.results[soon] = None
        self._wake(soon)
        return True


def namespace_of(plural: str) -> str:
    if plural == AGENTS:
        return AGENTS_NAMESPACE
    return "" if plural in ("nodes", "namespaces", "schedextnodes") else "default"


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
