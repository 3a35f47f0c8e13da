"""An agent as a process beside a real control plane, with the token of a pod on its node and a made-up kernel."""

import http.client
import json
import os
import re
import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from lab.addresses import choose_free_ports
from lab.cluster import Cluster
from lab.process import Daemon
from lab.waiting import NotYetError, wait_for
from tests.integration.clusters import read_api
from tests.integration.sked_deploy.tools import AGENT, NAMESPACE, ROOT
from tests.unit.kernel.roots import FREE, write_files, write_sched_ext

REPORTS = "/apis/sked.schedkit.io/v1/schedextnodes"
PROGRAM = "from schedkit.sked.cli import main; main()"
SECONDS = 60.0
Json = dict[str, Any]


class AgentProcess:
    """`sked agent` on one node."""

    def __init__(self, cluster: Cluster, node: str, token: str, folder: Path) -> None:
        self._cluster = cluster
        self.node = node
        self.root, self._account = folder / "root", folder / "account"
        self._account.mkdir(parents=True)
        (self._account / "token").write_text(token)
        (self._account / "ca.crt").write_bytes((cluster.plane.pki / "ca.crt").read_bytes())
        self.daemon = Daemon("agent", folder)
        self.boot("b0000000-0000-0000-0000-000000000001", FREE)
        (self._port,) = choose_free_ports(1)

    def boot(self, boot_id: str, sched_ext: dict[str, str]) -> None:
        write_files(
            self.root,
            {
                "proc/sys/kernel/osrelease": "6.12.41",
                "proc/sys/kernel/random/boot_id": boot_id,
                "proc/version": "Linux version 6.12.41",
                "proc/cmdline": "quiet",
                "sys/kernel/btf/vmlinux": "\x9f",
            },
        )
        (self.root / "sys/kernel/btf/vmlinux").write_bytes(b"\x9f\xeb")
        write_sched_ext(self.root, sched_ext)

    def attach(self, ops: str, seq: int) -> None:
        """In the kernel's order: an agent may look at any time."""
        write_sched_ext(self.root, {"root/ops": ops, "state": "enabled", "enable_seq": str(seq)})

    def detach(self, seq: int) -> None:
        write_sched_ext(self.root, {"state": "disabled", "enable_seq": str(seq)})
        (self.root / "sys/kernel/sched_ext/root/ops").unlink(missing_ok=True)

    def start(self, *flags: str) -> None:
        words = [f"--node-name={self.node}", f"--root={self.root}", f"--service-account={self._account}"]
        words += ["--look-seconds=0.3", f"--health-probe-bind-address=127.0.0.1:{self._port}", *flags]
        environment = dict(os.environ) | {
            "PYTHONPATH": str(ROOT / "src"),
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self._cluster.api_port),
        }
        self.daemon.start([sys.executable, "-c", PROGRAM, "agent", *words], environment)

    def wait_seen(self, state: str, seq: int) -> None:
        """Until it has looked since the slot became so, whether it could report that or not."""
        line = re.compile(rf" slot state={state} ops=\S* seq={seq}$", re.MULTILINE)
        wait_for(f"it to see {state} {seq}", lambda: line.search(self.daemon.log.read_text()), SECONDS)

    def read_readiness(self) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/readyz", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            raise NotYetError(str(error)) from error

    def wait_ready(self) -> None:
        wait_for("the agent to be ready", lambda: self.read_readiness()[0] == 200, SECONDS)

    def fetch(self) -> Json | None:
        found: Json | None = read_api(self._cluster, f"{REPORTS}/{self.node}")
        return found

    def wait_status(self, **slot: object) -> Json:
        """The report's status, once its slot is so."""

        def probe() -> Json:
            status: Json = (self.fetch() or {}).get("status", {})
            if not slot.items() <= status.get("slot", {}).items():
                raise NotYetError(json.dumps(status))
            return status

        return wait_for(f"a report with {slot}", probe, SECONDS)


def create_node(cluster: Cluster, name: str) -> str:
    """A node and its agent's pod, which nothing runs; the token that the pod would have."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"agent-{name}", "namespace": NAMESPACE},
        "spec": {
            "nodeName": name,
            "serviceAccountName": AGENT,
            "tolerations": [{"operator": "Exists"}],
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "agent",
                    "image": "none",
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
        },
    }
    with cluster.connect() as connection:
        assert connection.request("POST", "/api/v1/nodes", node).status == 201
        made = connection.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", pod)
        assert made.status == 201, made.text
        reference = {"apiVersion": "v1", "kind": "Pod", "name": f"agent-{name}"}
        reference["uid"] = json.loads(made.body)["metadata"]["uid"]
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{AGENT}/token"
        answer = connection.request("POST", path, {**request, "spec": {"boundObjectRef": reference}})
        assert answer.status == 201, answer.text
    token: str = json.loads(answer.body)["status"]["token"]
    return token


def ask(cluster: Cluster, token: str, method: str, path: str, body: Json | None = None) -> tuple[int, str]:
    """A request of whoever has a token: the status code, and what the API server says."""
    context = ssl.create_default_context(cafile=str(cluster.plane.pki / "ca.crt"))
    connection = http.client.HTTPSConnection("127.0.0.1", cluster.api_port, timeout=30, context=context)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/apply-patch+yaml"}
    if method == "PATCH":
        path += "?fieldManager=sked-agent&force=true"
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer.get("code", 200), answer.get("message", "")


def make_report(name: str, **parts: Any) -> Json:
    """A report, or a part of one, with these metadata and status."""
    metadata = {"name": name, **parts.pop("metadata", {})}
    return {"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExtNode", "metadata": metadata, **parts}
