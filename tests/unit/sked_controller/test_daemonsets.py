"""The DaemonSet of a claim, and when one differs from it."""

from typing import Any

import msgspec
import pytest

from schedkit.sked.controller.claims import make_claims
from schedkit.sked.controller.daemonsets import differs, follows_slot, make_daemonset, remove_slot, same_pods
from schedkit.sked.controller.objects import DaemonSet
from tests.unit.sked_controller.making import IMAGE, as_returned, make_claim, make_resource, require

FULL: dict[str, Any] = {
    "args": ["--slice-us", "5000"],
    "env": [{"name": "RUST_LOG", "value": "debug"}],
    "configFrom": {"configMap": "layers", "mountPath": "/etc/scx"},
    "hostStats": True,
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
    made = msgspec.json.encode(make_daemonset(make_claim("scx-rusty")))
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
    spec = as_json(make_daemonset(make_claim(**FULL)))["spec"]
    assert spec["updateStrategy"] == FULL["updateStrategy"]
    assert spec["template"]["spec"] == {
        "containers": [
            {
                "name": "scx",
                "image": IMAGE,
                "args": ["--slice-us", "5000"],
                "env": [{"name": "RUST_LOG", "value": "debug"}],
                "resources": FULL["resources"],
                "volumeMounts": [
                    {"name": "scx-config", "mountPath": "/etc/scx", "readOnly": True},
                    {"name": "scx-stats", "mountPath": "/var/run/scx"},
                ],
                "imagePullPolicy": "Always",
                "securityContext": {"privileged": True},
            }
        ],
        "nodeSelector": {"pool": "large"},
        "affinity": FULL["affinity"],
        "tolerations": FULL["tolerations"],
        "priorityClassName": "system-node-critical",
        "imagePullSecrets": [{"name": "registry"}],
        "volumes": [
            {"name": "scx-config", "configMap": {"name": "layers"}},
            {"name": "scx-stats", "hostPath": {"path": "/var/run/scx", "type": "DirectoryOrCreate"}},
        ],
    }


def test_pool_has_a_daemonset_of_its_own_name_and_labels() -> None:
    pool = {"name": "large", "nodeSelector": {"pool": "large"}, "sched": "example.com/other:2", "args": []}
    (claim,) = make_claims(make_resource("mixed", args=["-v"], pools=[pool]))
    made = make_daemonset(claim)
    container = made.spec.template.spec.containers[0]
    assert made.metadata.name == "mixed-large"
    assert made.spec.selector.match_labels == {"name": "mixed-large"}
    assert (container.image, container.args) == ("example.com/other:2", ())


SLOTS = ("default.one", "one")


def test_one_that_follows_the_slot_keeps_all_that_was_asked_for() -> None:
    preferred = [{"weight": 1, "preference": {"matchExpressions": [{"key": "fast", "operator": "Exists"}]}}]
    asked = require(("zone", "In", ["a"]))
    asked["nodeAffinity"] |= {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    spec = as_json(make_daemonset(make_claim(affinity=asked, nodeSelector={"pool": "x"}), SLOTS))["spec"]
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    free = {"key": "sked.schedkit.io/slot", "operator": "DoesNotExist"}
    given = {"key": "sked.schedkit.io/slot", "operator": "In", "values": list(SLOTS)}
    terms = [{"matchExpressions": [zone, free]}, {"matchExpressions": [zone, given]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pod = spec["template"]["spec"]
    assert pod["affinity"]["nodeAffinity"] == asked["nodeAffinity"] | required
    assert pod["nodeSelector"] == {"pool": "x"}
    assert spec["updateStrategy"] == {"type": "OnDelete"}


AFFINITIES: list[Any] = [
    None,
    {},
    {"nodeAffinity": {}},
    require(("zone", "In", ["a"])),
    require(("zone", "In", ["a"]), ("pool", "Exists", [])),
    FULL["affinity"],
]


@pytest.mark.parametrize("affinity", AFFINITIES)
def test_slot_is_taken_away_again_and_nothing_else(affinity: Any) -> None:
    claim = make_claim(**({"affinity": affinity} if affinity is not None else {}))
    plain, following = make_daemonset(claim), make_daemonset(claim, SLOTS)
    assert (follows_slot(plain), follows_slot(following)) == (False, True)
    assert same_pods(plain, as_returned(following))
    assert remove_slot(following.spec.template.spec.affinity) == remove_slot(plain.spec.template.spec.affinity)
    other = make_daemonset(make_claim(sched="example.com/scx_rusty:2"), SLOTS)
    assert not same_pods(plain, other)


def test_quantities_are_compared_as_numbers() -> None:
    one, other = (make_daemonset(make_claim(resources={"limits": {"cpu": cpu}})) for cpu in ("1000m", "1"))
    more = make_daemonset(make_claim(resources={"limits": {"cpu": "2"}}))
    assert not differs(one, as_returned(other))
    assert differs(one, as_returned(more))


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
        {"configFrom": FULL["configFrom"]},
        {"hostStats": True},
        {"hostStats": False},
    ],
)
def test_what_kubernetes_fills_in_is_no_difference(spec: dict[str, Any]) -> None:
    wanted = make_daemonset(make_claim(**spec))
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
        ("spec/template/spec/volumes", [{"name": "scx-stats", "hostPath": {"path": "/etc"}}]),
        ("spec/template/spec/containers/0/volumeMounts", [{"name": "scx-config", "mountPath": "/etc"}]),
        ("spec/updateStrategy", {"type": "OnDelete"}),
        ("spec/updateStrategy/rollingUpdate", {"maxUnavailable": 2}),
        ("spec/updateStrategy/rollingUpdate", {"maxUnavailable": 1, "maxSurge": 1}),
        ("spec/template/spec/containers/0/command", ["/bin/sh"]),
        ("spec/template/spec/initContainers", [{"name": "first", "image": "example.com/evil:1"}]),
    ],
)
def test_drift_in_what_is_ours_is_a_difference(path: str, value: object) -> None:
    wanted = make_daemonset(make_claim())
    assert differs(wanted, change(as_returned(wanted), path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec/template/spec/volumes", []),
        ("spec/template/spec/volumes/0/configMap/name", "other"),
        ("spec/template/spec/volumes/0/configMap/defaultMode", 0o600),
        ("spec/template/spec/volumes/1/hostPath/path", "/etc"),
        ("spec/template/spec/volumes/1/hostPath/type", ""),
        ("spec/template/spec/containers/0/volumeMounts", []),
        ("spec/template/spec/containers/0/volumeMounts/0/readOnly", False),
        ("spec/template/spec/containers/0/volumeMounts/1/mountPath", "/run/scx"),
    ],
)
def test_drift_in_a_volume_is_a_difference(path: str, value: object) -> None:
    wanted = make_daemonset(make_claim(**FULL))
    assert differs(wanted, change(as_returned(wanted), path, value))


def test_volumes_of_others_and_another_order_are_no_difference() -> None:
    wanted = make_daemonset(make_claim(**FULL))
    seen = as_returned(wanted)
    for path, theirs in (
        ("spec/template/spec/volumes", {"name": "theirs", "hostPath": {"path": "/theirs"}}),
        ("spec/template/spec/containers/0/volumeMounts", {"name": "theirs", "mountPath": "/theirs"}),
    ):
        place = msgspec.to_builtins(seen)
        for word in path.split("/"):
            place = place[int(word) if word.isdigit() else word]
        seen = change(seen, path, [theirs, *reversed(place)])
    assert not differs(wanted, seen)


def test_pool_mounts_what_it_asks_for_instead_of_what_the_resource_does() -> None:
    pools = [
        {"name": "plain", "nodeSelector": {"pool": "plain"}, "hostStats": False},
        {
            "name": "layered",
            "nodeSelector": {"pool": "layered"},
            "configFrom": {"configMap": "other", "mountPath": "/other"},
        },
    ]
    resource = make_resource(configFrom=FULL["configFrom"], hostStats=True, pools=pools)
    mounts = [
        [(mount.name, mount.mount_path) for mount in made.spec.template.spec.containers[0].volume_mounts]
        for made in (make_daemonset(claim) for claim in make_claims(resource))
    ]
    assert mounts == [
        [("scx-config", "/etc/scx")],
        [("scx-config", "/other"), ("scx-stats", "/var/run/scx")],
    ]


def test_labels_and_owners_of_others_are_no_difference() -> None:
    wanted = make_daemonset(make_claim())
    labels = {"managed-by": "sked-controller", "theirs": "too"}
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "other"}
    owners = [*msgspec.to_builtins(wanted)["metadata"]["ownerReferences"], other]
    seen = change(as_returned(wanted), "metadata/labels", labels)
    assert not differs(wanted, change(seen, "metadata/ownerReferences", owners))


def test_pull_policy_that_kubernetes_filled_in_for_another_tag_is_no_difference() -> None:
    """Latest became v2: the policy that was filled in for latest stays, as nobody asked for another."""
    before = as_returned(make_daemonset(make_claim(sched="example.com/scx_rusty:latest")))
    wanted = make_daemonset(make_claim(sched="example.com/scx_rusty:v2"))
    seen = change(before, "spec/template/spec/containers/0/image", "example.com/scx_rusty:v2")
    assert not differs(wanted, seen)
    assert same_pods(wanted, seen)
    asked = make_daemonset(make_claim(sched="example.com/scx_rusty:v2", imagePullPolicy="IfNotPresent"))
    assert differs(asked, seen)
