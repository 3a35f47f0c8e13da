"""The operator's image, built in the lab: its wheels, fetched once, the build with them, and its deployment."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from lab import images
from lab.cluster import Cluster
from lab.errors import LabError
from lab.machine import Machine
from lab.store import Store
from lab.wheels import LOCK, PROJECT, wheels

SOURCES = PROJECT / "images/sked"
TAG = "sked:dev"


# The wheels of everything that the operator imports, of the locked versions.
WHEELS = wheels("sked-wheels", "aiohttp", "click", "cryptography", "msgspec", "pyyaml", megabytes=10)


def build_sked(store: Store, registry: str, *, tag: str = TAG) -> str:
    """Build the operator's image from this tree, push it to a registry on loopback and return its digest."""
    store.ensure(WHEELS)
    (store.root / "run").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="image-sked-", dir=store.root / "run") as name:
        context = Path(name)
        shutil.copy(LOCK, context)
        for folder in ("images/sked", "src/schedkit"):
            shutil.copytree(PROJECT / folder, context / folder, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(store.path(WHEELS), context / "images/sked/wheels", dirs_exist_ok=True)
        base = {"BASE": f"{images.BASES}/python"}
        return images.build(store, SOURCES / "Containerfile", context, tag, registry=registry, build_args=base)


def deploy_sked(store: Store, machine: Machine, cluster: Cluster) -> None:
    """Build the operator's image, push it to the machine's registry, install it from there, and wait for it."""
    build_sked(store, machine.registry)
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
    cluster.kubectl("-n", "sked-system", "rollout", "status", "deployment", "--timeout=120s", timeout=130)
