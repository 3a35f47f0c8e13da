"""helm and kustomize as a user runs them, and what they print as objects."""

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from lab.cluster import Cluster
from lab.process import Result

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts/sked"
RELEASE = "sked"
NAMESPACE = "sked-system"
CRD = "schedexts.sked.schedkit.io"
REPORTS = "schedextnodes.sked.schedkit.io"
MONITORING = ("ServiceMonitor", "PodMonitor", "PrometheusRule")  # the Prometheus operator's kinds
HELM_LABELS = ("app.kubernetes.io/managed-by", "helm.sh/chart")

Object = dict[str, Any]
Objects = dict[tuple[str, str], Object]  # by kind and name

# Every option away from its default, and every object that there can be.
EVERYTHING: Mapping[str, Any] = {
    "image": {
        "repository": "registry.example.com:5000/tools/sked",
        "digest": "sha256:" + 64 * "a",
        "pullPolicy": "IfNotPresent",
    },
    "imagePullSecrets": [{"name": "registry-credentials"}],
    "replicas": 3,
    "metrics": {
        "port": 9443,
        "certificateSecret": "metrics-certificate",
        "serviceMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "monitorLabels": {"release": "prometheus"},
    },
    "health": {"port": 9081},
    "watchNamespaces": ["games", "batch"],
    "priorityCeiling": 100,
    "agent": {
        "metrics": {"enabled": True, "port": 9080, "podMonitor": {"enabled": True}},
        "health": {"port": 9082},
        "resources": {"limits": {"memory": "128Mi"}},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "priorityClassName": "high",
        "podAnnotations": {"example.com/owner": "kernel team"},
        "podLabels": {"example.com/tier": "node"},
    },
    "grafana": {"dashboard": {"enabled": True, "labels": {"dashboards": "ours"}}},
    "workers": 4,
    "logLevel": "debug",
    "logFormat": "json",
    "resources": {"limits": {"memory": "256Mi", "cpu": 1}},
    "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
    "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"control-plane": "controller-manager"}},
                }
            ]
        }
    },
    "priorityClassName": "system-cluster-critical",
    "podAnnotations": {"example.com/owner": "kernel team"},
    "podLabels": {"example.com/tier": "infra"},
    "serviceAccount": {"name": "scheduler-operator", "annotations": {"example.com/role": "sked"}},
    "networkPolicy": {"enabled": True},
    "crds": {"keep": False},
}
# And as little as there can be.
NOTHING: Mapping[str, Any] = {
    "leaderElection": False,
    "metrics": {"enabled": False},
    "resources": None,
    "podLabels": None,
    "podAnnotations": None,
    "serviceAccount": {"create": False, "name": "somebody"},
    "nodes": {"label": False, "policy": False},
    "agent": {"enabled": False},
    "crds": {"install": False},
}


class Helm:
    """The program, with folders of its own, and a cluster or none."""

    def __init__(self, program: Path, home: Path, cluster: Cluster | None = None) -> None:
        self._program = program
        kubeconfig = str(cluster.admin_kubeconfig) if cluster else os.devnull
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(home), "KUBECONFIG": kubeconfig}

    def run(self, *words: str | Path, values: Mapping[str, Any] | None = None, check: bool = True) -> Result:
        """Run `helm WORDS…`, with values as a file of them."""
        done = subprocess.run(
            [self._program, *words, *(() if values is None else ("--values", "-"))],
            input=json.dumps(values or {}),
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0 or not check, done.stderr
        return Result(done.stdout, done.stderr, done.returncode)

    def template(
        self, *words: str, chart: Path = CHART, release: str = RELEASE, values: Mapping[str, Any] | None = None
    ) -> Objects:
        """What the chart becomes."""
        command = ("template", release, chart, "--namespace", NAMESPACE)
        return parse_objects(self.run(*command, *words, values=values).stdout)


def render_kustomize(kubectl: Path, folder: str) -> Objects:
    """What a folder of config/ becomes."""
    command = [str(kubectl), "kustomize", str(ROOT / "config" / folder)]
    return parse_objects(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def parse_objects(text: str) -> Objects:
    """The objects of a stream of YAML documents, none of them twice."""
    documents = [document for document in yaml.safe_load_all(text) if document]
    objects = {(document["kind"], document["metadata"]["name"]): document for document in documents}
    assert len(objects) == len(documents)
    return objects


def render_stream(objects: Iterable[Object]) -> str:
    """Objects as a stream of YAML documents."""
    return yaml.safe_dump_all(objects)


def without_tool(thing: Object) -> Object:
    """The object without the marks of the tool that made it."""
    metadata = dict(thing["metadata"])
    labels = {key: value for key, value in metadata.pop("labels", {}).items() if key not in HELM_LABELS}
    annotations = {
        key: value for key, value in metadata.pop("annotations", {}).items() if not key.startswith("helm.sh/")
    }
    metadata |= {"labels": labels} if labels else {}
    metadata |= {"annotations": annotations} if annotations else {}
    return thing | {"metadata": metadata}
