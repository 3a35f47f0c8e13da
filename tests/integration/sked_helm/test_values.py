"""Wrong values are refused in words that name the value, and the documentation lists every one of them."""

import json
from typing import Any

import pytest
import yaml

from tests.integration.sked_helm.tools import CHART, NAMESPACE, RELEASE, ROOT, Helm

DOCUMENTATION = ROOT / "docs/sked/helm.md"
Schema = dict[str, Any]

REFUSED = [
    ("replica=2", "additional properties 'replica' not allowed"),
    ("image.name=sked", "at '/image': additional properties 'name' not allowed"),
    ("metrics.serviceMonitor.on=true", "at '/metrics/serviceMonitor': additional properties 'on' not allowed"),
    ("resources.limit.cpu=1", "at '/resources': additional properties 'limit' not allowed"),
    ("affinity.nodes.a=b", "at '/affinity': additional properties 'nodes' not allowed"),
    ("image.repository=sked:v1", "at '/image/repository'"),
    ("image.tag=15", "at '/image/tag': got number, want string"),
    ("image.digest=sha256:abc", "at '/image/digest'"),
    ("image.pullPolicy=Sometimes", "at '/image/pullPolicy': value must be one of"),
    ("image=null", "missing property 'image'"),
    ("imagePullSecrets[0]=secret", "at '/imagePullSecrets/0': got string, want object"),
    ("replicas=many", "at '/replicas': got string, want integer"),
    ("leaderElection=maybe", "at '/leaderElection': got string, want boolean"),
    ("metrics.port=70000", "at '/metrics/port': maximum: got 70,000, want 65,535"),
    ("metrics.certificateSecret=Not_A_Name", "at '/metrics/certificateSecret'"),
    ("health.port=0", "at '/health/port': minimum: got 0, want 1"),
    ("watchNamespaces[0]=Games", "at '/watchNamespaces/0'"),
    ("watchNamespaces=games", "at '/watchNamespaces': got string, want array"),
    ("priorityCeiling=high", "at '/priorityCeiling': got string, want integer"),
    ("priorityCeiling=2147483648", "at '/priorityCeiling': maximum"),
    ("nodes.label=maybe", "at '/nodes/label': got string, want boolean"),
    ("nodes.labels=true", "at '/nodes': additional properties 'labels' not allowed"),
    ("workers=0", "at '/workers': minimum: got 0, want 1"),
    ("logLevel=loud", "at '/logLevel': value must be one of 'debug', 'info', 'warning', 'error'"),
    ("logFormat=xml", "at '/logFormat': value must be one of 'text', 'json'"),
    ("verification.mode=on", "at '/verification/mode': value must be one of 'off', 'warn', 'enforce'"),
    ("verification.policy=a", "at '/verification': additional properties 'policy' not allowed"),
    ("verification.mirrors.a=b", "at '/verification/mirrors/a': got string, want array"),
    ("verification.files.a=b", "verification.files: there is no policy.yaml among them"),
    ("verification.files.policy\\.yaml=a,verification.configMap=b", "verification: give the policy as files or as"),
    ("verification.caFile=ca.crt", "verification: secrets and caFile lie beside a policy"),
    ("networkPolicy.egressPorts[0]=0", "at '/networkPolicy/egressPorts/0': minimum: got 0, want 1"),
    ("tolerations[0].keys=a", "at '/tolerations/0': additional properties 'keys' not allowed"),
    ("podLabels.tier=1", "at '/podLabels/tier': got number, want string"),
    ("crds.keep=null", "at '/crds': missing property 'keep'"),
    ("replicas=2,leaderElection=false", "replicas: several managers without leaderElection would undo"),
    ("serviceAccount.create=false", "serviceAccount: with create=false, name the account"),
    ("metrics.secure=false,metrics.certificateSecret=a", "metrics that are not served over TLS have no certificate"),
    ("metrics.enabled=false,metrics.serviceMonitor.enabled=true", "there are no metrics to collect"),
    ("metrics.enabled=false,metrics.prometheusRule.enabled=true", "there are no metrics to alert on"),
    ("metrics.monitorLabels.release=1", "at '/metrics/monitorLabels/release': got number, want string"),
    ("agent.metrics.podMonitor.enabled=true", "agent.metrics.podMonitor: there are no metrics to collect"),
    (
        "agent.enabled=false,agent.metrics.enabled=true,agent.metrics.podMonitor.enabled=true",
        "agent.metrics.podMonitor: there are no metrics to collect",
    ),
    ("grafana.enabled=true", "at '/grafana': additional properties 'enabled' not allowed"),
    ("metrics.port=8081", "metrics.port and health.port are the same"),
    ("agent.enabled=maybe", "at '/agent/enabled': got string, want boolean"),
    ("agent.hostNetwork=true", "at '/agent': additional properties 'hostNetwork' not allowed"),
    ("agent.tolerations[0].keys=a", "at '/agent/tolerations/0': additional properties 'keys' not allowed"),
    (
        "agent.metrics.enabled=true,agent.metrics.port=8081",
        "agent.metrics.port and agent.health.port are the same; give each its own",
    ),
]


@pytest.mark.parametrize(("setting", "words"), REFUSED)
def test_wrong_value_is_refused_by_name(helm: Helm, setting: str, words: str) -> None:
    told = helm.run("template", RELEASE, CHART, "--namespace", NAMESPACE, "--set", setting, check=False)
    assert (told.code, told.stdout) == (1, "")
    assert words in told.stderr


def test_values_of_a_chart_around_this_one_are_let_through(helm: Helm) -> None:
    assert helm.template("--set", "global.registry=registry.example.com") == helm.template()


def find_values(schema: Schema, defaults: Any, path: str = "") -> list[tuple[str, Any, str]]:
    """Every value that can be set, with its default and what it does; a description ends the way down."""
    if "description" in schema:
        return [(path, defaults, schema["description"])]
    return [
        row
        for name, below in schema["properties"].items()
        if name != "global"
        for row in find_values(below, defaults[name], f"{path}.{name}".lstrip("."))
    ]


def render_table() -> str:
    """The table of values, from the schema and values.yaml."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    rows = ["| Value | Default | What it does |", "|---|---|---|"]
    for path, default, sentence in find_values(schema, defaults):
        told = yaml.safe_dump(default, default_flow_style=True, width=1000).removesuffix("\n").removesuffix("\n...")
        rows.append(f"| `{path}` | `{told}` | {sentence} |".replace("`''`", ""))
    return "\n".join(rows) + "\n"


def test_every_value_has_a_default_and_a_place_in_the_schema() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())

    def check(schema: Schema, defaults: Any) -> None:
        names = set(schema["properties"]) - {"global"}
        assert names == set(defaults)
        for name in names:
            if "description" not in schema["properties"][name]:
                check(schema["properties"][name], defaults[name])

    check(schema, defaults)


def test_documentation_lists_every_value() -> None:
    assert render_table() in DOCUMENTATION.read_text(), f"the table should be:\n{render_table()}"
