"""What the kernels say, in statuses, Events, metrics and slots: the real controller around scripted agents."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from schedkit.sked.controller import judgements
from schedkit.sked.controller.attachment import Judgement, judge
from schedkit.sked.controller.objects import Pod
from schedkit.sked.controller.reports import NodeReport
from schedkit.sked.controller.sight import HAND_OVER
from tests.unit.sked_controller.cluster import READY, Cluster
from tests.unit.sked_controller.reporting import NO_BTF
from tests.unit.sked_controller.world import refusal

NODES = ["n1", "n2", "n3"]
RUSTY = "rusty_1.1.4_x86_64_unknown_linux_gnu"
STALL = 'ejected rusty: kind=1026 code=0 reason="runnable task stall" message="sh[7] failed to run for 5.1s"\n'
ONLY_N1 = {"kubernetes.io/hostname": "n1"}


def stamp(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"


class Kernels(Cluster):
    """A cluster whose nodes have agents, which tell what a test says that kernels do."""

    def add_agents(self, *nodes: str, ready: bool = True) -> None:
        for node in nodes:
            conditions = READY if ready else [{"type": "Ready", "status": "False"}]
            document = {"metadata": {"name": f"sked-agent-{node}"}, "spec": {"nodeName": node}}
            self.put("agents", document | {"status": {"conditions": conditions}})

    def report(self, *nodes: str, state: str = "disabled", ops: str = "", **more: Any) -> None:
        """What agents write; with `since`, `left` and so on as times."""
        for node in nodes:
            slot = {"state": state, "enableSeq": 1} | ({"ops": ops} if ops else {})
            slot |= {"since": stamp(more["since"])} if "since" in more else {}
            kernel = {"bootID": more.get("boot", f"boot-of-{node}"), "supported": more.get("supported", "True")}
            status: dict[str, Any] = {"kernel": kernel | {"problems": more.get("problems", [])}, "slot": slot}
            if "left" in more:
                status["lastDetach"] = {"ops": RUSTY, "time": stamp(more["left"]), "enableSeq": 1}
            old = self.find_report(node)
            status |= {field: old[field] for field in ("schedExt", "quarantine", "ejections") if field in old}
            self.put("schedextnodes", {"metadata": {"name": node}, "status": status})

    def find_report(self, node: str) -> dict[str, Any]:
        found = self.get("schedextnodes", node) if node in self.names("schedextnodes") else {}
        status: dict[str, Any] = found.get("status", {})
        return status

    def holders(self) -> dict[str, str]:
        return {node: self.find_report(node).get("schedExt", "") for node in self.names("schedextnodes")}

    def run_containers(self, daemonset: str, started: datetime, ended: datetime | None = None) -> None:
        """Have kubelets say since when the schedulers of a DaemonSet run."""
        state: dict[str, Any] = {"state": {"running": {"startedAt": stamp(started)}}}
        if ended:
            began = stamp(ended - timedelta(seconds=10))
            done = {"exitCode": 2, "reason": "Error", "startedAt": began, "finishedAt": stamp(ended)}
            state |= {"restartCount": 1, "lastState": {"terminated": done}}
        for pod in self.pods_of(self.get("daemonsets", daemonset)):
            found = {"name": "scx", "imageID": "example.com/scx_rusty@sha256:aa"} | state
            self.change("pods", pod["metadata"]["name"], status=pod["status"] | {"containerStatuses": [found]})

    def attach(self, daemonset: str, *nodes: str, ops: str = RUSTY) -> None:
        """Have kernels attach what a DaemonSet's pods load."""
        self.run_containers(daemonset, self.now)
        self.report(*nodes, state="enabled", ops=ops, since=self.now + timedelta(seconds=1))

    def counts(self, name: str = "one") -> dict[str, int]:
        states = ("attached", "detached", "foreign", "ejected", "unfit", "unknown")
        nodes = self.get("schedexts", name)["status"]["nodes"]
        return {state: nodes[state] for state in states if nodes[state]}


def make_kernels(*nodes: str, cls: type[Kernels] = Kernels, **spec: Any) -> Kernels:
    """A cluster with agents, one resource, its pods, and nothing attached yet."""
    cluster = cls()
    for name in nodes or NODES:
        cluster.add_node(name)
    cluster.add_agents(*(nodes or NODES))
    cluster.report(*(nodes or NODES))
    cluster.apply_resource("one", **spec)
    cluster.work()
    return cluster


def attached(*nodes: str, **spec: Any) -> Kernels:
    cluster = make_kernels(*nodes, **spec)
    cluster.attach("one", *(nodes or NODES))
    cluster.work()
    assert cluster.condition("one", "Attached") == ("True", "Attached")
    return cluster


# --- what the status says -------------------------------------------------------------------------------------------


def test_new_resource_waits_for_the_kernel_that_still_has_a_deleted_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedkit.sked.controller.sight.HAND_OVER", timedelta(hours=1))  # minutes pass at each turn
    cluster = attached()
    cluster.remove("schedexts", "one")
    cluster.apply_resource("two", sched="example.com/scx_bpfland:1")
    cluster.work()
    assert cluster.names("daemonsets") == []
    assert cluster.message("two", "Progressing") == (
        "waits until the kernel of node n1 has detached the scheduler before"
    )
    cluster.report("n1", "n2")
    cluster.work()
    assert cluster.names("daemonsets") == []
    cluster.report("n3")
    cluster.work()
    assert cluster.names("daemonsets") == ["two"]


def test_kernel_that_never_lets_go_holds_up_nobody_for_long() -> None:
    cluster = attached()
    cluster.remove("schedexts", "one")
    cluster.apply_resource("two", sched="example.com/scx_bpfland:1")
    cluster.work()
    cluster.now += HAND_OVER
    cluster.look("two")
    cluster.work()
    assert cluster.names("daemonsets") == ["two"]


def test_without_agents_all_is_as_before_and_the_way_to_know_more_is_told() -> None:
    cluster = Cluster()
    for name in NODES:
        cluster.add_node(name)
    cluster.apply_resource("one")
    cluster.work()
    assert cluster.condition("one", "Ready") == ("True", "Ready")
    assert cluster.condition("one", "Attached") == ("Unknown", "NoAgents")
    assert cluster.message("one", "Attached") == (
        "whether the kernels attached it is unknown: no agent runs in the cluster; "
        "install the agents: kubectl apply -k config/default, or agent.enabled=true in the chart"
    )
    assert cluster.get("schedexts", "one")["status"]["nodes"]["unknown"] == 3


def test_ready_waits_for_the_kernels() -> None:
    cluster = make_kernels()
    assert cluster.condition("one", "Ready") == ("False", "Progressing")
    assert cluster.condition("one", "Attached") == ("False", "Attaching")
    cluster.attach("one", "n1", "n2")
    cluster.run()
    assert cluster.counts()["attached"] == 2
    assert cluster.condition("one", "Ready")[0] == "False"
    assert cluster.metric("sked_ready") == ['sked_ready{namespace="default",name="one"} 0']
    cluster.attach("one", *NODES)
    cluster.work()
    assert cluster.condition("one", "Ready") == ("True", "Ready")
    assert cluster.metric("sked_ready") == ['sked_ready{namespace="default",name="one"} 1']
    assert cluster.message("one", "Ready") == "3 of 3 nodes are attached"
    assert cluster.condition("one", "Attached") == ("True", "Attached")
    assert cluster.counts() == {"attached": 3}


def test_pod_that_is_ready_and_never_attaches_is_told_by_node() -> None:
    cluster = make_kernels()
    cluster.attach("one", "n1", "n3")
    cluster.work()
    assert cluster.counts() == {"attached": 2, "detached": 1}
    assert cluster.condition("one", "Ready") == ("False", "Detached")
    assert cluster.condition("one", "Attached") == ("False", "Detached")
    assert cluster.condition("one", "Degraded") == ("True", "Detached")
    assert cluster.message("one", "Ready").startswith("1 nodes fail, first n2: its pod runs since ")
    (failure,) = cluster.get("schedexts", "one")["status"]["failures"]
    assert (failure["node"], failure["pod"], failure["reason"]) == ("n2", "one-n2", "Detached")


def test_foreign_scheduler_is_told_by_its_name() -> None:
    cluster = attached()
    cluster.report("n2", state="enabled", ops="simple", since=cluster.now + timedelta(minutes=2))
    cluster.now += timedelta(minutes=3)
    cluster.work()
    assert cluster.counts() == {"attached": 2, "foreign": 1}
    assert cluster.condition("one", "Degraded") == ("True", "ForeignScheduler")
    assert "simple is attached, since 2026-" in cluster.message("one", "Attached")
    assert ("n2", "Warning", "ForeignScheduler") in cluster.node_events
    assert ("one", "Warning", "ForeignScheduler") in cluster.events


def test_agent_that_goes_leaves_the_unknown_and_not_what_it_said_last() -> None:
    cluster = attached()
    cluster.add_agents("n2", ready=False)
    cluster.work()
    assert cluster.counts() == {"attached": 2, "unknown": 1}
    assert cluster.condition("one", "Ready") == ("True", "Ready")
    assert cluster.message("one", "Ready") == "2 attached, 1 unknown"
    assert cluster.condition("one", "Attached") == ("Unknown", "NotReported")
    assert cluster.message("one", "Attached") == "2 attached, 1 unknown; unknown of n2: no agent is ready on it"
    for node in NODES:
        cluster.remove("agents", f"sked-agent-{node}")
    cluster.work()
    assert cluster.counts() == {"unknown": 3}
    assert cluster.condition("one", "Attached") == ("Unknown", "NoAgents")


def test_report_of_an_earlier_boot_tells_nothing() -> None:
    cluster = attached()
    node = cluster.get("nodes", "n2")
    cluster.change("nodes", "n2", status=node["status"] | {"nodeInfo": {"bootID": "next"}})
    cluster.work()
    assert cluster.counts() == {"attached": 2, "unknown": 1}
    cluster.report("n2", state="enabled", ops=RUSTY, boot="next", since=cluster.now)
    cluster.work()
    assert cluster.counts() == {"attached": 3}


def test_reports_that_may_not_be_read_are_no_reports() -> None:
    cluster = attached()
    cluster.informers["schedextnodes"]._streams[0].denied = "forbidden"
    cluster.informers["schedextnodes"].sync_changed()
    cluster.work()
    assert cluster.counts() == {"unknown": 3}
    assert "sked cannot read node reports: forbidden" in cluster.message("one", "Attached")
    assert cluster.condition("one", "Ready") == ("True", "Ready")


def test_nothing_is_told_before_it_is_known_whether_there_are_agents() -> None:
    cluster = Kernels(attached())
    agents = cluster.informers["agents"]
    agents._streams[0].synced.clear()
    agents.sync_changed()
    for key in list(agents.store.all_keys()):
        agents.remove(key)
    assert cluster.work() == []
    cluster.add_agents(*NODES)
    agents._streams[0].synced.set()
    agents.sync_changed()
    assert cluster.work() == []
    assert cluster.counts() == {"attached": 3}


def test_restart_of_the_operator_changes_nothing_and_tells_nothing() -> None:
    before = attached()
    before.report("n2", left=before.now, state="enabled", ops="simple", since=before.now)
    before.run_containers("one", before.now + timedelta(seconds=20), ended=before.now)
    before.logs = {f"one-{node}": STALL for node in NODES}
    before.work()
    again = Kernels(before)
    again.now = before.now
    again.logs = before.logs
    assert again.work() == []
    assert (again.events, again.node_events) == ([], [])


# --- ejections ------------------------------------------------------------------------------------------------------


def test_ejection_is_explained_from_the_log_and_steady_through_the_crash_loop() -> None:
    cluster = attached("n1")
    cluster.logs["one-n1"] = STALL
    cluster.now += timedelta(minutes=10)
    degraded = []
    for _ in range(3):
        left = cluster.now
        cluster.run_containers("one", left + timedelta(seconds=15), ended=left)
        cluster.report("n1", left=left)
        cluster.run()
        degraded.append((cluster.condition("one", "Degraded"), cluster.message("one", "Ready")))
        cluster.report("n1", left=left, state="enabled", ops=RUSTY, since=left + timedelta(seconds=16))
        cluster.run()
        degraded.append((cluster.condition("one", "Degraded"), cluster.message("one", "Ready")))
    told = (
        "it was attached and left the kernel; the scheduler ended with status 2: the kernel ejected it, "
        "runnable task stall (kind 1026): sh[7] failed to run for 5.1s"
    )
    assert set(degraded) == {(("True", "Ejected"), f"1 nodes fail, first n1: {told}")}
    assert cluster.counts() == {"ejected": 1}
    (failure,) = cluster.get("schedexts", "one")["status"]["failures"]
    assert (failure["reason"], failure["message"]) == ("Ejected", told)
    assert cluster.metric("sked_ejections_total") == ['sked_ejections_total{namespace="default",name="one"} 3']
    assert cluster.events.count(("one", "Warning", "Ejected")) == 3 + 1, "and one of the condition Degraded"
    assert f"left the kernel on n1: {told}" in cluster.notes
    cluster.now += timedelta(minutes=6)
    cluster.look("one")
    cluster.work()
    assert cluster.condition("one", "Ready") == ("True", "Ready")
    assert cluster.condition("one", "Degraded") == ("False", "NoFailures")


def test_ejection_is_not_announced_before_there_is_a_log_to_explain_it() -> None:
    cluster = attached("n1")
    cluster.logs["one-n1"] = STALL
    left = cluster.now
    began, ended = stamp(left - timedelta(seconds=10)), stamp(left)
    done = {"terminated": {"exitCode": 2, "reason": "Error", "startedAt": began, "finishedAt": ended}}
    pod = cluster.get("pods", "one-n1")
    status = {"name": "scx", "imageID": "example.com/scx_rusty@sha256:aa", "state": done}
    cluster.change("pods", "one-n1", status=pod["status"] | {"containerStatuses": [status]})
    cluster.report("n1", left=left)
    cluster.run()
    assert cluster.counts() == {"ejected": 1}
    assert ("n1", "Warning", "Ejected") not in cluster.node_events
    cluster.run_containers("one", left + timedelta(seconds=15), ended=left)
    cluster.run()
    assert cluster.node_events.count(("n1", "Warning", "Ejected")) == 1
    assert "kind 1026" in cluster.notes[-1]


# --- Events and metrics ---------------------------------------------------------------------------------------------


def test_attachment_is_told_once_on_the_resource_and_on_the_node() -> None:
    cluster = make_kernels("n1")
    cluster.events.clear()
    cluster.attach("one", "n1")
    cluster.work()
    assert cluster.events.count(("one", "Normal", "Attached")) == 1
    assert cluster.node_events == [("n1", "Normal", "Attached")]
    assert f"attached on n1: {RUSTY}" in cluster.notes
    cluster.add_agents("n1", ready=False)
    cluster.work()
    assert cluster.counts() == {"unknown": 1}
    cluster.add_agents("n1")
    cluster.work()
    assert cluster.counts() == {"attached": 1}
    assert cluster.node_events == [("n1", "Normal", "Attached")], "the same one, which was unknown for a while"
    assert 'sked_attach_seconds_bucket{namespace="default",name="one",le="1"} 1' in cluster.metric("sked_attach_s")
    assert 'sked_nodes{namespace="default",name="one",state="attached"} 1' in cluster.metric("sked_nodes")
    cluster.remove("schedexts", "one")
    cluster.work()
    assert cluster.metric("sked_") == []


def test_first_that_is_known_of_a_node_is_news_if_it_began_since() -> None:
    cluster = make_kernels("n1", "n2")
    again = Kernels(cluster)
    again.add_agents("n1", "n2", ready=False)
    again.work()
    again.run_containers("one", again.now)
    again.add_agents("n1", "n2")
    again.report("n1", state="enabled", ops=RUSTY, since=again.now - timedelta(hours=1))
    again.report("n2", state="enabled", ops=RUSTY, since=again.now)
    again.work()
    assert again.node_events == [("n2", "Normal", "Attached")]


def test_wave_of_attachments_is_told_as_a_number() -> None:
    nodes = [f"n{number:02}" for number in range(40)]
    cluster = make_kernels(*nodes)
    cluster.attach("one", *nodes)
    writes = cluster.work()
    assert cluster.node_events == []
    assert cluster.events.count(("one", "Normal", "Attached")) == 1
    assert f"attached on n00 and 39 more nodes: {RUSTY}" in cluster.notes
    assert set(writes) == {"apply schedexts/status one"}
    assert len(writes) <= 2


def test_change_of_one_report_wakes_one_resource_and_judges_one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = make_kernels(nodeSelector=ONLY_N1)
    cluster.apply_resource("two", nodeSelector={"kubernetes.io/hostname": "n2"})
    cluster.work()
    cluster.results.clear()
    judged: list[str] = []

    def watched(pod: Pod | None, report: NodeReport, **known: Any) -> Judgement:
        judged.append(report.metadata.name)
        return judge(pod, report, **known)

    monkeypatch.setattr(judgements, "judge", watched)
    cluster.report("n2", state="enabled", ops=RUSTY, since=cluster.now)
    cluster.run()
    assert {str(key) for key in cluster.results} == {"default/two"}
    assert set(judged) == {"n2"}


# --- who has a node -------------------------------------------------------------------------------------------------


def test_reports_say_who_has_their_node_and_attaching_writes_nothing_there() -> None:
    cluster = make_kernels()
    assert cluster.holders() == dict.fromkeys(NODES, "default/one")
    cluster.attach("one", *NODES)
    assert not [write for write in cluster.work() if "schedextnodes" in write]
    cluster.add_node("n4")
    assert not [write for write in cluster.work() if "schedextnodes" in write], "no report, nothing to write to"
    cluster.add_agents("n4")
    cluster.report("n4")
    assert "apply schedextnodes/status n4" in cluster.work()
    cluster.apply_resource("one", suspend=True)
    cluster.work()
    assert cluster.holders() == dict.fromkeys([*NODES, "n4"], "")
    assert cluster.find_report("n4")["slot"]["state"] == "disabled", "what the agent says stays"


def test_reports_that_may_not_be_written_are_let_be() -> None:
    cluster = Kernels()
    cluster.refusals["apply schedextnodes"] = refusal(403, "Forbidden")
    cluster.add_node("n1")
    cluster.add_agents("n1")
    cluster.report("n1")
    cluster.apply_resource("one")
    cluster.work()
    cluster.attach("one", "n1")
    cluster.work()
    assert cluster.condition("one", "Ready") == ("True", "Ready")


# --- handing over ---------------------------------------------------------------------------------------------------


def hand_over(cluster: Kernels) -> None:
    """Have a stronger resource want n1, and the pod there be gone."""
    cluster.patience = 5.0
    cluster.free_namespace()
    cluster.apply_resource("special", nodeSelector=ONLY_N1, priority=10)
    cluster.run()
    for _ in range(3):
        cluster.move()
        cluster.end_pods()
        cluster.now -= timedelta(minutes=1)  # a turn takes one; here it is to take no time
        cluster.run()


def test_slot_is_given_when_the_kernel_has_let_go_and_not_before() -> None:
    cluster = attached()
    hand_over(cluster)
    assert cluster.slots() == {"n1": "pending"}
    assert cluster.on("n1") == []
    assert cluster.condition("special", "Progressing") == ("True", "WaitingForNodes")
    cluster.report("n1", left=cluster.now)
    cluster.now -= timedelta(minutes=1)
    cluster.run()
    assert cluster.slots() == {"n1": "default.special"}
    cluster.work()
    assert cluster.on("n1") == ["special"]
    assert cluster.holders()["n1"] == "default/special"


def test_slot_is_given_at_the_end_of_the_pod_where_no_report_is_fresh() -> None:
    cluster = attached()
    cluster.add_agents("n1", ready=False)
    cluster.run()
    hand_over(cluster)
    assert cluster.slots() == {"n1": "default.special"}


def test_kernel_that_never_lets_go_is_not_waited_for_for_ever() -> None:
    cluster = attached()
    hand_over(cluster)
    assert cluster.slots() == {"n1": "pending"}
    cluster.now += HAND_OVER
    cluster.look_at_node("n1")
    cluster.run()
    assert cluster.slots() == {"n1": "default.special"}
    cluster.work()
    assert cluster.on("n1") == ["special"]


# --- unfit nodes ----------------------------------------------------------------------------------------------------


def test_unfit_node_fails_where_nothing_else_is_asked_for() -> None:
    cluster = make_kernels()
    cluster.report("n2", supported="False", problems=[NO_BTF])
    cluster.attach("one", "n1", "n3")
    cluster.work()
    assert cluster.slots() == {}
    assert cluster.counts() == {"attached": 2, "unfit": 1}
    assert cluster.condition("one", "Degraded") == ("True", "Unfit")
    assert cluster.message("one", "Ready") == (
        "1 nodes fail, first n2: kernel.btf: /sys/kernel/btf/vmlinux is not there"
    )
    assert ("n2", "Warning", "Unfit") in cluster.node_events


def test_unfit_nodes_are_left_out_and_given_back() -> None:
    cluster = make_kernels(skipUnfitNodes=True)
    cluster.attach("one", *NODES)
    cluster.work()
    assert cluster.slots() == {}
    before = cluster.uids("one")
    cluster.report("n2", supported="False", problems=[NO_BTF])
    cluster.work()
    assert cluster.slots() == {"n2": "none"}
    assert cluster.get("nodes", "n2")["metadata"]["annotations"]["sked.schedkit.io/slot"] == "none"
    assert cluster.uids("one") == {node: uid for node, uid in before.items() if node != "n2"}, "others are left alone"
    assert cluster.counts() == {"attached": 2, "unfit": 1}
    assert cluster.condition("one", "Ready") == ("True", "Ready")
    assert cluster.message("one", "Ready") == "2 of 2 nodes are attached, 1 node left out as unfit"
    assert cluster.condition("one", "Degraded") == ("False", "NoFailures")
    assert cluster.holders()["n2"] == ""

    cluster.add_agents("n2", ready=False)  # unknown gives nothing back
    cluster.work()
    assert cluster.slots() == {"n2": "none"}
    assert Kernels(cluster).work() == []

    cluster.add_agents("n2")
    cluster.report("n2")
    cluster.work()
    assert cluster.slots() == {}
    assert cluster.on("n2") == ["one"]


def test_unknown_keeps_nobody_off() -> None:
    cluster = attached(skipUnfitNodes=True)
    cluster.add_agents("n2", ready=False)
    cluster.report("n2", supported="False", problems=[NO_BTF])
    cluster.work()
    assert cluster.slots() == {}
    assert cluster.on("n2") == ["one"]


def test_resource_that_skips_unfit_nodes_leaves_them_to_one_that_does_not() -> None:
    cluster = make_kernels(skipUnfitNodes=True)
    cluster.apply_resource("two")
    cluster.work()
    cluster.report("n2", supported="False", problems=[NO_BTF])
    cluster.work()
    assert {node: cluster.on(node) for node in NODES} == {"n1": ["one"], "n2": ["two"], "n3": ["one"]}
    assert cluster.slots()["n2"] == "default.two"
    cluster.report("n2")
    cluster.work()
    assert cluster.on("n2") == ["one"]


def test_person_decides_of_an_unfit_node_too() -> None:
    cluster = make_kernels(skipUnfitNodes=True)
    cluster.report("n2", supported="False", problems=[NO_BTF])
    cluster.work()
    assert cluster.slots() == {"n2": "none"}
    cluster.label("n2", slot="one")
    cluster.work()
    assert cluster.slots() == {"n2": "one"}
    assert cluster.on("n2") == ["one"]
    assert cluster.get("schedexts", "one")["status"]["nodes"]["desired"] == 3


def test_all_nodes_are_given_back_when_unfit_ones_are_not_to_be_skipped_any_more() -> None:
    cluster = make_kernels(skipUnfitNodes=True)
    cluster.report(*NODES, supported="False", problems=[NO_BTF])
    cluster.work()
    assert cluster.slots() == dict.fromkeys(NODES, "none")
    assert cluster.message("one", "Ready") == "no node is left: 3 nodes left out as unfit"
    cluster.apply_resource("one")
    cluster.work()
    assert cluster.slots() == {}
    assert {node: cluster.on(node) for node in NODES} == {node: ["one"] for node in NODES}
