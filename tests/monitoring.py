"""The alerts and the dashboard as they are in the tree, the metrics that they ask for, and those that the code has."""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from schedkit.kernel.metrics import describe_slot
from schedkit.kernel.state import KernelState, State
from schedkit.sked.kube.instruments import add_process_metrics
from schedkit.sked.kube.metrics import MetricsRegistry

ROOT = Path(__file__).parents[1]
RULES = ROOT / "config/prometheus/rules.yaml"
ALERTS = ROOT / "charts/sked/files/alerts.yaml"
DASHBOARD = ROOT / "config/prometheus/dashboard.json"
PAGE = ROOT / "docs/sked/monitoring.md"
# Suffixes that the text format adds to a name.
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count")}
# What in an expression is not the name of a metric.
NOT_NAMES = re.compile(r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)')
NAME = re.compile(r"(?<![\w:])[a-zA-Z_:][\w:]*(?!\w)(?!\s*\()")
WORDS = {"and", "or", "unless", "offset", "bool", "by", "without", "on", "ignoring", "inf", "nan"}
Json = dict[str, Any]


class Query(NamedTuple):
    """An expression, and where it is from."""

    name: str
    expression: str


def read_alerts() -> list[Json]:
    """The alerts of all groups."""
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def read_dashboard() -> Json:
    found: Json = json.loads(DASHBOARD.read_text())
    return found


def read_panels() -> list[Json]:
    """The panels that show something: not the titles of rows."""
    return [panel for panel in read_dashboard()["panels"] if panel["type"] != "row"]


def read_queries() -> list[Query]:
    """Every query of the dashboard, with its variables set as for all resources, and of the alerts."""
    return [
        *(
            Query(f"{panel['title']} {target['refId']}", fill_variables(target["expr"]))
            for panel in read_panels()
            for target in panel["targets"]
        ),
        *(Query(alert["alert"], alert["expr"]) for alert in read_alerts()),
    ]


def read_table(heading: str) -> list[tuple[str, frozenset[str], str]]:
    """The tables below a heading of the page: names, their labels, and the second column."""
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    rows = re.findall(r"^\| `(\w+)(?:\{([^`]*)\})?` \| (\w+) \|", section, re.MULTILINE)
    return [(name, frozenset(re.findall(r"(\w+)(?==|,|$)", labels)), kind) for name, labels, kind in rows]


def fill_variables(expression: str) -> str:
    """A query as Grafana sends it."""
    for name, value in {"__rate_interval": "4s", "namespace": ".*", "name": ".*"}.items():
        expression = re.sub(rf"\${name}\b", value, expression)
    return expression


def find_metrics(expression: str) -> set[str]:
    """The names of the metrics that an expression asks for."""
    left = NOT_NAMES.sub(" ", expression)
    return {name for name in NAME.findall(left) if name.lower() not in WORDS}


@cache
def find_registered() -> Mapping[str, str]:
    """Every metric of the operator and of the agents with its type, as the code registers it."""
    registry = MetricsRegistry()
    add_process_metrics(registry)
    found = dict(re.findall(r"# TYPE (\S+) (\S+)", registry.render().decode()))
    for path in sorted((ROOT / "src/schedkit/sked").rglob("*.py")):
        found |= _find_calls(ast.parse(path.read_text()))
    everything = KernelState(State.ENABLED, "ops", 1, 0, events={"a": 1})
    for family in describe_slot(everything, release="6.16", attached_at=1.0):
        suffix = "_total" if family.kind == "counter" else ""
        found[f"{family.name}{suffix}"] = family.kind
    return found


def expose(names: Mapping[str, str]) -> set[str]:
    """The names under which Prometheus has metrics of these types."""
    return {f"{name}{suffix}" for name, kind in names.items() for suffix in SUFFIXES.get(kind, ("",))}


def _find_calls(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Names in calls such as registry.gauge("NAME", …), and of the agent's own counters."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)):
            continue
        name, function = str(node.args[0].value), node.func
        if isinstance(function, ast.Attribute) and function.attr in ("gauge", "counter", "histogram"):
            yield name, function.attr
        elif isinstance(function, ast.Attribute) and function.attr == "collect":
            yield name, "gauge"
        elif isinstance(function, ast.Name) and function.id == "_count":
            yield f"sked_agent_{name}_total", "counter"
