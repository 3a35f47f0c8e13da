"""A real Prometheus scrapes a real operator and a real agent: every query of the dashboard and of the alerts is run."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from lab.addresses import choose_free_ports
from lab.cluster import Cluster
from lab.kube import Binaries
from lab.prometheus import Prometheus, run_promtool
from lab.store import Store
from lab.waiting import NotYetError, wait_for
from tests.integration.clusters import start_cluster
from tests.integration.sked_agent.node import AgentProcess, create_node
from tests.integration.sked_controller.operator import Operator, apply, make_schedext
from tests.integration.sked_deploy.tools import NAMESPACE, ROOT
from tests.monitoring import (
    ALERTS,
    PAGE,
    Json,
    Query,
    expose,
    find_metrics,
    find_registered,
    read_alerts,
    read_dashboard,
    read_queries,
    read_table,
)

SECONDS = 60.0
NODE = "first"
READER = "prometheus"  # the account that scrapes
# What is there only once something has happened that does not happen here.
LATER = {"sked_attach_seconds", "sked_ejections_total", "sked_rollout_failures_total", "sked_rollout_gap_seconds"}
WORKS = (  # both programs have done something
    "sked_nodes and on () sked_rollout_phase and on () leader_election_master_status == 1"
    " and on () sked_verifications_total > 0 and on () sched_ext_attached_timestamp_seconds"
)
OWN = ("up", "scrape_", "ALERTS")  # metrics that Prometheus adds
OF_TARGETS = {"__name__", "job", "instance", "pod", "node", "le"}
IMAGE = "127.0.0.1:9/scx_rusty:v1"  # where no registry is
EVENTS = "SCX_EV_DISPATCH_KEEP_LAST 5\n"


class Scraped(NamedTuple):
    """A Prometheus that has scraped everything, and the names of the metrics that it found."""

    prometheus: Prometheus
    names: frozenset[str]


@pytest.fixture(scope="module")
def agent_and_operator(store: Store, binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Json]:
    """Where to scrape both, and the token of an account that may."""
    with start_cluster(store, binaries) as cluster:
        cluster.kubectl("apply", "-k", str(ROOT / "config/default"))
        cluster.kubectl("wait", "--for=condition=Established", "--all", "crd", "--timeout=30s")
        operator = Operator(cluster)
        agent = AgentProcess(cluster, NODE, create_node(cluster, NODE), tmp_path_factory.mktemp("agent"))
        ports = dict(zip(("sked", "sked-agents"), choose_free_ports(2), strict=True))
        try:
            # As it is installed: over TLS, and for those whom the cluster lets in.
            operator.start("--leader-elect", f"--metrics-bind-address=127.0.0.1:{ports['sked']}", "--verification=warn")
            agent.start(f"--metrics-bind-address=127.0.0.1:{ports['sked-agents']}")
            cluster.kubectl("label", "node", NODE, "pool=large")
            pool = {"name": "large", "nodeSelector": {"pool": "large"}}
            apply(cluster, make_schedext("rusty", sched=IMAGE, pools=[pool], rollout={}))
            agent.wait_ready()
            agent.attach("schedkit_fifo", 4)
            (agent.root / "sys/kernel/sched_ext/root/events").write_text(EVENTS)
            yield {"ports": ports, "token": make_token(cluster)}
        finally:
            print(operator.log()[-4000:], agent.daemon.log.read_text()[-4000:])
            agent.daemon.stop()
            operator.stop()


def make_token(cluster: Cluster) -> str:
    """A token of an account that may read metrics, as the page says."""
    cluster.kubectl("create", "serviceaccount", READER)
    words = ("create", "clusterrolebinding", "prometheus-sked", "--clusterrole=sked-metrics-reader")
    cluster.kubectl(*words, f"--serviceaccount=default:{READER}")
    return cluster.kubectl("create", "token", READER).stdout.strip()


def read_configuration() -> Json:
    """The configuration that the page has for a Prometheus of one's own."""
    (text,) = re.findall(r"```yaml\n# prometheus.yml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    found: Json = yaml.safe_load(text)
    return found


def point_to(configuration: Json, ports: dict[str, int], token: Path) -> Json:
    """The page's configuration with these targets instead of what a cluster's pods would be, and in a hurry."""
    labels = {"sked": {"namespace": NAMESPACE, "pod": "manager"}, "sked-agents": {"node": NODE}}
    for job in configuration["scrape_configs"]:
        del job["kubernetes_sd_configs"], job["relabel_configs"]
        name = job["job_name"]
        job["static_configs"] = [{"targets": [f"127.0.0.1:{ports[name]}"], "labels": labels[name]}]
        if "authorization" in job:
            job["authorization"] = {"credentials_file": str(token)}
    hurry = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    return configuration | {"global": hurry, "rule_files": [str(ALERTS)]}


@pytest.fixture(scope="module")
def scraped(store: Store, agent_and_operator: Json, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    folder = tmp_path_factory.mktemp("prometheus")
    token = folder / "token"
    token.write_text(agent_and_operator["token"])
    configuration = point_to(read_configuration(), agent_and_operator["ports"], token)
    with Prometheus(store, folder, configuration) as prometheus:

        def probe() -> bool:
            down = [
                f"{one['scrapeUrl']}: {one['lastError']}" for one in fetch_targets(prometheus) if one["health"] != "up"
            ]
            if down:
                raise NotYetError("; ".join(down))
            # Some scrapes of each, for rates.
            found = prometheus.query("count(count_over_time(up[4s]) >= 3)")
            works = prometheus.query(WORKS)
            if not (found and found[0]["value"][1] == "2" and works):
                raise NotYetError(f"{found}, {works}")
            return True

        wait_for("both to be scraped", probe, SECONDS, interval=0.2)
        names = prometheus.ask("label/__name__/values")
        yield Scraped(prometheus, frozenset(name for name in names if not name.startswith(OWN)))


def ask(prometheus: Prometheus, expression: str) -> list[Json]:
    """The samples of an expression that has some: after a scrape that took too long it has none for a moment."""
    return wait_for(expression, lambda: prometheus.query(expression), SECONDS, interval=0.2)


def fetch_targets(prometheus: Prometheus) -> list[Json]:
    found: list[Json] = prometheus.ask("targets")["activeTargets"]
    return found


@pytest.mark.parametrize("query", read_queries(), ids=lambda query: query.name)
def test_query_is_answered_and_asks_for_what_is_served(scraped: Scraped, query: Query) -> None:
    scraped.prometheus.query(query.expression)
    later = expose({name: find_registered()[name] for name in LATER})
    names = find_metrics(query.expression)
    assert names <= scraped.names | later
    # A query that compares has no answer while all is well; any other has one if its labels are right.
    if names <= scraped.names and not re.search(r"[<>]|==|absent", query.expression):
        assert ask(scraped.prometheus, query.expression)


def test_nothing_is_served_that_the_code_is_not_known_to_have(scraped: Scraped) -> None:
    assert scraped.names - expose(find_registered()) == set()
    assert {"sked_nodes", "sched_ext_info", "process_resident_memory_bytes"} <= scraped.names


def test_page_names_the_labels(scraped: Scraped) -> None:
    found = scraped.prometheus.ask("series", **{"match[]": '{job=~"sked.*"}'})
    labels: dict[str, set[str]] = {}
    for series in found:
        labels.setdefault(series["__name__"], set()).update(series.keys() - OF_TARGETS)
    checked = 0
    for name, documented, kind in read_table("Metrics"):
        for exposed in expose({name: kind}) & labels.keys():
            added = {"namespace"} - documented  # that of the target, where a metric has none
            assert labels[exposed] - added == documented, exposed
            checked += 1
    assert checked > 20


def test_resource_keeps_its_own_namespace(scraped: Scraped) -> None:
    (labels,) = [found["metric"] for found in ask(scraped.prometheus, 'sked_nodes{state="unknown"}')]
    assert (labels["namespace"], labels["name"]) == ("default", "rusty")
    assert not [name for name in labels if name.startswith("exported_")]
    (own,) = ask(scraped.prometheus, 'process_resident_memory_bytes{job="sked"}')
    assert own["metric"]["namespace"] == NAMESPACE


def test_variables_find_the_resource(scraped: Scraped) -> None:
    variables = [variable for variable in read_dashboard()["templating"]["list"] if variable["type"] == "query"]
    for variable in variables:
        ((metric, label),) = re.findall(r"^label_values\((\w+), (\w+)\)$", variable["query"]["query"])
        values = scraped.prometheus.ask(f"label/{label}/values", **{"match[]": metric})
        assert values == [{"namespace": "default", "name": "rusty"}[variable["name"]]]


def test_every_alert_is_evaluated_and_none_says_that_the_operator_is_gone(scraped: Scraped) -> None:
    def fetch() -> dict[str, Json]:
        rules = {rule["name"]: rule for group in scraped.prometheus.ask("rules")["groups"] for rule in group["rules"]}
        if any(rule["health"] == "unknown" for rule in rules.values()):
            raise NotYetError("not evaluated yet")
        states = {name: rule["state"] for name, rule in rules.items() if rule["state"] != "inactive"}
        # The node has no agent's pod that is ready. After a scrape that took too long, others are pending for a moment.
        if states != {"SkedNodesUnknown": "pending"}:
            raise NotYetError(f"{states}")
        return rules

    rules = wait_for("the rules to be evaluated, and all is well but for the node", fetch, SECONDS)
    assert {name: rule["health"] for name, rule in rules.items()} == {rule["alert"]: "ok" for rule in read_alerts()}


def test_promtool_finds_nothing_wrong_with_the_configuration_of_the_page(store: Store, tmp_path: Path) -> None:
    (tmp_path / "alerts.yaml").write_bytes(ALERTS.read_bytes())
    path = tmp_path / "prometheus.yml"
    path.write_text(json.dumps(read_configuration()))
    done = run_promtool(store, "check", "config", "--syntax-only", path)
    assert done.code == 0, done.stdout + done.stderr
