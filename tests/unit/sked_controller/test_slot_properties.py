"""What holds of every cluster, whatever people do to it: random histories around the real controller."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from schedkit.sked.api.requests import SLOT
from schedkit.sked.api.types import SchedExt
from schedkit.sked.controller.claims import Claim, make_claims
from schedkit.sked.controller.objects import Node
from schedkit.sked.controller.scheduling import judge_node
from tests.unit.sked_controller.cluster import Cluster

NODES = ("n1", "n2", "n3", "n4")
NAMES = ("a", "b", "c")
TAINT = {"key": "gpu", "effect": "NoSchedule"}
TOLERATION = {"key": "gpu", "operator": "Exists"}
SELECTORS: tuple[dict[str, str], ...] = (
    {},
    {"pool": "x"},
    {"pool": "y"},
    {"kubernetes.io/hostname": "n1"},
    {"kubernetes.io/hostname": "n2"},
)


@dataclass(frozen=True)
class Step:
    """Something that people do."""

    do: Callable[["Watched"], None]
    told: str

    def __repr__(self) -> str:
        return self.told


class Watched(Cluster):
    """A cluster that fails the test as soon as two schedulers are on a node."""

    strict = True

    def check(self) -> None:
        super().check()
        for node in self.names("nodes"):
            if self.strict:
                assert len(self.on(node)) <= 1, f"{node}: {self.on(node)}"


def _apply(name: str, spec: dict[str, Any]) -> Step:
    return Step(lambda cluster: cluster.apply_resource(name, **spec), f"apply {name} {spec}")


def _delete(name: str) -> Step:
    def do(cluster: Watched) -> None:
        if name in cluster.names("schedexts"):
            cluster.remove("schedexts", name)

    return Step(do, f"delete {name}")


def _label(node: str, label: str, value: str | None) -> Step:
    def do(cluster: Watched) -> None:
        if node in cluster.names("nodes"):
            cluster.label(node, **{label: value})

    return Step(do, f"label {node} {label}={value}")


def _node(node: str, present: bool, tainted: bool) -> Step:
    def do(cluster: Watched) -> None:
        if not present:
            for pod in [name for name in cluster.names("pods") if name.endswith(f"-{node}")]:
                cluster.remove("pods", pod)
            if node in cluster.names("nodes"):
                cluster.remove("nodes", node)
        elif node in cluster.names("nodes"):
            cluster.change("nodes", node, spec={"taints": [TAINT] if tainted else []})
        else:
            cluster.add_node(node, {"pool": "x"}, [TAINT] if tainted else [])

    return Step(do, f"node {node} present={present} tainted={tainted}")


specs = st.fixed_dictionaries(
    {"nodeSelector": st.sampled_from(SELECTORS), "priority": st.integers(-1, 2)},
    optional={
        "suspend": st.just(True),
        "tolerations": st.just([TOLERATION]),
        "sched": st.sampled_from(["example.com/scx_rusty:1", "example.com/scx_rusty:2"]),
    },
)
resource_steps = st.one_of(st.builds(_apply, st.sampled_from(NAMES), specs), st.builds(_delete, st.sampled_from(NAMES)))
steps = st.one_of(
    resource_steps,
    st.builds(_label, st.sampled_from(NODES), st.just("pool"), st.sampled_from(["x", "y", None])),
    st.builds(_label, st.sampled_from(NODES), st.just("slot"), st.sampled_from(["none", "a", "default.b", None])),
    st.builds(_node, st.sampled_from(NODES), st.booleans(), st.booleans()),
)
# How far everybody comes before the next thing happens: nothing, the operator alone, all but the ending of pods, all.
paces = st.sampled_from(["at once", "operator", "cluster", "settled", "restart"])


def expected(cluster: Cluster) -> dict[str, str]:
    """Who should have each node: worked out from scratch, node by node."""
    claims = [
        claim
        for document in cluster.objects["schedexts"].values()
        for claim in make_claims(msgspec.convert(document, SchedExt))
    ]
    wanted = {}
    for document in cluster.objects["nodes"].values():
        node = msgspec.convert(document, Node)
        able = sorted((claim for claim in claims if claim.could_run_on(node)), key=lambda claim: claim.rank)
        value, written = node.metadata.labels.get(SLOT, ""), node.metadata.annotations.get(SLOT, "")
        if value and value != written:
            able = [claim for claim in able if value in (claim.name, claim.slot)]
        staying = [claim for claim in claims if _stays(claim, node) and cluster.on(node.metadata.name) == [claim.name]]
        if able or staying:
            wanted[node.metadata.name] = (*able, *staying)[0].name
    return wanted


def _stays(claim: Claim, node: Node) -> bool:
    """Whether Kubernetes leaves a pod alone that it would not start: a taint without NoExecute does not evict."""
    return judge_node(claim.selector, claim.tolerations, node).stays


def settle(cluster: Watched) -> list[str]:
    """Everything that time brings, minutes of it."""
    writes = cluster.work()
    for name in cluster.names("schedexts"):
        cluster.look(name)
    return writes + cluster.work()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=st.lists(st.tuples(steps, paces), min_size=1, max_size=8))
@example(history=[(_apply("a", {}), "operator"), (_apply("b", {"priority": 2}), "operator")])
def test_every_node_has_one_scheduler_of_the_right_resource(history: list[tuple[Step, str]]) -> None:
    cluster = Watched()
    cluster.free_namespace()
    for name in NODES[:3]:
        cluster.add_node(name, {"pool": "x"})
    for step, pace in history:
        cluster.strict = False
        step.do(cluster)
        if pace == "operator":
            cluster.run()
        elif pace == "cluster":
            cluster.run()
            cluster.move()
        elif pace == "restart":
            cluster = Watched(cluster)
            cluster.strict = False
        elif pace == "settled":
            settle(cluster)
            assert {node: cluster.on(node) for node in cluster.names("nodes") if cluster.on(node)} == {
                node: [name] for node, name in expected(cluster).items()
            }
    settle(cluster)
    found = {node: cluster.on(node) for node in cluster.names("nodes") if cluster.on(node)}
    assert found == {node: [name] for node, name in expected(cluster).items()}
    again = Watched(cluster)
    assert again.work() == [], "an unchanged world is not written to"


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=st.lists(resource_steps, min_size=2, max_size=6))
def test_what_resources_ask_for_moves_no_other_pod_and_never_puts_two_on_a_node(history: list[Step]) -> None:
    cluster = Watched()
    cluster.free_namespace()
    for number, name in enumerate(NODES):
        cluster.add_node(name, {"pool": "xy"[number % 2]})
    for step in history:
        old, was = {name: cluster.uids(name) for name in cluster.names("daemonsets")}, expected(cluster)
        specs_before = {key.name: document["spec"] for key, document in cluster.objects["schedexts"].items()}
        step.do(cluster)
        writes = settle(cluster)
        now = expected(cluster)
        specs_now = {key.name: document["spec"] for key, document in cluster.objects["schedexts"].items()}
        for write in writes:
            if write.startswith("delete daemonsets"):
                name = write.rpartition(" ")[2]
                assert name not in specs_now or specs_now[name].get("suspend"), write
        for name, spec in specs_now.items():
            if specs_before.get(name) != spec:
                continue
            for node, uid in old.get(name, {}).items():
                if was.get(node) == now.get(node) == name:
                    assert cluster.uids(name)[node] == uid, f"{name} was restarted on {node}"
