"""Alerts and dashboard: the same everywhere, about metrics that exist, and documented."""

import re
from itertools import combinations

import pytest
import yaml

from schedkit.sked.api.rollout_types import PHASES, RolloutNodes
from schedkit.sked.controller.attachment import NodeState
from schedkit.sked.controller.operator import CONTROLLER, HOLDERS, LEASE, SLOTS
from tests.monitoring import (
    ALERTS,
    DASHBOARD,
    ROOT,
    RULES,
    Json,
    Query,
    expose,
    find_metrics,
    find_registered,
    read_alerts,
    read_dashboard,
    read_panels,
    read_queries,
    read_table,
)

CHART_DASHBOARD = ROOT / "charts/sked/files/dashboard.json"


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ('sum by (namespace, name) (rate(sked_nodes{state="attached"}[5m])) > 0', {"sked_nodes"}),
        ("a unless b offset 15m", {"a", "b"}),
        ('x and on (instance) y{z="sked_nodes"}', {"x", "y"}),
        ("histogram_quantile(0.95, sum by (le) (rate(a_bucket[4s])))", {"a_bucket"}),
        ("time() - max(a) == bool 1e3", {"a"}),
    ],
)
def test_names_of_metrics_are_found_in_expressions(expression: str, names: set[str]) -> None:
    assert find_metrics(expression) == names


@pytest.mark.parametrize("query", read_queries(), ids=lambda query: query.name)
def test_query_asks_for_metrics_that_exist(query: Query) -> None:
    names = find_metrics(query.expression)
    assert names
    assert names - expose(find_registered()) == set()


def test_queries_name_the_controllers_the_lease_and_the_states_as_the_code_does() -> None:
    text = ALERTS.read_text() + DASHBOARD.read_text().replace('\\"', '"')
    assert set(re.findall(r'controller=~?"([^"]*)"', text)) == {CONTROLLER, f"{CONTROLLER}|{SLOTS}|{HOLDERS}"}
    assert set(re.findall(r'leader_election_master_status\{name="([^"]*)"', text)) == {LEASE}
    for label, metric, known in (
        ("state", "sked_nodes", {*NodeState, "quarantined"}),
        ("phase", "sked_rollout_phase", set(PHASES)),
        ("state", "sked_rollout_nodes", set(RolloutNodes.__struct_fields__)),
    ):
        values = re.findall(rf'{metric}\{{[^}}]*\b{label}!?=~?"([^"]*)"', text)
        asked = {value for found in values for value in found.split("|")}
        assert asked
        assert asked <= known


def test_rule_of_the_prometheus_operator_is_the_rule_file() -> None:
    rule = yaml.safe_load(RULES.read_text())
    assert rule["spec"] == yaml.safe_load(ALERTS.read_text())


def test_dashboard_of_the_chart_is_that_of_kustomize() -> None:
    assert CHART_DASHBOARD.read_text() == DASHBOARD.read_text(), f"copy {DASHBOARD} to {CHART_DASHBOARD}"


@pytest.mark.parametrize("alert", read_alerts(), ids=lambda alert: alert["alert"])
def test_alert_says_what_it_is_and_what_to_look_at(alert: Json) -> None:
    assert alert["labels"]["severity"] in ("warning", "critical")
    assert set(alert["annotations"]) == {"summary", "description"}
    assert "`kubectl " in alert["annotations"]["description"]
    assert len(alert["annotations"]["summary"]) < 160


def test_page_lists_every_alert_with_its_severity() -> None:
    listed = {name: severity for name, _, severity in read_table("Alerts")}
    assert listed == {alert["alert"]: alert["labels"]["severity"] for alert in read_alerts()}


def test_page_lists_every_metric_with_its_type() -> None:
    assert {name: kind for name, _, kind in read_table("Metrics")} == find_registered()


def test_panels_say_what_they_show_and_do_not_overlap() -> None:
    panels = read_dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in read_panels():
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert all(target["datasource"] == panel["datasource"] for target in panel["targets"])
    places = [panel["gridPos"] for panel in panels]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below, (one, other)


def test_variables_are_those_that_the_queries_have() -> None:
    variables = {variable["name"] for variable in read_dashboard()["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", DASHBOARD.read_text())) - {"__rate_interval", "__all"}
    assert used == variables
