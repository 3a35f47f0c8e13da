"""The CRD on a real API server: what it takes, what it refuses and in which words, and what kubectl shows of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.cluster import Cluster
from lab.https import Connection
from lab.waiting import wait_for
from tests.unit.sked_api.accepted import ACCEPTED
from tests.unit.sked_api.cases import IMAGE, REFUSED, Refusal, make, select

REPOSITORY = Path(__file__).parents[3]
SAMPLES = sorted((REPOSITORY / "config/samples").glob("sked_*.yaml"))
CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/schedexts.sked.schedkit.io"
RESOURCES = "/apis/sked.schedkit.io/v1/namespaces/default/schedexts"

# What the resource was before: one field that took any text.
BEFORE: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "schedexts.sked.schedkit.io"},
    "spec": {
        "group": "sked.schedkit.io",
        "names": {"kind": "SchedExt", "listKind": "SchedExtList", "plural": "schedexts", "singular": "schedext"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "apiVersion": {"type": "string"},
                            "kind": {"type": "string"},
                            "metadata": {"type": "object"},
                            "spec": {
                                "type": "object",
                                "properties": {"sched": {"type": "string"}},
                                "required": ["sched"],
                            },
                            "status": {"type": "object"},
                        },
                    }
                },
            }
        ],
    },
}


def established(cluster: Cluster) -> bool:
    crd = json.loads(cluster.kubectl("get", "--raw", CRD_PATH).stdout)
    conditions = {item["type"]: item["status"] for item in crd.get("status", {}).get("conditions", ())}
    return conditions.get("Established") == "True"


@pytest.fixture(scope="module")
def upgraded(cluster: Cluster) -> Cluster:
    """The cluster with the CRD, put over that of before, under which two resources were made."""
    cluster.kubectl("apply", "-f", "-", input=json.dumps(BEFORE))
    wait_for("the CRD of before", lambda: established(cluster), 30)
    for name, image in (("usable", IMAGE), ("unusable", "Not an image")):
        cluster.kubectl("apply", "-f", "-", input=json.dumps(make({"sched": image}, name)))
    applied = cluster.kubectl("apply", "-k", str(REPOSITORY / "config/crd"))
    assert applied.stderr == "", "the API server warns"
    wait_for("the CRD", lambda: established(cluster), 30)
    # The API server goes over to a new schema a moment after it was stored.
    bad = json.dumps(make({"sched": ""}))
    refuses = lambda: cluster.kubectl("create", "--dry-run=server", "-f", "-", input=bad, check=False).code  # noqa: E731
    wait_for("the CRD to be in force", refuses, 30)
    return cluster


@pytest.fixture(scope="module")
def connection(upgraded: Cluster) -> Iterator[Connection]:
    with upgraded.connect() as connection:
        yield connection


def create_dry(connection: Connection, document: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    answer = connection.request("POST", f"{RESOURCES}?dryRun=All&fieldValidation=Strict", document)
    return answer.status, json.loads(answer.body)


def create(connection: Connection, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    answer = connection.request("POST", RESOURCES, make(spec, name))
    assert answer.status == 201, answer.text
    created: dict[str, Any] = json.loads(answer.body)
    return created


def test_crd_is_structural_and_its_names_are_accepted(upgraded: Cluster) -> None:
    crd = json.loads(upgraded.kubectl("get", "--raw", CRD_PATH).stdout)
    conditions = {item["type"]: item["status"] for item in crd["status"]["conditions"]}
    assert conditions == {"Established": "True", "NamesAccepted": "True"}
    assert crd["status"]["acceptedNames"]["shortNames"] == ["scx"]
    assert crd["status"]["acceptedNames"]["categories"] == ["schedkit"]


def test_crd_is_known_to_the_api_server_in_every_field(upgraded: Cluster) -> None:
    applied = upgraded.kubectl("apply", "--dry-run=server", "--validate=strict", "-k", str(REPOSITORY / "config/crd"))
    assert applied.stdout.endswith("/schedexts.sked.schedkit.io unchanged (server dry run)\n")
    assert applied.stderr == ""


@pytest.mark.parametrize("refusal", REFUSED, ids=lambda refusal: refusal.id)
def test_resource_is_refused_in_words(refusal: Refusal, connection: Connection) -> None:
    code, status = create_dry(connection, make(refusal.spec, refusal.name))
    assert code == 422, status
    causes = [cause for cause in status["details"]["causes"] if cause["reason"] != "FieldValueDuplicate"]
    assert [cause["field"].replace("[", ".").replace("]", "") for cause in causes] == [
        refusal.path.replace("[", ".").replace("]", "")
    ]
    assert causes[0]["message"].endswith(f": {refusal.sentence}"), causes


@pytest.mark.parametrize("spec", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_resource_is_accepted_and_stored_as_written(spec: dict[str, Any], connection: Connection) -> None:
    code, created = create_dry(connection, make(spec))
    assert code == 201, created
    assert created["spec"] == spec


def test_longest_names_are_accepted(connection: Connection) -> None:
    assert create_dry(connection, make({"sched": IMAGE}, "a" * 63))[0] == 201
    assert create_dry(connection, make({"sched": IMAGE, "pools": [select("b" * 30)]}, "a" * 32))[0] == 201


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_sample_is_accepted(sample: Path, upgraded: Cluster) -> None:
    applied = upgraded.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(sample))
    assert applied.stderr == ""
    assert len(applied.stdout.splitlines()) == len(list(yaml.safe_load_all(sample.read_text())))


def test_described_example_is_stored_as_written(upgraded: Cluster) -> None:
    upgraded.kubectl("apply", "-k", str(REPOSITORY / "config/samples"))
    stored = json.loads(upgraded.kubectl("get", "schedext", "scx-rusty", "-o", "json").stdout)
    assert stored["spec"] == {"sched": "ghcr.io/schedkit/scx_rusty:latest"}
    assert "status" not in stored


def test_field_that_does_not_exist_is_refused(upgraded: Cluster) -> None:
    document = json.dumps(make({"sched": IMAGE, "affinity": {"podAffinity": {}}}))
    refused = upgraded.kubectl("apply", "--dry-run=server", "-f", "-", input=document, check=False)
    assert 'unknown field "spec.affinity.podAffinity"' in refused.stderr


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"sched": IMAGE, "imagePullPolicy": "Sometimes"}, 'supported values: "Always", "IfNotPresent", "Never"'),
        ({"sched": IMAGE, "pools": [{"nodeSelector": {"a": "b"}}]}, "Required value"),
        ({"sched": "a" * 521}, "may not be more than 520 bytes"),
        ({"sched": IMAGE, "priority": 2**31}, "should be less than or equal to 2147483647"),
        (
            {"sched": IMAGE, "pools": [select(f"a{number}") for number in range(17)]},
            "must have at most 16 items",
        ),
        ({"sched": IMAGE, "rollout": {"steps": [{"nodes": 1}] * 17}}, "must have at most 16 items"),
        ({"sched": IMAGE, "rollout": {"failure": {"maxNodes": -1}}}, "should be greater than or equal to 0"),
        ({"sched": IMAGE, "rollout": {"failure": {"action": "Retry"}}}, 'supported values: "Rollback", "Pause"'),
        ({"sched": IMAGE, "rollout": {"attachTimeoutSeconds": 0}}, "should be greater than or equal to 1"),
    ],
)
def test_limits_are_the_api_servers_to_explain(spec: dict[str, Any], message: str, connection: Connection) -> None:
    code, status = create_dry(connection, make(spec))
    assert code == 422
    assert message in status["message"]


def test_resource_of_before_stays_valid(upgraded: Cluster) -> None:
    upgraded.kubectl("annotate", "schedext", "usable", "a=b")
    upgraded.kubectl("patch", "schedext", "usable", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    stored = json.loads(upgraded.kubectl("get", "schedext", "usable", "-o", "json").stdout)
    assert stored["spec"] == {"sched": IMAGE, "suspend": True}


def test_resource_of_before_that_never_worked_can_be_mended_or_deleted(upgraded: Cluster) -> None:
    upgraded.kubectl("annotate", "schedext", "unusable", "a=b")
    mended = json.dumps({"spec": {"sched": IMAGE}})
    upgraded.kubectl("patch", "schedext", "unusable", "--type=merge", "-p", mended, "--dry-run=server")
    upgraded.kubectl("delete", "schedext", "unusable", "--timeout=20s")


STATUS = {
    "observedGeneration": 1,
    "summary": "Ready",
    "scheduler": "scx_rusty",
    "image": IMAGE,
    "nodes": {"desired": 3, "scheduled": 3, "ready": 0, "updated": 3, "attached": 2, "unknown": 1},
    "conditions": [
        {
            "type": "Ready",
            "status": "False",
            "observedGeneration": 1,
            "lastTransitionTime": "2024-01-01T00:00:00Z",
            "reason": "RollingOut",
            "message": "0 of 3 nodes are ready",
        }
    ],
    "pools": [{"name": "", "daemonSet": "shown", "image": IMAGE, "excludedBy": ["a/b"]}],
    "failures": [{"node": "n", "pod": "p", "reason": "CrashLoopBackOff", "message": "exit code 1"}],
    "failureCount": 1,
}


def test_status_is_apart_from_the_spec(connection: Connection) -> None:
    created = connection.request("POST", RESOURCES, {**make({"sched": IMAGE}, "apart"), "status": STATUS})
    document = json.loads(created.body)
    assert "status" not in document, "a user cannot write it"
    document["spec"]["suspend"] = True
    document["status"] = STATUS
    answer = connection.request("PUT", f"{RESOURCES}/apart/status", document)
    assert answer.status == 200, answer.text
    stored = json.loads(answer.body)
    assert stored["status"] == STATUS, "nothing of it is pruned"
    assert stored["spec"] == {"sched": IMAGE}, "the spec is not written with it"
    assert stored["metadata"]["generation"] == 1


def test_columns_and_names_are_shown(upgraded: Cluster, connection: Connection) -> None:
    document = create(connection, "shown", {"sched": IMAGE})
    document["status"] = STATUS
    connection.request("PUT", f"{RESOURCES}/shown/status", document)
    for name in ("scx", "schedext", "schedexts", "schedexts.sked.schedkit.io"):
        header, row = upgraded.kubectl("get", name, "shown").stdout.splitlines()
        assert header.split() == ["NAME", "SCHEDULER", "DESIRED", "ATTACHED", "STATUS", "AGE"]
        assert row.split()[:-1] == ["shown", "scx_rusty", "3", "2", "Ready"]
    header, row = upgraded.kubectl("get", "scx", "shown", "-o", "wide").stdout.splitlines()
    wide = ["READY", "UNKNOWN", "IMAGE", "REASON"]
    assert header.split() == ["NAME", "SCHEDULER", "DESIRED", "ATTACHED", "STATUS", "AGE", *wide]
    assert row.split()[-2:] == [IMAGE, "RollingOut"]
    assert "schedext.sked.schedkit.io/shown" in upgraded.kubectl("get", "schedkit", "-o", "name").stdout


def test_condition_can_be_waited_for(upgraded: Cluster, connection: Connection) -> None:
    document = create(connection, "waited", {"sched": IMAGE})
    document["status"] = STATUS
    connection.request("PUT", f"{RESOURCES}/waited/status", document)
    upgraded.kubectl("wait", "scx/waited", "--for=condition=Ready=False", "--timeout=10s")


def test_fields_are_explained(upgraded: Cluster) -> None:
    told = upgraded.kubectl("explain", "scx.spec.pools.name").stdout
    assert "its DaemonSet is called <resource>-<pool>." in told


def test_two_writers_share_the_lists(upgraded: Cluster) -> None:
    for manager, pool in (("one", "a"), ("two", "b")):
        document = json.dumps(make({"sched": IMAGE, "pools": [select(pool)], "env": [{"name": pool}]}, "shared"))
        upgraded.kubectl("apply", "--server-side", f"--field-manager={manager}", "-f", "-", input=document)
    stored = json.loads(upgraded.kubectl("get", "schedext", "shared", "-o", "json").stdout)
    assert [pool["name"] for pool in stored["spec"]["pools"]] == ["a", "b"]
    assert [variable["name"] for variable in stored["spec"]["env"]] == ["a", "b"]
