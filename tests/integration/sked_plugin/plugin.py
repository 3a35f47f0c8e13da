"""`kubectl scx` as a process, and a cluster as the operator and the agents would leave it."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.cluster import Cluster
from lab.waiting import wait_for
from tests.integration.clusters import read_api, read_object

ROOT = Path(__file__).parents[3]
# A shell that starts tests in the background has Ctrl-C ignored, by all that they start.
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from schedkit.sked.plugin.main import main; main()
"""
SECONDS = 60.0
CRDS = ROOT / "config/crd"
SERVED = "/apis/sked.schedkit.io/v1/schedexts"
SLOT = "sked.schedkit.io/slot"
Json = dict[str, Any]


class Plugin:
    """The program, as the administrator or as somebody else."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def run(self, *words: str, kubeconfig: Path | None = None) -> "subprocess.CompletedProcess[str]":
        process = self.start(*words, kubeconfig=kubeconfig)
        stdout, stderr = process.communicate(timeout=SECONDS)
        return subprocess.CompletedProcess(words, process.returncode, stdout, stderr)

    def start(self, *words: str, kubeconfig: Path | None = None) -> "subprocess.Popen[str]":
        environment = dict(os.environ) | {
            "PYTHONPATH": str(ROOT / "src"),
            "KUBECONFIG": str(kubeconfig or self.cluster.admin_kubeconfig),
        }
        command = [sys.executable, "-c", PROGRAM, *words]
        return subprocess.Popen(
            command,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=1,
        )

    def apply(self, *objects: Json, options: tuple[str, ...] = ()) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.cluster.kubectl("apply", *options, "-f", "-", input=json.dumps(listed))

    def patch(self, kind: str, name: str, body: Json, *options: str) -> None:
        self.cluster.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps(body), *options)

    def read(self, kind: str, name: str) -> Json:
        found = read_object(self.cluster, kind, name)
        assert found is not None
        return found

    def add_resource(self, name: str = "web", **spec: Any) -> Json:
        """A SchedExt with a rollout of three steps."""
        whole = {"sched": "example.com/scx_rusty:2", "rollout": {"steps": [{"nodes": 1}, {"pause": {}}]}} | spec
        metadata = {"name": name, "namespace": "default"}
        self.apply({"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExt", "metadata": metadata, "spec": whole})
        return self.read("schedext", name)

    def tell(self, phase: str, updated: int = 0, *, name: str = "web", **rollout: Any) -> None:
        """Write a status as the operator does."""
        resource = self.read("schedext", name)
        generation = resource["metadata"]["generation"]
        ready = {
            "type": "Ready",
            "status": "True" if phase == "Complete" else "False",
            "reason": phase,
            "message": f"{updated} of 2 nodes are attached",
            "lastTransitionTime": tell_time(),
            "observedGeneration": generation,
        }
        counts = {"updated": updated, "attached": updated, "failed": 0, "quarantined": 0, "skipped": 0}
        told = {"phase": phase, "since": tell_time(), "nodes": counts}
        told |= {"currentRevision": f"{name}-aaaaaaaaaa", "updateRevision": f"{name}-bbbbbbbbbb"} | rollout
        pool = {"name": "", "image": "example.com/scx_rusty:2", "nodes": {"desired": 2}, "rollout": told}
        status = {"observedGeneration": generation, "summary": phase, "conditions": [ready], "pools": [pool]}
        self.patch("schedext", name, {"status": status}, "--subresource=status")

    def judge(self, status: str, reason: str, message: str) -> None:
        """Say of the images what the operator would, in answer to the last request."""
        resource = self.read("schedext", "web")
        metadata = resource["metadata"]
        verified = {"type": "Verified", "status": status, "reason": reason, "message": message}
        verified |= {"lastTransitionTime": tell_time(), "observedGeneration": metadata["generation"]}
        others = [one for one in resource["status"]["conditions"] if one["type"] != "Verified"]
        asked = metadata["annotations"].get("sked.schedkit.io/refresh", "")
        body = {"conditions": [*others, verified], "lastHandledRefresh": asked}
        self.patch("schedext", "web", {"status": body}, "--subresource=status")

    def add_revision(self, resource: Json, name: str, image: str) -> None:
        metadata = resource["metadata"]
        owner = {"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExt", "controller": True}
        labels = {"managed-by": "sked-controller", "sked.schedkit.io/claim": metadata["name"]}
        pods = {"metadata": {"labels": {"name": name}}, "spec": {"containers": [{"name": "scx", "image": image}]}}
        self.apply(
            {
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "labels": labels,
                    "ownerReferences": [owner | {"name": metadata["name"], "uid": metadata["uid"]}],
                },
                "spec": {"selector": {"matchLabels": {"name": name}}, "template": pods},
            }
        )

    def add_node(self, name: str, slot: str = "") -> None:
        """A node that is ready; `slot` as sked would have written it."""
        said = {SLOT: slot} if slot else {}
        self.apply(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": said, "annotations": said}}
        )
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "fine"}
        self.patch("node", name, {"status": {"conditions": [ready]}}, "--subresource=status")

    def report(self, name: str, state: str = "enabled", ops: str = "rusty", seq: int = 1, **more: Any) -> None:
        """Write a report as the agent does, and whose node it is as the operator does."""
        self.apply({"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExtNode", "metadata": {"name": name}})
        slot = {"state": state, "ops": ops or None, "enableSeq": seq, "since": tell_time()}
        status = {"kernel": {"release": "6.12.9", "supported": "True"}, "slot": slot, "schedExt": "default/web"}
        self.patch("schedextnode", name, {"status": status | more}, "--subresource=status")

    def add_pod(self, name: str, node: str, labels: Json, status: Json) -> None:
        containers = [{"name": "scx", "image": "example.com/scx_rusty:2"}]
        spec = {"nodeName": node, "containers": containers, "tolerations": [{"operator": "Exists"}]}
        metadata = {"name": name, "namespace": "default", "labels": labels}
        self.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        self.patch("pod", name, {"status": status}, "--subresource=status")


def install(cluster: Cluster) -> None:
    """Have sked's kinds served."""
    cluster.kubectl("apply", "-k", str(CRDS))
    wait_for("the kind to be served", lambda: read_api(cluster, SERVED) is not None, 60)


def tell_time() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
