"""`sked render` shows what is made, without a cluster."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lab.cluster import Cluster
from lab.waiting import wait_for
from tests.integration.clusters import read_objects
from tests.integration.sked_controller.operator import (
    PROGRAM,
    SECONDS,
    apply,
    has,
    make_schedext,
    wait_object,
)

A, B = "example.com/a:1", "example.com/b:1"
READY = has("Ready", "True", "Ready")
pytestmark = pytest.mark.usefixtures("operator")


def render(file: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", PROGRAM, "render", str(file)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_what_is_rendered_offline_is_what_is_made(clean: Cluster, tmp_path: Path) -> None:
    pools = [
        {"name": "large", "nodeSelector": {"pool": "large"}, "args": ["-v"]},
        {"name": "small", "nodeSelector": {"pool": "small"}, "sched": B, "resources": {"limits": {"cpu": "1"}}},
    ]
    resources = [
        make_schedext("first", sched=A, nodeSelector={"pool": "medium"}, priority=7),
        make_schedext("second", sched=A, pools=pools, imagePullSecrets=[{"name": "registry"}]),
    ]
    file = tmp_path / "resources.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": resources}))
    rendered = render(file)
    assert rendered.returncode == 0, rendered.stderr
    clean.kubectl("create", "namespace", "rendered")
    moved = rendered.stdout.replace("namespace: default", "namespace: rendered")
    clean.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", input=moved)

    apply(clean, *resources)
    wait_object(clean, "schedext", "second", READY)
    # What the API server makes of the rendered ones has its defaults too, so the two can be compared.
    shown = clean.kubectl("apply", "--dry-run=server", "-o", "json", "-f", "-", input=moved).stdout
    planned = {found["metadata"]["name"]: found["spec"] for found in json.loads(shown)["items"]}
    assert set(planned) == {"first", "second-large", "second-small"}

    def is_made() -> bool:
        listed = read_objects(clean, "daemonset", "default")
        return {found["metadata"]["name"]: found["spec"] for found in listed} == planned

    wait_for("the DaemonSets that were rendered", is_made, SECONDS)


def test_what_cannot_be_rendered_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(json.dumps(make_schedext("bad", sched="not an image")))
    refused = render(file)
    assert refused.returncode == 65
    assert refused.stdout == ""
    assert refused.stderr.startswith("error: ")
    assert "Traceback" not in refused.stderr
    assert render(tmp_path / "absent.yaml").returncode == 66
