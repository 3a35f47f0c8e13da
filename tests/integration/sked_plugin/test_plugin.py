"""`kubectl scx` on a real API server: what it shows, what it writes, and how it ends."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from lab.components import API_SERVER
from lab.waiting import wait_for
from tests.integration.clusters import read_api, wait_until_gone
from tests.integration.sked_plugin.plugin import CRDS, ROOT, SERVED, SLOT, Plugin, install

STALL = {"revision": "web-bbbbbbbbbb", "node": "node-2", "reason": "Ejected", "message": "runnable task stall"}
AGENT = {"app.kubernetes.io/name": "sked", "app.kubernetes.io/component": "agent"}
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def read_until(process: "subprocess.Popen[str]", text: str) -> str:
    """The first line of what a process prints that has this text; the run's own limit bounds the wait."""
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return line
    raise AssertionError(f"it ended without a line that has {text!r}: {process.stderr and process.stderr.read()}")


def test_cluster_without_sked_is_told_so(plugin: Plugin) -> None:
    plugin.cluster.kubectl("delete", "-k", str(CRDS), "--wait=false")
    wait_until_gone(plugin.cluster, "schedexts.sked.schedkit.io", "schedextnodes.sked.schedkit.io")
    try:
        wait_for("the kind to be gone", lambda: read_api(plugin.cluster, SERVED) is None, 60)
        for words in (["status"], ["status", "web"], ["nodes"], ["pause", "web"]):
            done = plugin.run(*words)
            assert (done.returncode, done.stdout) == (69, "")
            assert done.stderr.startswith("error: sked is not installed in this cluster"), done.stderr
            assert "/docs/sked/install.md" in done.stderr
    finally:
        install(plugin.cluster)


def test_rollout_is_followed_to_a_rollback_with_a_line_for_each_change(plugin: Plugin) -> None:
    plugin.add_resource()
    for node in ("node-1", "node-2"):
        plugin.add_node(node, "default.web-aaaaaaaaaa")
        plugin.report(node)
    plugin.tell("Progressing", message="step 1 of 2")
    process = plugin.start("status", "web", "-w")
    read_until(process, "step 1/2 [")
    plugin.patch("node", "node-2", {"metadata": {"labels": {SLOT: "pending"}, "annotations": {SLOT: "pending"}}})
    assert "node-2  the old scheduler leaves" in read_until(process, "node-2")
    plugin.report("node-2", "disabled", "")
    assert "node-2  rusty left" in read_until(process, "node-2")
    plugin.patch("node", "node-2", {"metadata": {"labels": {SLOT: "default.web-bbbbbbbbbb"}}})
    assert "node-2  gets web-bbbbbbbbbb" in read_until(process, "node-2")
    plugin.report("node-2", "enabled", "rusty_2", 2)
    assert "node-2  rusty_2 attached" in read_until(process, "node-2")
    plugin.tell("RollingBack", 1, failedRevision=STALL)
    assert "failed on node-2: Ejected: runnable task stall" in read_until(process, "failed")
    plugin.tell("RolledBack", failedRevision=STALL)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (15, "")
    assert "web was rolled back: revision web-bbbbbbbbbb failed on node-2: Ejected: runnable task stall" in stdout


def test_rollout_that_completes_ends_with_nought_and_its_gap(plugin: Plugin) -> None:
    plugin.add_resource()
    plugin.add_node("node-1", "default.web-aaaaaaaaaa")
    plugin.tell("Progressing")
    process = plugin.start("status", "web", "-w")
    read_until(process, "Progressing")
    gap = {"medianMilliseconds": 850, "worstMilliseconds": 1900}
    plugin.tell("Complete", 2, gap=gap, currentRevision="web-bbbbbbbbbb")
    stdout, _ = process.communicate(timeout=60)
    assert (process.returncode, stdout.splitlines()[-1]) == (
        0,
        "web is done: 2 nodes run web-bbbbbbbbbb, gap 850 ms, worst 1.9 s",
    )
    assert "node-1" not in stdout, "that another revision is the stable one changes no node"


def test_following_goes_on_when_the_api_server_is_back(plugin: Plugin) -> None:
    plugin.add_resource()
    plugin.tell("Progressing", 1)
    process = plugin.start("status", "web", "-w")
    read_until(process, "1/2 nodes updated")
    plugin.cluster.stop_component(API_SERVER)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("warning: watch interrupted: ")
    plugin.cluster.start_component(API_SERVER)
    plugin.tell("Complete", 2)
    assert read_until(process, "web is done")
    assert process.wait(timeout=60) == 0
    process.communicate()


def test_images_are_verified_again_and_waited_for(plugin: Plugin) -> None:
    plugin.add_resource()
    plugin.tell("Complete", 2)
    assert plugin.run("verify", "web").returncode == 20
    refused = plugin.run("refresh", "web")
    assert (refused.returncode, "does not verify images in this cluster" in refused.stderr) == (1, True)
    plugin.judge("True", "Verified", "signed by the key")
    assert plugin.run("verify", "web").returncode == 0
    process = plugin.start("verify", "web", "--again")
    wait_for(
        "the request",
        lambda: "sked.schedkit.io/refresh" in plugin.read("schedext", "web")["metadata"]["annotations"],
        60,
    )
    plugin.judge("Unknown", "Verifying", "it is being looked up")
    plugin.judge("False", "Unsigned", "nobody signed it")
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (21, "")
    assert stdout.startswith("default/web: not verified, Unsigned: nobody signed it\n")
    late = plugin.run("verify", "web", "--again", "--timeout", "1")
    assert (late.returncode, late.stdout) == (124, "")


def test_following_ends_by_time_by_interruption_and_with_the_resource(plugin: Plugin) -> None:
    plugin.add_resource()
    plugin.tell("Paused", 1, step=1)
    late = plugin.run("status", "web", "-w", "--timeout", "1")
    assert (late.returncode, late.stderr.splitlines()) == (
        124,
        [
            "error: web is not done after 1 s: Paused",
            "hint: `kubectl scx promote web -n default` continues at once",
        ],
    )
    process = plugin.start("status", "web", "-w")
    read_until(process, "Paused")
    process.send_signal(signal.SIGINT)
    assert (process.communicate(timeout=60)[1].strip(), process.returncode) == ("interrupted", 130)
    process = plugin.start("status", "web", "-w")
    read_until(process, "Paused")
    plugin.cluster.kubectl("delete", "schedext", "web")
    assert (process.communicate(timeout=60)[1], process.returncode) == ("error: web was deleted\n", 66)


def test_requests_are_annotations_and_fields_that_kubectl_could_write_too(plugin: Plugin) -> None:
    resource = plugin.add_resource()
    for revision, image in (
        ("web-aaaaaaaaaa", "example.com/scx_rusty:1"),
        ("web-bbbbbbbbbb", "example.com/scx_rusty:2"),
    ):
        plugin.add_revision(resource, revision, image)
    plugin.tell("Paused", 1, step=1)
    asked: dict[str, str] = {}
    for words, annotation, value in (
        (["promote", "web"], "promote", ""),
        (["undo", "web"], "undo", "web-aaaaaaaaaa "),
        (["undo", "web", "--to-revision", "bbbbbbbbbb"], "undo", "web-bbbbbbbbbb "),
    ):
        done = plugin.run(*words)
        assert done.returncode == 0, done.stderr
        written = plugin.read("schedext", "web")["metadata"]["annotations"][f"sked.schedkit.io/{annotation}"]
        assert written.startswith(value)
        assert asked.get(annotation) != written
        asked[annotation] = written
    plugin.tell("Paused", 1, failedRevision=STALL)
    assert plugin.run("retry", "web").returncode == 0
    assert "sked.schedkit.io/retry" in plugin.read("schedext", "web")["metadata"]["annotations"]
    for words, paused in ((["pause", "web"], True), (["resume", "web"], False)):
        assert plugin.run(*words).returncode == 0
        assert plugin.read("schedext", "web")["spec"]["paused"] is paused
    managers = {entry["manager"] for entry in plugin.read("schedext", "web")["metadata"]["managedFields"]}
    assert "kubectl-scx" in managers
    refused = plugin.run("undo", "web", "--to-revision", "cccccccccc")
    assert (refused.returncode, "kept are: web-" in refused.stderr) == (66, True)


def test_history_and_status_are_documents_too(plugin: Plugin) -> None:
    resource = plugin.add_resource()
    plugin.add_resource("plain", rollout=None)
    plugin.add_revision(resource, "web-aaaaaaaaaa", "example.com/scx_rusty:1")
    plugin.tell("RolledBack", failedRevision=STALL)
    history = json.loads(plugin.run("history", "web", "-o", "json").stdout)
    assert [(one["name"], one["image"], one["roles"]) for one in history["revisions"]] == [
        ("web-aaaaaaaaaa", "example.com/scx_rusty:1", ["current"])
    ]
    one = plugin.run("status", "web", "-o", "json")
    assert (one.returncode, json.loads(one.stdout)["schedExts"][0]["state"]) == (15, "RolledBack")
    listed = plugin.run("status", "-A")
    assert [line.split()[:3] for line in listed.stdout.splitlines()] == [
        ["NAMESPACE", "NAME", "ROLLOUT"],
        ["default", "plain", "Waiting"],
        ["default", "web", "RolledBack"],
    ]


def test_quarantine_by_hand_is_the_label_and_lift_takes_all_away(plugin: Plugin) -> None:
    plugin.add_node("node-1", "default.web-aaaaaaaaaa")
    plugin.report("node-1")
    assert plugin.run("quarantine", "node-1").returncode == 0
    node = plugin.read("node", "node-1")["metadata"]
    assert (node["labels"][SLOT], node["annotations"][SLOT]) == ("none", "default.web-aaaaaaaaaa")
    reason = {"schedExt": "default/web", "since": "2026-01-01T00:00:00Z", "reason": "stall"}
    by_sked = {"labels": {SLOT: "none"}, "annotations": {SLOT: "none"}}
    by_sked["annotations"]["sked.schedkit.io/quarantine"] = json.dumps(reason)
    plugin.patch("node", "node-1", {"metadata": by_sked})
    lines = plugin.run("nodes").stdout.splitlines()
    assert lines[1].split()[:4] == ["node-1", "6.12.9", "enabled?", "rusty"], "no agent says that this is so now"
    assert "until lifted" in lines[1]
    assert "quarantine: stall" in lines[1]
    assert plugin.run("lift", "node-1").stdout == "node-1 may have a scheduler again\n"
    node = plugin.read("node", "node-1")["metadata"]
    assert SLOT not in node.get("labels", {})
    assert "sked.schedkit.io/quarantine" not in node["annotations"]


def test_why_joins_report_agent_pod_and_resource(plugin: Plugin) -> None:
    plugin.add_resource()
    plugin.tell("RolledBack", failedRevision=STALL)
    plugin.add_node("node-2", "default.web-aaaaaaaaaa")
    plugin.report("node-2")
    plugin.add_pod("agent-2", "node-2", AGENT, READY)
    ended = {"exitCode": 1, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z", "startedAt": None}
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}
    status = {"name": "scx", "image": "i", "imageID": "", "ready": False, "restartCount": 2, "state": state}
    crashed = {"phase": "Running", "containerStatuses": [status | {"lastState": {"terminated": ended}}]}
    plugin.add_pod("web-x", "node-2", {"managed-by": "sked-controller"}, crashed)
    done = plugin.run("why", "node-2")
    assert "rusty has been attached for " in done.stdout
    assert "The node's agent is ready: its report is current." in done.stdout
    assert "It is Ready." in done.stdout
    assert "Its slot belongs to default.web-aaaaaaaaaa: sked set that label." in done.stdout
    assert "It waits, CrashLoopBackOff: back-off 40s" in done.stdout
    assert "with status 1, after 2 restarts." in done.stdout
    assert "default/web selects it, and no other." in done.stdout
    assert "web-bbbbbbbbbb of default/web failed here first: Ejected: runnable task stall" in done.stdout
    # There is no kubelet to ask, which is told, and is no success.
    assert "Its log could not be read: " in done.stdout
    assert done.returncode == 1
    assert plugin.run("why", "absent").returncode == 66


def test_missing_right_is_named_with_its_verb_and_resource(plugin: Plugin, tmp_path: Path) -> None:
    plugin.add_resource()
    nobody = tmp_path / "nobody"
    nobody.write_text(plugin.cluster.make_kubeconfig("nobody"))
    for words, told in (
        (["status"], "list schedexts.sked.schedkit.io in the namespace default"),
        (["status", "web", "-w"], "get schedexts.sked.schedkit.io in the namespace default"),
        (["nodes"], "list schedextnodes.sked.schedkit.io in the whole cluster"),
        (["quarantine", "node-1"], "get nodes in the whole cluster"),
    ):
        done = plugin.run(*words, kubeconfig=nobody)
        assert (done.returncode, done.stdout) == (77, "")
        assert done.stderr.startswith(f"error: nobody may not {told}\nhint: "), done.stderr
    plugin.cluster.kubectl(
        "create", "clusterrole", "looker", "--verb=get,list", "--resource=schedexts.sked.schedkit.io"
    )
    plugin.cluster.kubectl("create", "clusterrolebinding", "looker", "--clusterrole=looker", "--user=nobody")
    done = plugin.run("pause", "web", kubeconfig=nobody)
    assert done.stderr.startswith("error: nobody may not patch schedexts.sked.schedkit.io in the namespace default\n")
    assert plugin.run("status", "web", kubeconfig=nobody).returncode == 0


def test_name_in_another_namespace_is_pointed_at(plugin: Plugin) -> None:
    plugin.add_resource()
    done = plugin.run("-n", "kube-system", "status", "web")
    assert (done.returncode, done.stderr) == (
        66,
        "error: there is no SchedExt web in the namespace kube-system\nhint: there is one elsewhere: -n default\n",
    )


def test_kubectl_finds_the_program_and_its_completions(plugin: Plugin, tmp_path: Path) -> None:
    plugin.add_resource()
    for name, function in (("kubectl-scx", "main"), ("kubectl_complete-scx", "complete")):
        script = f"#!{sys.executable}\nfrom schedkit.sked.plugin.main import {function}\n{function}()\n"
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    environment = dict(os.environ) | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "KUBECONFIG": str(plugin.cluster.admin_kubeconfig),
    }

    def kubectl(*words: str) -> str:
        command = [str(plugin.cluster.plane.binaries.kubectl), *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60).stdout

    assert kubectl("scx", "status").splitlines()[1].split()[:2] == ["web", "Waiting"]
    assert kubectl("__complete", "scx", "undo", "").splitlines() == ["web", ":4"]
