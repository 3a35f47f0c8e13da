"""What the chart becomes: by default what kustomize gives, and with each option what the option says."""

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import schedkit
from lab.kube import Binaries
from schedkit.sked.api.crd import build_crd
from schedkit.sked.api.kinds import KINDS
from schedkit.sked.cli import agent, manager
from tests.integration.sked_helm.tools import (
    CHART,
    CRD,
    EVERYTHING,
    HELM_LABELS,
    MONITORING,
    NOTHING,
    ROOT,
    Helm,
    Object,
    Objects,
    render_kustomize,
    without_tool,
)

MANAGER = ("Deployment", "sked-controller-manager")
AGENT = ("DaemonSet", "sked-agent")
AGENT_BINDING = ("ClusterRoleBinding", "sked-agent-rolebinding")
POLICIES, AGENT_POLICIES = (
    [("ValidatingAdmissionPolicy", name), ("ValidatingAdmissionPolicyBinding", name)]
    for name in ("sked-node-slot", "sked-node-report")
)
ROLE_KINDS = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


def select_manager(objects: Objects) -> tuple[Object, Object]:
    pod: Object = objects[MANAGER]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    return pod, container


@pytest.mark.parametrize("values", [{}, EVERYTHING, NOTHING])
def test_lint_finds_nothing(helm: Helm, values: Mapping[str, Any]) -> None:
    told = helm.run("lint", "--strict", CHART, values=values).stdout
    assert "0 chart(s) failed" in told
    assert not re.search("WARNING|ERROR", told), told


def test_default_is_the_kustomize_installation(helm: Helm, binaries: Binaries) -> None:
    described = render_kustomize(binaries.kubectl, "default")
    del described["Namespace", "sked-system"]  # helm makes it
    rendered = helm.template()
    assert {key: without_tool(value) for key, value in rendered.items()} == {
        key: without_tool(value) for key, value in described.items()
    }


@pytest.mark.parametrize("folder", ["network-policy", "prometheus"])
def test_optional_objects_are_those_of_kustomize(helm: Helm, binaries: Binaries, folder: str) -> None:
    on = {"enabled": True}
    values = {
        "networkPolicy": on,
        "metrics": {"serviceMonitor": on, "prometheusRule": on},
        "agent": {"metrics": {**on, "podMonitor": on}},
        "grafana": {"dashboard": on},
    }
    rendered = helm.template(values=values)
    described = render_kustomize(binaries.kubectl, folder)
    assert described
    for key, thing in described.items():
        assert without_tool(rendered[key]) == without_tool(thing)


def test_verification_is_that_of_the_kustomize_component(helm: Helm, binaries: Binaries, tmp_path: Path) -> None:
    folders = {name: os.path.relpath(ROOT / "config" / name, tmp_path) for name in ("default", "verification")}
    shutil.copy(ROOT / "config/verification/network_policy.yaml", tmp_path)
    overlay = {"resources": [folders["default"], "network_policy.yaml"], "components": [folders["verification"]]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    described = render_kustomize(binaries.kubectl, str(tmp_path))
    files = described["ConfigMap", "sked-trust-policy"]["data"]
    verification = {"mode": "enforce", "files": files}
    rendered = helm.template(values={"verification": verification, "networkPolicy": {"enabled": True}})
    del described["Namespace", "sked-system"]
    for name in ("sked-allow-metrics-traffic", "sked-allow-agent-metrics-traffic"):
        del rendered["NetworkPolicy", name]
    # The one difference: a Secret with keys is named in the values, or is there or not.
    pod, _ = select_manager(described)
    assert pod["volumes"][0]["projected"]["sources"].pop() == {"secret": {"name": "sked-trust-keys", "optional": True}}
    assert {key: without_tool(value) for key, value in rendered.items()} == {
        key: without_tool(value) for key, value in described.items()
    }


def test_verification_has_the_files_logins_and_mirrors_that_the_values_name(helm: Helm) -> None:
    verification = {
        "mode": "warn",
        "configMap": "mine",
        "secrets": ["keys"],
        "pullSecret": "login",
        "mirrors": {"ghcr.io": ["mirror.lan/a", "mirror.lan/b"]},
        "insecureRegistries": ["old.lan:5000"],
        "caFile": "ca.crt",
    }
    objects = helm.template(values={"verification": verification})
    assert ("ConfigMap", "sked-trust-policy") not in objects
    pod, container = select_manager(objects)
    assert container["args"][-7:] == [
        "--verification=warn",
        "--trust-policy=/etc/sked/trust/policy.yaml",
        "--pull-secret=/etc/sked/pull/.dockerconfigjson",
        "--registry-mirror=ghcr.io=mirror.lan/a",
        "--registry-mirror=ghcr.io=mirror.lan/b",
        "--insecure-registry=old.lan:5000",
        "--registry-ca-file=/etc/sked/trust/ca.crt",
    ]
    sources = [{"configMap": {"name": "mine"}}, {"secret": {"name": "keys"}}]
    assert pod["volumes"] == [
        {"name": "trust", "projected": {"sources": sources}},
        {"name": "tmp", "emptyDir": {"sizeLimit": "16Mi"}},
        {"name": "pull-secret", "secret": {"secretName": "login"}},
    ]
    places = {mount["name"]: (mount["mountPath"], mount.get("readOnly")) for mount in container["volumeMounts"]}
    assert (places["trust"], places["pull-secret"]) == (("/etc/sked/trust", True), ("/etc/sked/pull", True))
    # And so does sked read them.
    with manager.make_context("manager", container["args"]) as context:
        assert context.params["verification"] == "warn"


def test_objects_say_that_helm_made_them(helm: Helm) -> None:
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["version"]
    for thing in helm.template(values=EVERYTHING).values():
        labels = thing["metadata"]["labels"]
        assert [labels[name] for name in HELM_LABELS] == ["Helm", f"sked-{version}"]


def test_definition_is_the_generated_one(helm: Helm, tmp_path: Path) -> None:
    helm.run("package", CHART, "--destination", tmp_path)
    (package,) = tmp_path.glob("sked-*.tgz")
    rendered = helm.template(chart=package)
    crds = {name: without_tool(thing) for (kind, name), thing in rendered.items() if kind == "CustomResourceDefinition"}
    assert crds == {kind.crd_name: build_crd(kind) for kind in KINDS}


def test_package_becomes_the_same_objects(helm: Helm, tmp_path: Path) -> None:
    helm.run("package", CHART, "--destination", tmp_path)
    (package,) = tmp_path.glob("sked-*.tgz")
    assert helm.template(chart=package, values=EVERYTHING) == helm.template(values=EVERYTHING)


def test_chart_is_of_the_version_that_it_installs() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == schedkit.__version__


def test_defaults_are_those_of_the_manager() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    flags = {option.name: option.default for option in manager.params}
    assert (values["workers"], values["logLevel"], values["logFormat"]) == (
        flags["workers"],
        flags["log_level"],
        flags["log_format"],
    )
    assert values["priorityCeiling"] == flags["priority_ceiling"]
    assert f":{values['health']['port']}" == flags["health_probe_bind_address"]
    agent_flags = {option.name: option.default for option in agent.params}
    assert f":{values['agent']['health']['port']}" == agent_flags["health_probe_bind_address"]
    assert values["metrics"]["secure"] == flags["metrics_secure"]


def test_manager_is_started_with_what_the_values_say(helm: Helm) -> None:
    _, container = select_manager(helm.template(values=EVERYTHING))
    assert container["args"] == [
        "--metrics-bind-address=:9443",
        "--metrics-cert-path=/etc/sked/metrics",
        "--leader-elect",
        "--health-probe-bind-address=:9081",
        "--namespace=games",
        "--namespace=batch",
        "--priority-ceiling=100",
        "--workers=4",
        "--log-level=debug",
        "--log-format=json",
    ]
    manager.make_context("sked manager", container["args"])  # and it takes all of them
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == 9081
    assert container["volumeMounts"] == [
        {"name": "metrics-certificate", "mountPath": "/etc/sked/metrics", "readOnly": True}
    ]


def test_pod_is_what_the_values_say(helm: Helm) -> None:
    objects = helm.template(values=EVERYTHING)
    deployment = objects[MANAGER]["spec"]
    pod, container = select_manager(objects)
    assert deployment["replicas"] == 3
    assert deployment["selector"] == {"matchLabels": {"control-plane": "controller-manager"}}
    assert deployment["template"]["metadata"] == {
        "annotations": {"kubectl.kubernetes.io/default-container": "manager", "example.com/owner": "kernel team"},
        "labels": {"control-plane": "controller-manager", "example.com/tier": "infra"},
    }
    for name in ("imagePullSecrets", "nodeSelector", "tolerations", "affinity", "priorityClassName"):
        assert pod[name] == EVERYTHING[name]
    assert pod["serviceAccountName"] == "scheduler-operator"
    assert pod["volumes"] == [{"name": "metrics-certificate", "secret": {"secretName": "metrics-certificate"}}]
    assert container["image"] == f"registry.example.com:5000/tools/sked@{EVERYTHING['image']['digest']}"
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert container["resources"] == {
        "limits": {"memory": "256Mi", "cpu": 1},
        "requests": {"cpu": "10m", "memory": "64Mi"},
    }


def test_labels_of_the_selector_cannot_be_changed(helm: Helm) -> None:
    values = {"podLabels": {"control-plane": "mine"}}
    template = helm.template(values=values)[MANAGER]["spec"]["template"]
    assert template["metadata"]["labels"] == {"control-plane": "controller-manager"}


def test_account_that_the_values_name_gets_the_rights(helm: Helm) -> None:
    for values, account in ((EVERYTHING, "scheduler-operator"), (NOTHING, "somebody")):
        objects = helm.template(values=values)
        bindings = [thing for key, thing in objects.items() if key[0].endswith("RoleBinding") and key != AGENT_BINDING]
        assert bindings
        subject = {"kind": "ServiceAccount", "name": account, "namespace": "sked-system"}
        assert all(binding["subjects"] == [subject] for binding in bindings)
        assert (("ServiceAccount", account) in objects) == (account == "scheduler-operator")
    assert select_manager(helm.template(values=NOTHING))[0]["serviceAccountName"] == "somebody"


def test_what_is_off_takes_no_rights_and_makes_no_objects(helm: Helm) -> None:
    objects = helm.template(values=NOTHING)
    assert set(objects) == {
        MANAGER,
        ("ClusterRole", "sked-manager-role"),
        ("ClusterRoleBinding", "sked-manager-rolebinding"),
        ("ClusterRole", "sked-schedext-editor-role"),
        ("ClusterRole", "sked-schedext-viewer-role"),
    }
    _, container = select_manager(objects)
    assert container["args"] == ["--health-probe-bind-address=:8081"]
    assert "resources" not in container


def may_patch_nodes(objects: Objects) -> bool:
    rules = objects["ClusterRole", "sked-manager-role"]["rules"]
    return any("nodes" in rule["resources"] and "patch" in rule["verbs"] for rule in rules)


def test_policy_is_for_the_account_that_the_values_name(helm: Helm) -> None:
    (condition,) = helm.template(values=EVERYTHING)[POLICIES[0]]["spec"]["matchConditions"]
    user = "system:serviceaccount:sked-system:scheduler-operator"
    assert condition["expression"] == f"request.userInfo.username == '{user}'"


def test_nodes_are_labelled_and_limited_only_when_asked(helm: Helm) -> None:
    assert may_patch_nodes(helm.template())
    unlimited = helm.template("--set", "nodes.policy=false")
    assert may_patch_nodes(unlimited)
    without = helm.template("--set", "nodes.label=false")
    assert not may_patch_nodes(without)
    for objects in (unlimited, without):
        assert not objects.keys() & set(POLICIES)


def test_policy_is_left_out_where_kubernetes_does_not_serve_it(helm: Helm) -> None:
    newest, oldest = (helm.template("--kube-version", version) for version in ("1.30.0", "1.29.15-gke.100"))
    assert newest.keys() - oldest.keys() == {*POLICIES, *AGENT_POLICIES}
    assert may_patch_nodes(oldest)


def test_agents_are_limited_to_their_own_report_where_kubernetes_can(helm: Helm, tmp_path: Path) -> None:
    # `helm template` takes a version of Kubernetes and prints no notes: here they are an object.
    chart = shutil.copytree(CHART, tmp_path / "sked")
    notes = 'kind: Notes\nmetadata: {name: notes}\ntext: {{ include "sked/templates/NOTES.txt" . | toJson }}\n'
    (chart / "templates/notes.yaml").write_text(notes)
    warning = "Agents can write other nodes' reports"
    for words, limited, told in (
        ((), True, ""),
        (
            ("--kube-version", "1.29.15"),
            False,
            "On Kubernetes 1.30 and later, an upgrade of this release adds the policy",
        ),
        (("--set", "agent.policy=false"), False, "Set agent.policy=true to prevent this."),
        (("--set", "agent.enabled=false"), False, ""),
    ):
        objects = helm.template(*words, chart=chart)
        assert (objects.keys() >= set(AGENT_POLICIES)) == limited
        text = objects["Notes", "notes"]["text"]
        assert (warning in text) == bool(told)
        assert told in text


def test_agent_policy_is_for_the_account_of_the_release(helm: Helm) -> None:
    policy = helm.template(release="prod")["ValidatingAdmissionPolicy", "prod-sked-node-report"]
    (condition,) = policy["spec"]["matchConditions"]
    user = "system:serviceaccount:sked-system:prod-sked-agent"
    assert condition["expression"] == f"request.userInfo.username == '{user}'"


def test_agent_is_what_the_values_say(helm: Helm) -> None:
    template = helm.template(values=EVERYTHING)[AGENT]["spec"]["template"]
    values, pod = EVERYTHING["agent"], template["spec"]
    (container,) = pod["containers"]
    assert container["image"] == f"registry.example.com:5000/tools/sked@{EVERYTHING['image']['digest']}"
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert container["args"] == [
        "--health-probe-bind-address=:9082",
        "--metrics-bind-address=:9080",
        "--log-level=debug",
        "--log-format=json",
    ]
    agent.make_context("sked agent", container["args"] + ["--node-name=a"])  # and it takes all of them
    assert container["ports"] == [{"name": "metrics", "containerPort": 9080, "protocol": "TCP"}]
    assert {container[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe")} == {9082}
    assert container["resources"] == {"limits": {"memory": "128Mi"}, "requests": {"cpu": "5m", "memory": "24Mi"}}
    for name in ("nodeSelector", "tolerations", "priorityClassName"):
        assert pod[name] == values[name]
    assert pod["imagePullSecrets"] == EVERYTHING["imagePullSecrets"]
    assert template["metadata"]["annotations"] == values["podAnnotations"]
    assert template["metadata"]["labels"].items() >= {"control-plane": "agent", "example.com/tier": "node"}.items()


def test_older_kubernetes_is_refused(helm: Helm) -> None:
    told = helm.run("template", "sked", CHART, "--kube-version", "1.28.9", check=False)
    assert "chart requires kubeVersion: >=1.29.0-0 which is incompatible with Kubernetes v1.28.9" in told.stderr


def test_metrics_without_tls_need_no_rights(helm: Helm) -> None:
    objects = helm.template(values={"metrics": {"secure": False, "serviceMonitor": {"enabled": True}}})
    assert "--metrics-secure=false" in select_manager(objects)[1]["args"]
    assert not [name for kind, name in objects if kind in ROLE_KINDS and "metrics" in name]
    (port,) = objects["Service", "sked-controller-manager-metrics-service"]["spec"]["ports"]
    (endpoint,) = objects["ServiceMonitor", "sked-controller-manager-metrics-monitor"]["spec"]["endpoints"]
    assert endpoint == {"path": "/metrics", "port": port["name"], "scheme": "http", "honorLabels": True}


def test_monitors_and_the_rule_have_the_labels_that_a_prometheus_selects_by(helm: Helm) -> None:
    objects = helm.template(values=EVERYTHING)
    labels = {kind: thing["metadata"]["labels"] for (kind, _), thing in objects.items() if kind in MONITORING}
    assert {kind: found["release"] for kind, found in labels.items()} == dict.fromkeys(MONITORING, "prometheus")
    values = {"metrics": {"prometheusRule": {"enabled": True}, "monitorLabels": {"app.kubernetes.io/name": "mine"}}}
    rule = helm.template(values=values)["PrometheusRule", "sked-alerts"]
    assert rule["metadata"]["labels"]["app.kubernetes.io/name"] == "sked"


def test_alerts_are_those_of_the_rule_file_that_can_tell_something(helm: Helm) -> None:
    groups = yaml.safe_load((CHART / "files/alerts.yaml").read_text())["groups"]
    assert helm.template(values=EVERYTHING)["PrometheusRule", "sked-alerts"]["spec"] == {"groups": groups}
    values = {"metrics": {"prometheusRule": {"enabled": True}}, "agent": {"enabled": False}}
    without = helm.template(values=values)["PrometheusRule", "sked-alerts"]["spec"]["groups"]
    assert [group for group in groups if group not in without] == [
        group for group in groups if [rule["alert"] for rule in group["rules"]] == ["SkedNodesUnknown"]
    ]
    assert len(without) == len(groups) - 1


def test_dashboard_is_labelled_for_the_sidecar(helm: Helm) -> None:
    found = helm.template(values=EVERYTHING)["ConfigMap", "sked-dashboard"]
    assert found["metadata"]["labels"].items() >= {"dashboards": "ours", "app.kubernetes.io/name": "sked"}.items()
    assert found["data"] == {"sked.json": (CHART / "files/dashboard.json").read_text()}


def test_monitor_checks_a_given_certificate(helm: Helm) -> None:
    objects = helm.template(values=EVERYTHING)
    (endpoint,) = objects["ServiceMonitor", "sked-controller-manager-metrics-monitor"]["spec"]["endpoints"]
    assert endpoint["tlsConfig"] == {
        "serverName": "sked-controller-manager-metrics-service.sked-system.svc",
        "ca": {"secret": {"name": "metrics-certificate", "key": "ca.crt"}},
    }


def test_policy_lets_nobody_in_when_there_are_no_metrics(helm: Helm) -> None:
    objects = helm.template(values={"metrics": {"enabled": False}, "networkPolicy": {"enabled": True}})
    policy = objects["NetworkPolicy", "sked-allow-metrics-traffic"]["spec"]
    assert (policy["policyTypes"], "ingress" in policy) == (["Ingress"], False)


@pytest.mark.parametrize(("release", "prefix"), [("my-sked", "my-sked"), ("prod", "prod-sked"), (53 * "a", 28 * "a")])
def test_names_begin_with_the_release(helm: Helm, release: str, prefix: str) -> None:
    names = [name for kind, name in helm.template(release=release) if kind != "CustomResourceDefinition"]
    assert all(name.startswith(f"{prefix}-") and len(name) <= 63 for name in names)


def test_definition_is_kept_only_when_asked(helm: Helm) -> None:
    def read_policy(*words: str) -> Any:
        metadata = helm.template(*words)["CustomResourceDefinition", CRD]["metadata"]
        return metadata.get("annotations", {}).get("helm.sh/resource-policy")

    assert read_policy() == "keep"
    assert read_policy("--set", "crds.keep=false") is None
