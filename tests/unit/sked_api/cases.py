"""Specs that are refused, with where and in which words: offline and by the API server."""

from dataclasses import dataclass
from typing import Any

IMAGE = "ghcr.io/schedkit/scx_rusty:latest"
HEX = "0123456789abcdef" * 4
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = f"nodeAffinity.{REQUIRED}.nodeSelectorTerms"

NOT_A_REFERENCE = "this is not an image reference: it is written [registry[:port]/]repository[:tag][@sha256:digest]"
WHITESPACE = "there is whitespace in the image reference"
UPPER_CASE = "the repository and the digest of an image reference are written in lower case"
LABEL_VALUE = (
    "this cannot be the value of a label: "
    "use at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"
)
LABEL_KEY = "this cannot be the key of a label: it is written [prefix/]name, with at most 63 characters in the name"
TAINT_KEY = "this cannot be the key of a taint: it is written [prefix/]name, with at most 63 characters in the name"
OBJECT_NAME = (
    "this cannot be the name of an object: use lower-case letters, digits, '-' and '.', "
    "with a letter or digit at both ends"
)
POOL_NAME = (
    "this cannot be the name of a pool: use lower-case letters, digits and '-', with a letter or digit at both ends"
)
ENVIRONMENT_NAME = (
    "this cannot be the name of an environment variable: "
    "use letters, digits, '_', '-' and '.', with a letter or '_' at the beginning"
)
MAX_UNAVAILABLE = (
    "maxUnavailable is a number of nodes from 1 on, or a percentage from 1% to 100%: "
    "an update takes the old scheduler off a node before the new one can attach"
)
SURGE = (
    "maxSurge is not possible: a kernel has one slot for a scheduler, so the old one has to leave a node "
    "before the new one can attach; use maxUnavailable"
)
STEP = "a step has either nodes or a pause"
STEP_NODES = "nodes is a number of nodes from 1 on, or a percentage from 1% to 100%"
DURATION = "a duration is written as 90s, 10m or 1h30m"
ONE_PACE = "rollout takes the place of updateStrategy: give one of them"
REVISED_NAME = (
    "with a rollout, the resource's name (and a pool's, joined by '-') has at most 52 characters: "
    "the DaemonSets of its revisions have a hash behind it"
)
POOL_SELECTS = "a pool selects its nodes: give it a nodeSelector or a required nodeAffinity"
IN_VALUES = "the operators In and NotIn need values to compare with"
EXISTS_VALUES = "the operators Exists and DoesNotExist take no values"
NUMBER_VALUE = "the operators Gt and Lt need exactly one value, a whole number"
FIELD_VALUES = "matchFields compares with exactly one value; for several nodes, give a term for each"
POD_FIELD = (
    "this field of a pod cannot be an environment variable: there are metadata.name, metadata.namespace, "
    "metadata.uid, metadata.labels['<key>'], metadata.annotations['<key>'], spec.nodeName, "
    "spec.serviceAccountName, status.hostIP, status.hostIPs, status.podIP and status.podIPs"
)
NOT_ABSOLUTE = "mountPath must be an absolute path, for example /etc/scx"
COLON = "mountPath must not contain ':'"
ODD_PATH = "mountPath must not contain '//', nor '.' or '..' as a path element"
ROOT = "mountPath must not be the root directory"
RESERVED_PATH = "mountPath must not be /proc, /sys, /dev, /run/scx or /var/run/scx, or lie in one of them"
RESOURCE = "a container has cpu, memory, ephemeral-storage, hugepages-<size> and <domain>/<name>, but no such resource"
AMOUNT = "there is an amount that is not a number from 0 on, like 2, 500m or 64Mi"


@dataclass(frozen=True)
class Refusal:
    """A spec that is refused."""

    id: str
    spec: dict[str, Any]
    path: str
    sentence: str
    name: str = "scx"


def make(spec: dict[str, Any], name: str = "scx") -> dict[str, Any]:
    return {"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExt", "metadata": {"name": name}, "spec": spec}


def image(id: str, sched: str, sentence: str) -> Refusal:
    return Refusal(f"image-{id}", {"sched": sched}, "spec.sched", sentence)


def given(id: str, path: str, sentence: str, **fields: Any) -> Refusal:
    """A spec that is right but for these fields."""
    return Refusal(id, {"sched": IMAGE, **fields}, f"spec.{path}", sentence)


def require(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def expression(id: str, path: str, sentence: str, **fields: Any) -> Refusal:
    item = {"key": "a", "operator": "Exists", **fields}
    affinity = require({"matchExpressions": [item]})
    return given(f"expression-{id}", f"affinity.{TERMS}[0].matchExpressions[0]{path}", sentence, affinity=affinity)


def environment(id: str, path: str, sentence: str, **fields: Any) -> Refusal:
    return given(f"env-{id}", f"env[0]{path}", sentence, env=[{"name": "A", **fields}])


def mount(id: str, path: str, sentence: str) -> Refusal:
    source = {"configMap": "layers", "mountPath": path}
    return given(f"mount-{id}", "configFrom.mountPath", sentence, configFrom=source)


def toleration(id: str, path: str, sentence: str, **fields: Any) -> Refusal:
    return given(f"toleration-{id}", f"tolerations[0]{path}", sentence, tolerations=[fields])


def update(id: str, path: str, sentence: str, **fields: Any) -> Refusal:
    strategy = {"rollingUpdate": fields}
    return given(f"update-{id}", f"updateStrategy.rollingUpdate{path}", sentence, updateStrategy=strategy)


def rollout(id: str, path: str, sentence: str, **fields: Any) -> Refusal:
    return given(f"rollout-{id}", f"rollout{path}", sentence, rollout=fields)


def step(id: str, path: str, sentence: str, **fields: Any) -> Refusal:
    return rollout(f"step-{id}", f".steps[0]{path}", sentence, steps=[fields])


def pool(id: str, path: str, sentence: str, **fields: Any) -> Refusal:
    item = {"name": "a", "nodeSelector": {"pool": "a"}, **fields}
    return given(f"pool-{id}", f"pools[0]{path}", sentence, pools=[item])


def select(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "nodeSelector": {"pool": "a"}, **fields}


REFUSED = [
    image("empty", "", "the image reference is empty"),
    image("space", "scx_rusty latest", WHITESPACE),
    image("trailing-newline", f"{IMAGE}\n", WHITESPACE),
    image("tab", "\tscx_rusty", WHITESPACE),
    image("upper-case", "ghcr.io/Schedkit/scx_rusty", UPPER_CASE),
    image("upper-case-alone", "Rusty:latest", UPPER_CASE),
    image("upper-case-digest", f"rusty@sha256:{HEX.upper()}", UPPER_CASE),
    image("scheme", "https://ghcr.io/schedkit/scx_rusty", NOT_A_REFERENCE),
    image("empty-tag", "scx_rusty:", NOT_A_REFERENCE),
    image("long-tag", f"scx_rusty:{'a' * 129}", NOT_A_REFERENCE),
    image("two-tags", "scx_rusty:a:b", NOT_A_REFERENCE),
    image("short-digest", "scx_rusty@sha256:abcdef", NOT_A_REFERENCE),
    image("unknown-digest", f"scx_rusty@md5:{HEX[:32]}", NOT_A_REFERENCE),
    image("trailing-slash", "ghcr.io/schedkit/", NOT_A_REFERENCE),
    image("double-slash", "ghcr.io//scx_rusty", NOT_A_REFERENCE),
    image("leading-dash", "-scx", NOT_A_REFERENCE),
    image("trailing-dash", "ghcr.io/scx-", NOT_A_REFERENCE),
    image("port-that-is-no-number", "localhost:port/scx_rusty", NOT_A_REFERENCE),
    image("identifier", HEX, "64 hexadecimal digits are the ID of an image, not a reference that can be pulled"),
    image("long-name", f"{'a' * 256}:tag", "the name of the image is longer than 255 characters"),
    Refusal("no-image", {}, "spec.sched", "no scheduler is named: give its image as sched"),
    Refusal("no-image-and-no-pools", {"pools": []}, "spec.sched", "no scheduler is named: give its image as sched"),
    Refusal(
        "no-image-in-a-pool",
        {"pools": [select("a", sched=IMAGE), select("b")]},
        "spec.sched",
        "a pool names no scheduler: give its image as sched, in the pool or in the spec for all pools",
    ),
    Refusal(
        "long-name",
        {"sched": IMAGE},
        "metadata.name",
        "the resource's name is longer than 63 characters, too long for a label of its pods",
        name="a" * 64,
    ),
    Refusal(
        "long-name-with-pool",
        {"sched": IMAGE, "pools": [select("fine"), select("b" * 30)]},
        "metadata.name",
        "the resource's name and a pool's, joined by '-', are longer than 63 characters, "
        "too long for a label of its pods",
        name="a" * 33,
    ),
    pool("image", ".sched", WHITESPACE, sched="a b"),
    pool("upper-case", ".name", POOL_NAME, name="Fast"),
    pool("dot", ".name", POOL_NAME, name="a.b"),
    pool("dash-at-the-end", ".name", POOL_NAME, name="a-"),
    pool("empty-name", ".name", POOL_NAME, name=""),
    pool("no-selector", "", POOL_SELECTS, nodeSelector={}),
    pool("wishes-only", "", POOL_SELECTS, nodeSelector={}, affinity={"nodeAffinity": {}}),
    pool("label", ".nodeSelector.pool", LABEL_VALUE, nodeSelector={"pool": "a b"}),
    pool("env", ".env[0].name", ENVIRONMENT_NAME, env=[{"name": "1"}]),
    given("pool-twice", "pools", "two pools have the same name", pools=[select("a"), select("b"), select("a")]),
    given("label-value", "nodeSelector.a", LABEL_VALUE, nodeSelector={"a": "-x"}),
    given(
        "label-key",
        "nodeSelector",
        "there is a key that cannot be the key of a label: a b",
        nodeSelector={"a b": "x", "fine": "x"},
    ),
    given(
        "label-prefix",
        "nodeSelector",
        "there is a key that cannot be the key of a label: Upper.Case/name",
        nodeSelector={"Upper.Case/name": "x"},
    ),
    expression("key", ".key", LABEL_KEY, key="a/b/c"),
    expression("long-key", ".key", LABEL_KEY, key="a" * 64),
    expression("value", ".values[1]", LABEL_VALUE, operator="In", values=["x", "y z"]),
    expression("in", "", IN_VALUES, operator="In"),
    expression("in-empty", "", IN_VALUES, operator="In", values=[]),
    expression("not-in", "", IN_VALUES, operator="NotIn"),
    expression("exists", "", EXISTS_VALUES, values=["x"]),
    expression("does-not-exist", "", EXISTS_VALUES, operator="DoesNotExist", values=["x"]),
    expression("gt-none", "", NUMBER_VALUE, operator="Gt"),
    expression("gt-two", "", NUMBER_VALUE, operator="Gt", values=["1", "2"]),
    expression("lt-word", "", NUMBER_VALUE, operator="Lt", values=["few"]),
    expression("lt-huge", "", NUMBER_VALUE, operator="Lt", values=["9" * 19]),
    given(
        "no-terms",
        f"affinity.{TERMS}",
        "no node is selected without terms: give at least one",
        affinity=require(),
    ),
    given(
        "empty-term",
        f"affinity.{TERMS}[1]",
        "an empty term selects no node: give it matchExpressions or matchFields",
        affinity=require({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"matchFields": []}),
    ),
    given(
        "wish",
        "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0]",
        IN_VALUES,
        affinity={
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "In"}]}}
                ]
            }
        },
    ),
    given(
        "field-values",
        f"affinity.{TERMS}[0].matchFields[0].values",
        FIELD_VALUES,
        affinity=require({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]}),
    ),
    given(
        "field-value",
        f"affinity.{TERMS}[0].matchFields[0].values",
        OBJECT_NAME.replace("an object", "a node"),
        affinity=require({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["A"]}]}),
    ),
    environment("name", ".name", ENVIRONMENT_NAME, name="1ST"),
    environment("name-with-equals", ".name", ENVIRONMENT_NAME, name="A=B"),
    environment("empty-name", ".name", ENVIRONMENT_NAME, name=""),
    environment(
        "reserved",
        ".name",
        "environment variables that begin with SKED_ are reserved for sked",
        name="SKED_NODE",
    ),
    environment(
        "value-and-source",
        "",
        "value and valueFrom exclude each other: give one of them",
        value="x",
        valueFrom={"fieldRef": {"fieldPath": "spec.nodeName"}},
    ),
    environment(
        "no-source",
        ".valueFrom",
        "valueFrom names exactly one of fieldRef, configMapKeyRef and secretKeyRef",
        valueFrom={},
    ),
    environment(
        "two-sources",
        ".valueFrom",
        "valueFrom names exactly one of fieldRef, configMapKeyRef and secretKeyRef",
        valueFrom={"fieldRef": {"fieldPath": "spec.nodeName"}, "secretKeyRef": {"name": "a", "key": "b"}},
    ),
    environment(
        "field", ".valueFrom.fieldRef.fieldPath", POD_FIELD, valueFrom={"fieldRef": {"fieldPath": "spec.node"}}
    ),
    environment(
        "secret",
        ".valueFrom.secretKeyRef.name",
        OBJECT_NAME,
        valueFrom={"secretKeyRef": {"name": "A", "key": "b"}},
    ),
    environment(
        "config-map-key",
        ".valueFrom.configMapKeyRef.key",
        "this cannot be a key of a ConfigMap or Secret: use letters, digits, '-', '_' and '.'",
        valueFrom={"configMapKeyRef": {"name": "a", "key": "b c"}},
    ),
    given(
        "env-twice",
        "env",
        "two environment variables have the same name",
        env=[{"name": "A"}, {"name": "B"}, {"name": "A", "value": "x"}],
    ),
    given(
        "config-map",
        "configFrom.configMap",
        OBJECT_NAME,
        configFrom={"configMap": "Layers", "mountPath": "/etc/scx"},
    ),
    mount("empty", "", NOT_ABSOLUTE),
    mount("relative", "etc/scx", NOT_ABSOLUTE),
    mount("dots-first", "../etc", NOT_ABSOLUTE),
    mount("colon", "/etc/scx:ro", COLON),
    mount("dots", "/etc/../proc", ODD_PATH),
    mount("dots-last", "/etc/..", ODD_PATH),
    mount("dot", "/./proc", ODD_PATH),
    mount("two-slashes", "//proc", ODD_PATH),
    mount("slashes", "//", ODD_PATH),
    mount("root", "/", ROOT),
    mount("proc", "/proc", RESERVED_PATH),
    mount("proc-slash", "/proc/", RESERVED_PATH),
    mount("sys", "/sys/kernel/sched_ext", RESERVED_PATH),
    mount("dev", "/dev/scx", RESERVED_PATH),
    mount("statistics", "/var/run/scx/root", RESERVED_PATH),
    mount("statistics-by-the-link", "/run/scx", RESERVED_PATH),
    mount("newline", "/proc/a\nb", RESERVED_PATH),
    pool("mount", ".configFrom.mountPath", NOT_ABSOLUTE, configFrom={"configMap": "a", "mountPath": "a"}),
    given("resource", "resources.limits", f"{RESOURCE}: cpus", resources={"limits": {"cpus": 1}}),
    given("amount", "resources.requests", f"{AMOUNT}: cpu", resources={"requests": {"cpu": "much", "memory": "1Gi"}}),
    given("amount-below-zero", "resources.limits", f"{AMOUNT}: cpu", resources={"limits": {"cpu": -1}}),
    given(
        "request-above-limit",
        "resources",
        "more of a resource is requested than its limit allows",
        resources={"requests": {"cpu": "1001m", "memory": "1Mi"}, "limits": {"cpu": 1, "memory": "1Gi"}},
    ),
    toleration("nothing", "", "a toleration without a key is for every taint: its operator must be Exists"),
    toleration(
        "no-key",
        "",
        "a toleration without a key is for every taint: its operator must be Exists",
        operator="Equal",
        value="x",
    ),
    toleration(
        "value",
        "",
        "the operator Exists takes no value: it tolerates the taint with any",
        key="a",
        operator="Exists",
        value="x",
    ),
    toleration(
        "seconds",
        "",
        "tolerationSeconds is only for the effect NoExecute",
        key="a",
        effect="NoSchedule",
        tolerationSeconds=5,
    ),
    toleration("key", ".key", TAINT_KEY, key="a b", operator="Exists"),
    toleration("bad-value", ".value", LABEL_VALUE, key="a", value="x y"),
    update("zero", ".maxUnavailable", MAX_UNAVAILABLE, maxUnavailable=0),
    update("below-zero", ".maxUnavailable", MAX_UNAVAILABLE, maxUnavailable=-1),
    update("zero-percent", ".maxUnavailable", MAX_UNAVAILABLE, maxUnavailable="0%"),
    update("number-as-text", ".maxUnavailable", MAX_UNAVAILABLE, maxUnavailable="3"),
    update("too-much", ".maxUnavailable", MAX_UNAVAILABLE, maxUnavailable="101%"),
    update("half-percent", ".maxUnavailable", MAX_UNAVAILABLE, maxUnavailable="0.5%"),
    update("surge", "", SURGE, maxSurge=1),
    update("no-surge", "", SURGE, maxSurge=0, maxUnavailable=1),
    update("surge-percent", "", SURGE, maxSurge="10%"),
    given(
        "rolling-on-delete",
        "updateStrategy",
        "rollingUpdate is only for the type RollingUpdate",
        updateStrategy={"type": "OnDelete", "rollingUpdate": {"maxUnavailable": 1}},
    ),
    rollout("pace", ".maxUnavailable", MAX_UNAVAILABLE, maxUnavailable="0%"),
    step("empty", "", STEP),
    step("both", "", STEP, nodes=1, pause={}),
    step("selected-pause", "", "a nodeSelector goes with nodes: a pause has none", pause={}, nodeSelector={"a": "b"}),
    step("no-nodes", ".nodes", STEP_NODES, nodes=0),
    step("too-many", ".nodes", STEP_NODES, nodes="101%"),
    step(
        "label",
        ".nodeSelector",
        "there is a key that cannot be the key of a label: a b",
        nodes=1,
        nodeSelector={"a b": "c"},
    ),
    step("duration", ".pause.duration", DURATION, pause={"duration": "10 minutes"}),
    step("no-unit", ".pause.duration", DURATION, pause={"duration": "10"}),
    step("minutes-before-hours", ".pause.duration", DURATION, pause={"duration": "1m1h"}),
    given("quarantine", "quarantine.within", DURATION, quarantine={"afterEjections": 3, "within": "-1m"}),
    given("quarantine-for", "quarantine.for", DURATION, quarantine={"afterEjections": 3, "for": "1d"}),
    given("two-paces", "updateStrategy", ONE_PACE, rollout={}, updateStrategy={"type": "OnDelete"}),
    given("two-paces-in-pool", "updateStrategy", ONE_PACE, pools=[select("a", rollout={})], updateStrategy={}),
    Refusal("rollout-long-name", {"sched": IMAGE, "rollout": {}}, "metadata.name", REVISED_NAME, "a" * 53),
    Refusal(
        "rollout-long-pool",
        {"sched": IMAGE, "pools": [select("b" * 30, rollout={})]},
        "metadata.name",
        REVISED_NAME,
        "a" * 22,
    ),
    given("priority-class", "priorityClassName", OBJECT_NAME, priorityClassName="High"),
    given("pull-secret", "imagePullSecrets[0].name", OBJECT_NAME, imagePullSecrets=[{"name": "a_b"}]),
]
