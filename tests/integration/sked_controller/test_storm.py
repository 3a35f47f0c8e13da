"""The operator while the API server answers most requests with 429, as one does that is overloaded."""

from collections.abc import Iterator
from contextlib import contextmanager

from lab.addresses import choose_free_ports
from lab.cluster import Cluster
from lab.waiting import wait_for
from tests.integration.sked_controller.metrics import count_requests, serve_metrics, wait_serving
from tests.integration.sked_controller.operator import (
    SECONDS,
    Json,
    Operator,
    apply,
    fetch_pods,
    has,
    make_schedext,
    wait_object,
)
from tests.integration.sked_controller.test_robustness import wait_exactly
from tests.integration.sked_controller.test_unknown import USER, grant

A, B = "example.com/a:1", "example.com/b:1"
FLOW = "flowcontrol.apiserver.k8s.io/v1"
RESOURCES = 16  # as many as there are workers
READY = has("Ready", "True", "Ready")


@contextmanager
def storm(cluster: Cluster) -> Iterator[None]:
    """The API server's own flow control refuses all but one request of the user at a time, with 429 and Retry-After."""
    level: Json = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0}
    level["limitResponse"] = {"type": "Reject"}
    subject = {"kind": "User", "user": {"name": USER}}
    every: Json = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    apply(
        cluster,
        {
            "apiVersion": FLOW,
            "kind": "PriorityLevelConfiguration",
            "metadata": {"name": "storm"},
            "spec": {"type": "Limited", "limited": level},
        },
        {
            "apiVersion": FLOW,
            "kind": "FlowSchema",
            "metadata": {"name": "storm"},
            "spec": {
                "priorityLevelConfiguration": {"name": "storm"},
                "matchingPrecedence": 2,
                "rules": [{"subjects": [subject], "resourceRules": [every]}],
            },
        },
    )
    try:
        yield
    finally:
        cluster.kubectl("delete", "flowschema,prioritylevelconfiguration", "storm")


def test_storm_of_429_is_sat_out_and_nothing_is_missing_doubled_or_stale(clean: Cluster, operator: Operator) -> None:
    operator.stop()
    grant(clean)
    kubeconfig = clean.folder / f"{USER}.kubeconfig"
    kubeconfig.write_text(clean.make_kubeconfig(USER))
    stormy = Operator(clean, name="sked-stormy", kubeconfig=kubeconfig)
    (port,) = choose_free_ports(1)
    stormy.start(*serve_metrics(port))
    names = [f"s{number}" for number in range(RESOURCES)]
    images = [A]

    def change_all() -> None:
        apply(clean, *(make_schedext(name, sched=images[-1], nodeSelector={"slot": name}) for name in names))

    def is_refused_often() -> bool:
        """Have all workers write at once; flow control takes a moment to begin."""
        images.append(f"example.com/a:{len(images) + 1}")
        change_all()
        return count_requests(port, "429", "PATCH") >= RESOURCES

    try:
        wait_serving(port)
        apply(clean, make_schedext("kept", sched=A, nodeSelector={"pool": "large"}))
        change_all()
        wait_exactly(clean, dict.fromkeys(["kept", *names], A))
        wait_object(clean, "schedext", "kept", READY)
        pods, process = fetch_pods(clean, "kept"), stormy.daemon.pid()

        with storm(clean):
            wait_for("many refusals", is_refused_often, SECONDS, interval=1.0)
            clean.kubectl("delete", "schedexts", *names[8:], "--wait=false")
            apply(clean, make_schedext("new", sched=B, nodeSelector={"slot": "new"}))
            wait_exactly(clean, dict.fromkeys(names[:8], images[-1]) | {"kept": A, "new": B})

        for name in (*names[:8], "new"):
            wait_object(clean, "schedext", name, has("Progressing", "False", "Settled"))
        assert fetch_pods(clean, "kept") == pods
        assert stormy.daemon.pid() == process
    finally:
        print(stormy.log()[-6000:])
        stormy.stop()
