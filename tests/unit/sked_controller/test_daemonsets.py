"""The DaemonSet of a claim, and when one differs from it."""

from typing import Any

import msgspec
import pytest

from schedkit.sked.api.selectors import exclude
from schedkit.sked.controller.claims import make_claims
from schedkit.sked.controller.daemonsets import differs, make_daemonset
from schedkit.sked.controller.objects import DaemonSet
from tests.unit.sked_controller.making import IMAGE, as_returned, make_claim, make_resource, require

FULL: dict[str, Any] = {
    "args": ["--slice-us", "5000"],
    "env": [{"name": "RUST_LOG", "value": "debug"}],
    "resources": {"limits": {"memory": "64Mi"}, "requests": {"cpu": "10m"}},
    "nodeSelector": {"pool": "large"},
    "affinity": require(("zone", "In", ["a", "b"])),
    "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
    "priorityClassName": "system-node-critical",
    "imagePullPolicy": "Always",
    "imagePullSecrets": [{"name": "registry"}],
    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
}


def as_json(daemonset: DaemonSet) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(daemonset))
    return body


def test_scheduler_alone_makes_exactly_the_described_daemonset() -> None:
    made = msgspec.json.encode(make_daemonset(make_claim("scx-rusty"), None))
    assert made == (
        b'{"metadata":{"name":"scx-rusty","namespace":"default","labels":{"managed-by":"sked-controller"},'
        b'"ownerReferences":[{"apiVersion":"sked.schedkit.io/v1","kind":"SchedExt","name":"scx-rusty",'
        b'"uid":"uid-of-scx-rusty","controller":true,"blockOwnerDeletion":true}]},'
        b'"spec":{"selector":{"matchLabels":{"name":"scx-rusty"}},'
        b'"template":{"metadata":{"labels":{"name":"scx-rusty","managed-by":"sked-controller"}},'
        b'"spec":{"containers":[{"name":"scx","image":"example.com/scx_rusty:1",'
        b'"securityContext":{"privileged":true}}]}}}}'
    )


def test_every_field_has_its_place() -> None:
    spec = as_json(make_daemonset(make_claim(**FULL), None))["spec"]
    assert spec["updateStrategy"] == FULL["updateStrategy"]
    assert spec["template"]["spec"] == {
        "containers": [
            {
                "name": "scx",
                "image": IMAGE,
                "args": ["--slice-us", "5000"],
                "env": [{"name": "RUST_LOG", "value": "debug"}],
                "resources": FULL["resources"],
                "imagePullPolicy": "Always",
                "securityContext": {"privileged": True},
            }
        ],
        "nodeSelector": {"pool": "large"},
        "affinity": FULL["affinity"],
        "tolerations": FULL["tolerations"],
        "priorityClassName": "system-node-critical",
        "imagePullSecrets": [{"name": "registry"}],
    }


def test_pool_has_a_daemonset_of_its_own_name_and_labels() -> None:
    pool = {"name": "large", "nodeSelector": {"pool": "large"}, "sched": "example.com/other:2", "args": []}
    (claim,) = make_claims(make_resource("mixed", args=["-v"], pools=[pool]))
    made = make_daemonset(claim, None)
    container = made.spec.template.spec.containers[0]
    assert made.metadata.name == "mixed-large"
    assert made.spec.selector.match_labels == {"name": "mixed-large"}
    assert (container.image, container.args) == ("example.com/other:2", ())


def test_winners_nodes_are_excluded_and_the_wishes_kept() -> None:
    preferred = [{"weight": 1, "preference": {"matchExpressions": [{"key": "fast", "operator": "Exists"}]}}]
    wish = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    claim, winner = make_claim(affinity=wish), make_claim("winner", nodeSelector={"pool": "small"})
    remaining = exclude(claim.selector, winner.selector)
    pod = as_json(make_daemonset(claim, remaining))["spec"]["template"]["spec"]
    excluded = {"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["small"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [excluded]}}
    assert pod["affinity"] == {"nodeAffinity": wish["nodeAffinity"] | required}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        FULL,
        {"sched": "example.com/scx_rusty:latest"},
        {"sched": "example.com:5000/scx_rusty"},
        {"updateStrategy": {"type": "OnDelete"}},
        {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 3}}},
        {"resources": {}},
        {"affinity": {}},
    ],
)
def test_what_kubernetes_fills_in_is_no_difference(spec: dict[str, Any]) -> None:
    wanted = make_daemonset(make_claim(**spec), None)
    assert not differs(wanted, as_returned(wanted))


def change(daemonset: DaemonSet, path: str, value: object) -> DaemonSet:
    """The same with one thing changed."""
    body = msgspec.to_builtins(daemonset)
    *folders, last = (int(word) if word.isdigit() else word for word in path.split("/"))
    place = body
    for word in folders:
        place = place[word]
    place[last] = value
    changed: DaemonSet = msgspec.convert(body, DaemonSet)
    return changed


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata/labels", {}),
        ("metadata/ownerReferences", []),
        ("spec/template/metadata/labels", {"name": "one"}),
        ("spec/template/spec/containers/0/image", "example.com/evil:1"),
        ("spec/template/spec/containers/0/args", ["-v"]),
        ("spec/template/spec/containers/0/env", [{"name": "A", "value": "b"}]),
        ("spec/template/spec/containers/0/resources", {"limits": {"cpu": "1"}}),
        ("spec/template/spec/containers/0/imagePullPolicy", "Never"),
        ("spec/template/spec/containers/0/securityContext", {}),
        ("spec/template/spec/nodeSelector", {"pool": "large"}),
        ("spec/template/spec/affinity", require(("zone", "Exists", []))),
        ("spec/template/spec/tolerations", [{"operator": "Exists"}]),
        ("spec/template/spec/priorityClassName", "high"),
        ("spec/template/spec/imagePullSecrets", [{"name": "registry"}]),
        ("spec/updateStrategy", {"type": "OnDelete"}),
        ("spec/updateStrategy/rollingUpdate", {"maxUnavailable": 2}),
    ],
)
def test_drift_in_what_is_ours_is_a_difference(path: str, value: object) -> None:
    wanted = make_daemonset(make_claim(), None)
    assert differs(wanted, change(as_returned(wanted), path, value))


def test_labels_and_owners_of_others_are_no_difference() -> None:
    wanted = make_daemonset(make_claim(), None)
    labels = {"managed-by": "sked-controller", "theirs": "too"}
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "other"}
    owners = [*msgspec.to_builtins(wanted)["metadata"]["ownerReferences"], other]
    seen = change(as_returned(wanted), "metadata/labels", labels)
    assert not differs(wanted, change(seen, "metadata/ownerReferences", owners))
