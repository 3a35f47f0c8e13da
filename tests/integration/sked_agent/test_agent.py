"""The agent against a real API server: what it writes, what it may write, and what it does when nobody answers."""

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Cluster
from lab.waiting import wait_for
from tests.integration.clusters import read_api
from tests.integration.sked_agent.conftest import FIRST, SECOND
from tests.integration.sked_agent.node import REPORTS, AgentProcess, ask, make_report
from tests.integration.sked_deploy.tools import AGENT, NAMESPACE, ROOT
from tests.unit.kernel.roots import ATTACHED, FREE

API_SERVER = "kube-apiserver"
DOCUMENTATION = ROOT / "docs/sked/node-reports.md"


def mask_ages(text: str) -> list[list[str]]:
    return [["AGE" if re.fullmatch(r"\d+s", word) else word for word in line.split()] for line in text.splitlines()]


def count_writes(cluster: Cluster, since: str) -> int:
    """How often any report was written since a version, as the API server tells it."""
    query = f"watch=true&resourceVersion={since}&timeoutSeconds=1"
    with cluster.connect() as connection:
        lines = connection.request("GET", f"{REPORTS}?{query}").body.splitlines()
    events = [json.loads(line) for line in lines]
    assert {event["type"] for event in events} <= {"ADDED", "MODIFIED"}, events
    return len(events)


def count_applied(cluster: Cluster) -> int:
    """How many applies of reports the API server has accepted since its start."""
    with cluster.connect() as connection:
        lines = connection.request("GET", "/metrics").text.splitlines()
    ours = [line for line in lines if line.startswith("apiserver_request_total{") and '"schedextnodes"' in line]
    applied = [line for line in ours if 'verb="APPLY"' in line and 'code="20' in line]
    assert ours
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in applied)


def test_report_is_created_as_the_nodes_own_and_kubectl_shows_it(cluster: Cluster, agent: AgentProcess) -> None:
    agent.start()
    agent.wait_ready()
    report = agent.fetch()
    assert report
    uid = read_api(cluster, f"/api/v1/nodes/{FIRST}")["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": FIRST, "uid": uid}
    assert report["metadata"]["ownerReferences"] == [owner]
    managers = {entry["manager"] for entry in report["metadata"]["managedFields"]}
    assert managers == {"sked-agent"}
    status = report["status"]
    assert status["slot"] == {"state": "disabled", "enableSeq": 3}
    assert (status["attachments"], status["departures"]) == (3, 3)
    assert (status["kernel"]["release"], status["kernel"]["supported"]) == ("6.12.41", "True")

    agent.attach("schedkit_fifo", 4)
    status = agent.wait_status(state="enabled", ops="schedkit_fifo", enableSeq=4)
    assert (status["attachments"], status["departures"]) == (4, 3)
    shown = cluster.kubectl("get", "scxn").stdout
    assert shown.split()[:7] == ["NAME", "STATE", "OPS", "SCHEDEXT", "ATTACHED", "FIT", "AGE"]
    assert mask_ages(shown)[1] == [FIRST, "enabled", "schedkit_fifo", "AGE", "True", "AGE"]
    assert FIRST in cluster.kubectl("get", "schedkit").stdout


def test_nothing_is_written_while_nothing_changes(cluster: Cluster, agent: AgentProcess) -> None:
    agent.start("--fetch-seconds=0.5")
    agent.wait_ready()
    report = agent.fetch()
    assert report
    time.sleep(3)
    assert count_writes(cluster, report["metadata"]["resourceVersion"]) == 0


def test_since_survives_the_agent_and_what_happened_meanwhile_is_counted(agent: AgentProcess) -> None:
    agent.start()
    agent.wait_ready()
    agent.attach("schedkit_fifo", 4)
    since = agent.wait_status(state="enabled")["slot"]["since"]
    pid = agent.daemon.pid()
    assert pid
    agent.daemon.kill()
    time.sleep(1.1)  # so that another time would be another second
    agent.start()
    agent.wait_ready()
    assert agent.wait_status(state="enabled")["slot"]["since"] == since
    agent.daemon.stop()

    agent.detach(6)  # it left, and two others came and went
    agent.start()
    status = agent.wait_status(state="disabled")
    assert (status["attachments"], status["departures"]) == (6, 6)
    assert status["lastDetach"] == {"enableSeq": 6}, "nobody saw when, nor which one"
    agent.attach("schedkit_fifo2", 7)
    assert agent.wait_status(state="enabled")["slot"]["since"] > since
    agent.detach(7)
    status = agent.wait_status(state="disabled", enableSeq=7)
    assert (status["lastDetach"]["ops"], status["lastDetach"]["enableSeq"]) == ("schedkit_fifo2", 7)
    assert status["lastDetach"]["time"]


def test_another_boot_begins_anew(agent: AgentProcess) -> None:
    agent.boot("b0000000-0000-0000-0000-000000000001", ATTACHED)
    agent.start()
    before = agent.wait_status(state="enabled", enableSeq=4)
    assert "since" not in before["slot"], "it attached before anybody looked"
    agent.daemon.stop()
    agent.boot("b0000000-0000-0000-0000-000000000002", FREE | {"enable_seq": "0"})
    agent.detach(0)
    agent.start()
    status = agent.wait_status(state="disabled", enableSeq=0)
    assert (status["attachments"], status["departures"]) == (0, 0)
    assert "lastDetach" not in status
    assert status["kernel"]["bootID"].endswith("2")


def test_report_that_somebody_deleted_comes_back_with_its_owner(cluster: Cluster, agent: AgentProcess) -> None:
    agent.start("--fetch-seconds=0.5")
    agent.wait_ready()
    cluster.kubectl("delete", "scxn", FIRST)
    agent.wait_status(state="disabled")
    report = agent.fetch()
    assert report
    assert report["metadata"]["ownerReferences"]


def test_after_an_outage_one_write_brings_the_report_up_to_date(cluster: Cluster, agent: AgentProcess) -> None:
    agent.start()
    agent.wait_ready()
    cluster.stop_component(API_SERVER)
    try:
        for seq in range(4, 8):
            agent.attach(f"schedkit_{seq}", seq)
            agent.wait_seen("enabled", seq)
            agent.detach(seq)
            agent.wait_seen("disabled", seq)
        agent.attach("schedkit_last", 8)
        wait_for("it to be told", lambda: agent.read_readiness()[0] == 503, 60)
        assert "Connection refused" in agent.read_readiness()[1]
    finally:
        cluster.start_component(API_SERVER)
    status = agent.wait_status(state="enabled", ops="schedkit_last")
    assert (status["attachments"], status["departures"]) == (8, 7)
    assert (status["lastDetach"]["ops"], status["lastDetach"]["enableSeq"]) == ("schedkit_7", 7)
    agent.wait_ready()
    time.sleep(1)
    assert count_applied(cluster) == 1


def test_agent_of_another_node_is_refused_and_says_so(
    cluster: Cluster, tokens: dict[str, str], agent: AgentProcess, tmp_path: Path
) -> None:
    impostor = AgentProcess(cluster, FIRST, tokens[SECOND], tmp_path / "impostor")
    impostor.start()
    refused = "an agent may write the report of the node that it runs on, and no other"
    try:
        wait_for("it to be told", lambda: refused in impostor.read_readiness()[1], 60)
    finally:
        impostor.daemon.stop()
    assert agent.fetch() is None
    code, said = ask(cluster, tokens[SECOND], "PATCH", f"{REPORTS}/{FIRST}", make_report(FIRST))
    assert code == 403
    assert f"\n{said}\n" in DOCUMENTATION.read_text()


def test_sigterm_ends_the_agent_at_once(agent: AgentProcess) -> None:
    agent.start()
    agent.wait_ready()
    pid = agent.daemon.pid()
    assert pid
    os.kill(pid, signal.SIGTERM)
    wait_for("it to end", lambda: not agent.daemon.alive(), 20, interval=0.02)


METADATA = "an agent may not change a report's labels, annotations or finalizers"
OWNER = "an agent may make its report the node's own, and nobody else's"
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("/status", {"status": {"schedExt": "default/mine"}}, "an agent may not write status.schedExt"),
    (
        "/status",
        {"status": {"ejections": {"schedExt": "default/one", "last": "2026-01-01T00:00:00Z"}}},
        "an agent may not write status.ejections",
    ),
    ("", {"metadata": {"labels": {"a": "b"}}}, METADATA),
    ("", {"metadata": {"annotations": {"a": "b"}}}, METADATA),
    ("", {"metadata": {"finalizers": ["example.com/held"]}}, METADATA),
    ("", {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": FIRST, "uid": "1"}]}}, OWNER),
]


@pytest.mark.parametrize(("part", "change", "words"), REFUSED)
def test_agent_may_write_no_more_than_its_part_of_its_own_report(
    cluster: Cluster, tokens: dict[str, str], agent: AgentProcess, part: str, change: dict[str, Any], words: str
) -> None:
    token, path = tokens[FIRST], f"{REPORTS}/{FIRST}"
    assert ask(cluster, token, "PATCH", path, make_report(FIRST)) == (200, "")
    code, said = ask(cluster, token, "PATCH", path + part, make_report(FIRST, **change))
    assert code == 403
    assert words in said
    # And as the first one who writes it, neither.
    cluster.kubectl("delete", "scxn", FIRST)
    if not part:
        code, said = ask(cluster, token, "PATCH", path, make_report(FIRST, **change))
        assert (code, words in said) == (403, True)


def test_what_the_operator_wrote_stays_when_the_agent_writes(cluster: Cluster, agent: AgentProcess) -> None:
    agent.start()
    agent.wait_ready()
    body = json.dumps(make_report(FIRST, status={"schedExt": "default/fleet"}))
    words = ("--server-side", "--subresource=status", "--field-manager=sked", "-f", "-")
    cluster.kubectl("apply", *words, input=body)
    agent.attach("schedkit_fifo", 4)
    assert agent.wait_status(state="enabled")["schedExt"] == "default/fleet"
    assert "default/fleet" in cluster.kubectl("get", "scxn", FIRST).stdout
    agent.wait_ready()


def test_agent_has_no_other_rights(cluster: Cluster) -> None:
    account = f"--as=system:serviceaccount:{NAMESPACE}:{AGENT}"
    for verb, resource in (
        ("delete", "schedextnodes"),
        ("list", "schedextnodes"),
        ("update", "schedextnodes"),
        ("get", "nodes"),
        ("patch", "nodes"),
        ("get", "pods"),
        ("get", "secrets"),
        ("get", "schedexts"),
    ):
        answer = cluster.kubectl("auth", "can-i", verb, resource, "-A", account, check=False).stdout.strip()
        assert answer == "no", f"{verb} {resource}"
