"""The operator in a cluster of the lab: installed from an image of this tree, and told what it may run."""

import json
import os
import subprocess
from collections.abc import Mapping

import yaml

from lab.cluster import Cluster
from lab.errors import LabError
from lab.machine import Machine
from lab.sked_image import TAG, build_sked
from lab.store import Store
from lab.wheels import PROJECT

NAMESPACE, MANAGER = "sked-system", "sked-controller-manager"


def deploy_sked(store: Store, machine: Machine, cluster: Cluster) -> None:
    """Build the operator's image, push it to the machine's registry, install it from there, and wait for it."""
    build_sked(store, machine.registry)
    install_sked(cluster)
    await_manager(cluster)


def install_sked(cluster: Cluster) -> None:
    """Install the operator with the image that the nodes' registries have; it may take some time to come up."""
    kubectl = f"{cluster.plane.binaries.kubectl} --kubeconfig={cluster.admin_kubeconfig}"
    done = subprocess.run(
        [PROJECT / "scripts/deploy", "deploy"],
        env=os.environ | {"IMG": f"localhost:5000/{TAG}", "KUBECTL": kubectl},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LabError(f"sked was not deployed: {done.stderr.strip()}")


def await_manager(cluster: Cluster) -> None:
    """Wait until the manager is as its Deployment says."""
    cluster.kubectl("-n", NAMESPACE, "rollout", "status", "deployment", MANAGER, "--timeout=600s", timeout=610)


def enforce_signatures(cluster: Cluster, files: Mapping[str, str], node: str) -> None:
    """Have an installed operator run only what is signed as a policy wants: `files` are policy.yaml and its keys.

    A machine's registry is on its loopback, so the manager gets the network of the node whose registry has the
    signatures; no installation needs that.
    """
    folder = PROJECT / "config/verification"
    labels = ("pod-security.kubernetes.io/enforce=privileged", "--overwrite")
    cluster.kubectl("label", "namespace", NAMESPACE, *labels)
    policy = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "sked-trust-policy", "namespace": NAMESPACE},
    }
    cluster.kubectl("apply", "-f", "-", input=json.dumps(policy | {"data": dict(files)}))
    for name in ("verdicts", "verdicts_role", "verdicts_role_binding"):
        cluster.kubectl("apply", "-f", str(folder / f"{name}.yaml"))
    patch = yaml.safe_load((folder / "manager_patch.yaml").read_text())
    patch.append({"op": "add", "path": "/spec/template/spec/hostNetwork", "value": True})
    selector = {"kubernetes.io/hostname": node}
    patch.append({"op": "add", "path": "/spec/template/spec/nodeSelector", "value": selector})
    # Two managers at a time take an emulated machine long to start; and one that has no node yet is replaced at once.
    patch.append({"op": "add", "path": "/spec/strategy", "value": {"type": "Recreate"}})
    patched = ("deployment", MANAGER, "-n", NAMESPACE, "--type=json", "-p", json.dumps(patch))
    cluster.kubectl("patch", *patched)
