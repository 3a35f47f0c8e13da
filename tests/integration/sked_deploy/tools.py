"""The make targets as a user runs them, in a copy of what they need, against a lab's cluster."""

import os
import shutil
import subprocess
from pathlib import Path

from lab.cluster import Cluster
from lab.process import Result

ROOT = Path(__file__).parents[3]
NAMESPACE = "sked-system"
CRD = "schedexts.sked.schedkit.io"
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

    def make(self, cluster: Cluster | None, *words: str, check: bool = True, seconds: float = 180) -> Result:
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
