"""A cluster in memory that moves: a DaemonSet controller, a garbage collector and kubelets around the real controller.

Where a DaemonSet controller starts pods is asked of the real one in tests/integration/sked_api/test_placement.py.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from schedkit.sked.api.selectors import parse_selector
from schedkit.sked.controller.objects import DaemonSet, Node
from schedkit.sked.controller.scheduling import judge_node
from schedkit.sked.kube.objects import Key
from tests.unit.sked_controller.world import Json, World

READY = [{"type": "Ready", "status": "True"}]


class Cluster(World):
    """A world whose DaemonSets get pods. Pods that are told to go stay until `end_pods`."""

    def __init__(self, before: "Cluster | None" = None, **options: Any) -> None:
        self.stuck: set[str] = before.stuck if before else set()  # nodes whose kubelet is dead
        self.refused_daemonsets: set[str] = set()  # whose pods an admission plugin refuses
        self.broken: set[str] = set()  # DaemonSets whose new pods never become ready
        super().__init__(before, **options)

    def work(self) -> list[str]:
        """Let everybody work until nothing happens any more; what the controller wrote meanwhile."""
        writes = []
        for _ in range(60):
            done = self.run()
            moved = self.move()
            self.check()
            ended = self.end_pods()
            writes += done
            if not (done or moved or ended):
                return writes
        raise AssertionError(f"no end: {writes[-20:]}")

    def move(self) -> bool:
        """One turn of the DaemonSet controller and of the garbage collector; whether they did anything."""
        before = self._version
        for key in [key for key, found in self.objects["daemonsets"].items() if self._is_orphan(found)]:
            self.remove("daemonsets", key.name)
        uids = {found["metadata"]["uid"] for found in self.objects["daemonsets"].values()}
        for pod in list(self.objects["pods"].values()):
            if pod["metadata"]["ownerReferences"][0]["uid"] not in uids:
                self.end_pod(pod["metadata"]["name"])
        for document in list(self.objects["daemonsets"].values()):
            self._control(document)
        return self._version != before

    def end_pods(self) -> bool:
        """Have all pods that are told to go, and whose kubelet lives, be gone."""
        going = [pod for pod in self.objects["pods"].values() if "deletionTimestamp" in pod["metadata"]]
        gone = [pod for pod in going if pod["spec"]["nodeName"] not in self.stuck]
        for pod in gone:
            self.remove("pods", pod["metadata"]["name"])
        return bool(gone)

    def check(self) -> None:
        """What must hold at every moment: here, that a value means a claim that accepts it, and no other."""
        claims = [claim for key in self.objects["schedexts"] for claim in self.known.placement.claims(key)]
        accepted = {claim.identity: self.known.accepts(claim) for claim in claims}
        values = {"", "none", "pending", "stranger", *self.slots().values()}.union(*accepted.values())
        for claim in claims:
            meant = {value for value in values if self.known.is_meant(claim, value)}
            assert meant == set(accepted[claim.identity])

    def free_namespace(self) -> None:
        """Allow the resources of the namespace any priority."""
        self.put("namespaces", {"metadata": {"name": "default"}})

    def look(self, name: str) -> None:
        """Have a resource's turn come, as when a timer is due."""
        self._wake(Key("default", name))

    def look_at_node(self, name: str) -> None:
        """Have a node's turn come, as when a timer is due."""
        self._wake(name)

    def on(self, node: str) -> list[str]:
        """The DaemonSets with pods on a node."""
        found = [pod["metadata"] for pod in self.objects["pods"].values() if pod["spec"]["nodeName"] == node]
        owners = (metadata["ownerReferences"][0] for metadata in found)
        return sorted(owner["name"] for owner in owners if owner.get("controller"))

    def uids(self, daemonset: str) -> dict[str, str]:
        """The pods of a DaemonSet by node."""
        found = self.pods_of(self.get("daemonsets", daemonset))
        return {pod["spec"]["nodeName"]: pod["metadata"]["uid"] for pod in found}

    def slots(self) -> dict[str, str]:
        """What the nodes say of their slot."""
        return {
            node["metadata"]["name"]: value
            for node in self.objects["nodes"].values()
            if (value := node["metadata"].get("labels", {}).get("sked.schedkit.io/slot"))
        }

    def label(self, name: str, **labels: str | None) -> None:
        """What `kubectl label node` does; `slot` is the label of that name, None takes a label away."""
        node = self.get("nodes", name)
        kept = dict(node["metadata"]["labels"])
        for label, value in labels.items():
            key = "sked.schedkit.io/slot" if label == "slot" else label
            kept.pop(key, None)
            kept.update({key: value} if value is not None else {})
        self.change("nodes", name, metadata=node["metadata"] | {"labels": kept})

    def _is_orphan(self, daemonset: Json) -> bool:
        owner = next(iter(daemonset["metadata"].get("ownerReferences", ())), None)
        resource = self.objects["schedexts"].get(Key("default", owner["name"])) if owner else None
        return owner is not None and (resource is None or resource["metadata"]["uid"] != owner["uid"])

    def _control(self, document: Json) -> None:
        name = document["metadata"]["name"]
        daemonset = msgspec.convert(document, DaemonSet)
        pod = daemonset.spec.template.spec
        selector = parse_selector(pod.node_selector, pod.affinity)
        here = {found["spec"]["nodeName"]: found for found in self.pods_of(document)}
        for node in list(self.objects["nodes"].values()):
            node_name = node["metadata"]["name"]
            fit = judge_node(selector, pod.tolerations, msgspec.convert(node, Node))
            if name in self.refused_daemonsets:
                continue
            if fit.starts and node_name not in here and not self._has_going(document, node_name):
                self.add_pod(name, node_name, phase="Running", conditions=[] if name in self.broken else READY)
            elif not fit.stays and node_name in here:
                self.end_pod(here[node_name]["metadata"]["name"])
        for gone in here.keys() - set(self.names("nodes")):
            self.end_pod(here[gone]["metadata"]["name"])
        self._roll(document)
        self.count(name)

    def _roll(self, document: Json) -> None:
        """RollingUpdate: one pod of an older template at a time."""
        if document["spec"]["updateStrategy"]["type"] != "RollingUpdate":
            return
        newest = self.hash_of(document["spec"]["template"])
        old = [pod for pod in self.pods_of(document) if pod["metadata"]["labels"]["controller-revision-hash"] != newest]
        if old and not any(self._has_going(document, node) for node in self.names("nodes")):
            self.end_pod(old[0]["metadata"]["name"])

    def _has_going(self, daemonset: Json, node: str) -> bool:
        uid = daemonset["metadata"]["uid"]
        return any(
            pod["metadata"]["ownerReferences"][0]["uid"] == uid
            for pod in self._going()
            if pod["spec"]["nodeName"] == node
        )

    def _going(self) -> Iterator[Json]:
        return (pod for pod in self.objects["pods"].values() if "deletionTimestamp" in pod["metadata"])
