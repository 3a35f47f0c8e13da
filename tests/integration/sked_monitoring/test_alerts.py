"""Each alert by promtool: when it fires, with which words, and when it does not."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from lab.prometheus import run_promtool
from lab.store import Store
from tests.monitoring import ALERTS, Json, read_alerts

RESOURCE = {"namespace": "games", "name": "rusty"}
OF = 'namespace="games", name="rusty"'
LEADS = 'leader_election_master_status{name="b4c95cb3.schedkit.io"'
WORKS = 'controller_runtime_max_concurrent_reconciles{controller="schedext"}'
FAILS = 'controller_runtime_reconcile_errors_total{controller="schedext"}'


class Case(NamedTuple):
    """Series with their values minute by minute, as promtool writes them, and what is told of them at a minute."""

    alert: str
    what: str
    series: Mapping[str, str]
    minute: int
    labels: Mapping[str, str] | None = None  # none: it does not fire
    value: str = "1"


CASES = [
    Case(
        "SkedRolledBack",
        "rolled back",
        {f'sked_rollout_phase{{{OF}, pool="", phase="RolledBack"}}': "1x9"},
        1,
        RESOURCE,
    ),
    Case(
        "SkedRolledBack",
        "going back in a pool",
        {f'sked_rollout_phase{{{OF}, pool="large", phase="RollingBack"}}': "0 1x9"},
        1,
        RESOURCE | {"pool": "large"},
    ),
    Case(
        "SkedRolledBack",
        "under way",
        {
            f'sked_rollout_phase{{{OF}, pool="", phase="Progressing"}}': "1x9",
            f'sked_rollout_phase{{{OF}, pool="", phase="RolledBack"}}': "0x9",
        },
        5,
    ),
    Case(
        "SkedRolloutPaused",
        "failed and paused",
        {
            f'sked_rollout_phase{{{OF}, pool="", phase="Paused"}}': "1x30",
            f'sked_rollout_nodes{{{OF}, pool="", state="failed"}}': "2x30",
        },
        16,
        RESOURCE,
    ),
    Case(
        "SkedRolloutPaused",
        "not for long",
        {
            f'sked_rollout_phase{{{OF}, pool="", phase="Paused"}}': "1x30",
            f'sked_rollout_nodes{{{OF}, pool="", state="failed"}}': "2x30",
        },
        14,
    ),
    Case(
        "SkedRolloutPaused",
        "paused by a step",
        {
            f'sked_rollout_phase{{{OF}, pool="", phase="Paused"}}': "1x30",
            f'sked_rollout_nodes{{{OF}, pool="", state="failed"}}': "0x30",
            f'sked_rollout_nodes{{{OF}, pool="large", state="failed"}}': "1x30",
        },
        20,
    ),
    Case("SkedEjections", "the first one", {f"sked_ejections_total{{{OF}}}": "_x5 1x9"}, 7, RESOURCE),
    Case("SkedEjections", "one more", {f"sked_ejections_total{{{OF}}}": "3x30 4x9"}, 32, RESOURCE, "1"),
    Case("SkedEjections", "long ago", {f"sked_ejections_total{{{OF}}}": "3x60"}, 40),
    Case("SkedEjections", "none so far", {f"sked_ejections_total{{{OF}}}": "_x5 0x9"}, 7),
    Case(
        "SkedEjections",
        "counted again by nobody: another manager leads",
        {f'sked_ejections_total{{{OF}, pod="a"}}': "3x30 _x30", f'sked_ejections_total{{{OF}, pod="b"}}': "_x31 0x30"},
        35,
    ),
    Case(
        "SkedNodesQuarantined",
        "two nodes",
        {f'sked_nodes{{{OF}, state="quarantined"}}': "2x9"},
        1,
        RESOURCE,
        "2",
    ),
    Case(
        "SkedNodesQuarantined",
        "other states",
        {
            f'sked_nodes{{{OF}, state="quarantined"}}': "0x9",
            f'sked_nodes{{{OF}, state="ejected"}}': "3x9",
        },
        5,
    ),
    Case(
        "SkedDegraded",
        "ejected here, detached there",
        {f'sked_nodes{{{OF}, state="ejected"}}': "1x30", f'sked_nodes{{{OF}, state="detached"}}': "2x30"},
        11,
        RESOURCE,
        "3",
    ),
    Case("SkedDegraded", "not for long", {f'sked_nodes{{{OF}, state="ejected"}}': "1x30"}, 9),
    Case(
        "SkedDegraded",
        "attached, unknown or left out",
        {f'sked_nodes{{{OF}, state="{state}"}}': "5x30" for state in ("attached", "unknown", "unfit")}
        | {f'sked_nodes{{{OF}, state="foreign"}}': "0x30"},
        20,
    ),
    Case("SkedNodesUnknown", "no reports", {f'sked_nodes{{{OF}, state="unknown"}}': "4x30"}, 16, RESOURCE, "4"),
    Case("SkedNodesUnknown", "not for long", {f'sked_nodes{{{OF}, state="unknown"}}': "4x30"}, 14),
    Case("SkedNodesUnknown", "all report", {f'sked_nodes{{{OF}, state="unknown"}}': "0x30"}, 20),
    Case("SkedDown", "never seen", {}, 6, {"controller": "schedext"}),
    Case(
        "SkedDown", "seen until five minutes and a lookback ago", {WORKS: "16x5 _x30"}, 16, {"controller": "schedext"}
    ),
    Case("SkedDown", "seen", {WORKS: "16x30"}, 20),
    Case(
        "SkedNoLeader",
        "two managers, and none leads",
        {f'{LEADS}, pod="a"}}': "0x9", f'{LEADS}, pod="b"}}': "0x9"},
        6,
        {"name": "b4c95cb3.schedkit.io"},
        "0",
    ),
    Case("SkedNoLeader", "one leads", {f'{LEADS}, pod="a"}}': "0x9", f'{LEADS}, pod="b"}}': "1x9"}, 6),
    Case("SkedNoLeader", "no election", {WORKS: "16x30"}, 20),
    Case("SkedReconcileErrors", "again and again", {FAILS: "0+1x60"}, 45, {"controller": "schedext"}, ""),
    Case("SkedReconcileErrors", "once in a while", {FAILS: "0x5 9x60"}, 40),
    Case(
        "SkedReconcileErrors",
        "another operator's",
        {'controller_runtime_reconcile_errors_total{controller="widget"}': "0+1x60"},
        45,
    ),
]


def render(text: str, labels: Mapping[str, str], value: str) -> str:
    """What Prometheus makes of an annotation."""
    inside = re.sub(r"\{\{ with \$labels\.pool \}\}(.*?)\{\{ end \}\}", r"\1" if "pool" in labels else "", text)
    inside = inside.replace("{{ . }}", labels.get("pool", ""))
    inside = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found[1]], inside)
    return re.sub(r"\{\{ \$value[^}]*\}\}", value, inside)


def make_test(case: Case, alert: Json) -> Json:
    told = []
    if case.labels is not None:
        annotations = {name: render(text, case.labels, case.value) for name, text in alert["annotations"].items()}
        told = [{"exp_labels": {**case.labels, **alert["labels"]}, "exp_annotations": annotations}]
    return {
        "name": f"{case.alert}: {case.what}",
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in case.series.items()],
        "alert_rule_test": [{"eval_time": f"{case.minute}m", "alertname": case.alert, "exp_alerts": told}],
    }


def run_cases(store: Store, folder: Path, cases: list[Case]) -> tuple[int, str]:
    alerts = {alert["alert"]: alert for alert in read_alerts()}
    document = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": "1m",
        "tests": [make_test(case, alerts[case.alert]) for case in cases],
    }
    (folder / "tests.yaml").write_text(json.dumps(document))
    done = run_promtool(store, "test", "rules", folder / "tests.yaml")
    return done.code, done.stdout + done.stderr


def test_promtool_finds_nothing_wrong_with_the_rules(store: Store) -> None:
    done = run_promtool(store, "check", "rules", "--lint=all", "--lint-fatal", ALERTS)
    assert (done.code, f"{len(read_alerts())} rules found" in done.stdout) == (0, True), done.stdout + done.stderr


def test_alerts_fire_when_they_should_and_only_then(store: Store, tmp_path: Path) -> None:
    code, told = run_cases(store, tmp_path, CASES)
    assert code == 0, told


def test_case_that_is_wrong_would_be_found(store: Store, tmp_path: Path) -> None:
    quiet = next(case for case in CASES if case.labels is None)
    code, told = run_cases(store, tmp_path, [quiet._replace(labels=RESOURCE)])
    assert (code, quiet.what in told) == (1, True), told


@pytest.mark.parametrize("alert", [alert["alert"] for alert in read_alerts()])
def test_alert_has_cases_of_both_kinds(alert: str) -> None:
    assert {case.labels is None for case in CASES if case.alert == alert} == {True, False}
