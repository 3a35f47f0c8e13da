"""The types: what is read is written again, absent stays absent, and pools take over what they leave out."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from schedkit.sked.api.kubernetes import Condition
from schedkit.sked.api.types import NodeCounts, NodeFailure, PoolStatus, SchedExt, SchedExtSpec, SchedExtStatus
from schedkit.sked.api.validate import ManifestText, parse_resources
from schedkit.sked.api.workloads import resolve_workloads, short_scheduler_name
from tests.unit.sked_api.accepted import ACCEPTED
from tests.unit.sked_api.cases import IMAGE, make

SAMPLES = Path(__file__).parents[3] / "config/samples"


def decode(document: Any) -> SchedExt:
    return msgspec.json.decode(json.dumps(document), type=SchedExt)


def encode(value: Any) -> Any:
    return json.loads(msgspec.json.encode(value))


@pytest.mark.parametrize("spec", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_spec_is_read_and_read_again(spec: dict[str, Any]) -> None:
    resource = decode(make(spec))
    again = msgspec.json.decode(msgspec.json.encode(resource), type=SchedExt)
    assert again == resource


def test_only_what_was_given_is_written() -> None:
    assert encode(decode(make({"sched": IMAGE}))) == {**make({"sched": IMAGE}), "status": {}}


def test_empty_list_of_a_pool_is_not_an_absent_one() -> None:
    pools = [{"name": "a", "args": [], "env": [], "nodeSelector": {"p": "a"}}, {"name": "b"}]
    assert encode(decode(make({"pools": pools})).spec) == {"pools": pools}


def test_fields_of_a_newer_version_are_ignored() -> None:
    assert decode(make({"sched": IMAGE, "later": {"a": 1}})) == decode(make({"sched": IMAGE}))


def test_status_is_written_with_kubernetes_names() -> None:
    condition = Condition(
        type="Ready", status="True", last_transition_time="2024-01-01T00:00:00Z", reason="Ready", message=""
    )
    status = SchedExtStatus(
        observed_generation=2,
        nodes=NodeCounts(desired=1),
        conditions=(condition,),
        pools=(PoolStatus(name="", daemon_set="a", image=IMAGE, excluded_by=("b/c",)),),
        failures=(NodeFailure(node="n", reason="CrashLoopBackOff"),),
        failure_count=1,
    )
    zero = {"scheduled": 0, "ready": 0, "updated": 0, "unavailable": 0, "misscheduled": 0}
    zero |= {"notReady": 0, "cordoned": 0, "quarantined": 0, "yielded": 0, "reserved": 0}
    zero |= {"attached": 0, "detached": 0, "foreign": 0, "ejected": 0, "unfit": 0, "unknown": 0}
    assert encode(status) == {
        "observedGeneration": 2,
        "nodes": {"desired": 1, **zero},
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "lastTransitionTime": "2024-01-01T00:00:00Z",
                "reason": "Ready",
                "message": "",
            }
        ],
        "pools": [{"name": "", "daemonSet": "a", "image": IMAGE, "excludedBy": ["b/c"]}],
        "failures": [{"node": "n", "reason": "CrashLoopBackOff"}],
        "failureCount": 1,
    }
    assert msgspec.convert(encode(status), SchedExtStatus) == status


def test_plain_resource_is_one_workload_of_its_own_name() -> None:
    (workload,) = resolve_workloads(decode(make({"sched": IMAGE})))
    assert (workload.pool, workload.daemon_set, workload.sched) == ("", "scx", IMAGE)
    assert (workload.args, workload.env, workload.tolerations) == ((), (), ())
    assert (workload.resources, workload.node_selector, workload.affinity) == (None, {}, None)


def test_resource_with_pools_is_a_workload_for_each_and_none_besides() -> None:
    text = (SAMPLES / "sked_v1_schedext_pools.yaml").read_text()
    (resource,) = parse_resources([ManifestText("pools", text)])
    workloads = {workload.pool: workload for workload in resolve_workloads(resource)}
    assert list(workloads) == ["throughput", "latency", "edge"]
    assert [workload.daemon_set for workload in workloads.values()] == [
        "fleet-throughput",
        "fleet-latency",
        "fleet-edge",
    ]
    assert [short_scheduler_name(workload.sched) for workload in workloads.values()] == [
        "scx_rusty",
        "scx_lavd",
        "scx_bpfland",
    ]
    assert [workload.args for workload in workloads.values()] == [("--verbose",), ("--performance",), ()]
    assert workloads["throughput"].parse_selector().matches({"example.com/workload": "batch"}, "a")
    assert not workloads["throughput"].parse_selector().matches({"example.com/workload": "interactive"}, "a")
    assert workloads["edge"].parse_selector().matches({"node-role.kubernetes.io/edge": ""}, "a")


def test_pool_replaces_and_does_not_merge() -> None:
    spec = {
        "sched": IMAGE,
        "env": [{"name": "A", "value": "1"}],
        "nodeSelector": {"x": "1"},
        "resources": {"limits": {"cpu": 1}},
        "tolerations": [{"operator": "Exists"}],
        "pools": [
            {"name": "a", "env": [{"name": "B"}], "nodeSelector": {"y": "1"}, "resources": {}, "tolerations": []}
        ],
    }
    (workload,) = resolve_workloads(decode(make(spec)))
    assert [variable.name for variable in workload.env] == ["B"]
    assert workload.node_selector == {"y": "1"}
    assert workload.resources is not None
    assert not workload.resources.limits
    assert workload.tolerations == ()


@pytest.mark.parametrize(
    ("image", "name"),
    [
        (IMAGE, "scx_rusty"),
        ("scx_rusty", "scx_rusty"),
        ("localhost:5000/x:y@sha256:00", "x"),
        ("localhost:5000/x", "x"),
        ("x@sha256:00", "x"),
        ("", ""),
    ],
)
def test_scheduler_is_called_by_the_last_part_of_its_image(image: str, name: str) -> None:
    assert short_scheduler_name(image) == name


def test_absent_fields_have_their_described_meaning() -> None:
    spec = SchedExtSpec()
    assert (spec.priority, spec.suspend, spec.pools, spec.image_pull_secrets) == (0, False, (), ())
    assert spec.update_strategy is None
