"""The make targets as a user runs them, in a copy of what they need, against a lab's cluster."""

import http.client
import itertools
import json
import os
import shutil
import ssl
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.cluster import Cluster
from lab.process import Result
from lab.waiting import wait_for

ROOT = Path(__file__).parents[3]
NAMESPACE = "sked-system"
CRD = "schedexts.sked.schedkit.io"
REPORTS = "schedextnodes.sked.schedkit.io"
ACCOUNT = "sked-controller-manager"
AGENT = "sked-agent"
IMAGE = "registry.example.com:5000/kernels/sked:v1"


class Clone:
    """The files behind the make targets, without the tree they come from: dist/ is the test's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for source in (ROOT / "config", ROOT / "scripts"):
            shutil.copytree(source, folder / source.name)
        shutil.copy(ROOT / "Makefile", folder)
        (folder / "src/schedkit").mkdir(parents=True)
        shutil.copy(ROOT / "src/schedkit/__init__.py", folder / "src/schedkit")  # which says the version

    def make(self, cluster: Cluster | None, *words: str, check: bool = True, seconds: float = 400) -> Result:
        """Run `make WORDS…` with the cluster's kubeconfig as the current one, or with none."""
        environment = dict(os.environ) | {"KUBECONFIG": os.devnull, "KUBERC": "off"}
        if cluster:
            environment["KUBECONFIG"] = str(cluster.admin_kubeconfig)
            words = (f"KUBECTL={cluster.plane.binaries.kubectl} --cache-dir={cluster.folder}/kubectl-cache", *words)
        done = subprocess.run(
            ["make", "--no-print-directory", *words],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == 0 or not check, done.stderr
        return Result(done.stdout, done.stderr, done.returncode)


def write_account_kubeconfig(cluster: Cluster, account: str = ACCOUNT, server: str = "") -> Path:
    """The kubeconfig of the manager's service account, by a token as its pod has one."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "clusters": [{"name": "it", "cluster": _describe_server(cluster, server)}],
        "users": [{"name": "it", "user": {"token": make_token(cluster, account)}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it", "namespace": NAMESPACE}}],
    }
    path = cluster.folder / "manager.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))
    return path


def make_token(cluster: Cluster, account: str = ACCOUNT) -> str:
    """A token of a service account in the operator's namespace."""
    return cluster.kubectl("create", "token", account, "-n", NAMESPACE).stdout.strip()


def patch_node(cluster: Cluster, token: str, name: str, patch: Mapping[str, Any]) -> tuple[int, str]:
    """Patch a node as whoever has a token: the status code, and what the API server says. kubectl would `get` first."""
    context = ssl.create_default_context(cafile=str(cluster.plane.pki / "ca.crt"))
    connection = http.client.HTTPSConnection("127.0.0.1", cluster.api_port, timeout=30, context=context)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/merge-patch+json"}
    connection.request("PATCH", f"/api/v1/nodes/{name}", json.dumps(patch), headers)
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer.get("code", 200), answer.get("message", "")


def wait_for_node_policy(cluster: Cluster, token: str, name: str) -> None:
    """Wait until it refuses a change of a node: a policy is asked some seconds after it was created."""
    numbers = itertools.count()

    def is_refused() -> bool:
        said = patch_node(cluster, token, name, {"metadata": {"labels": {"probe": str(next(numbers))}}})[1]
        return "denied request" in said  # and not for a right that is not there yet

    wait_for("the policy to be in force", is_refused, 60)
    cluster.kubectl("label", "node", name, "probe-")


def _describe_server(cluster: Cluster, server: str) -> dict[str, str]:
    if server:
        return {"server": server}
    authority = str(cluster.plane.pki / "ca.crt")
    return {"server": f"https://127.0.0.1:{cluster.api_port}", "certificate-authority": authority}
