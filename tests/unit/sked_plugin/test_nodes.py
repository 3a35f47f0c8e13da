"""Nodes in lines and in sentences: what is known, and what is not."""

import msgspec

from schedkit.sked.plugin.explaining import CrashLog, NodeEvidence
from schedkit.sked.plugin.nodes import make_line, make_lines, render_nodes
from schedkit.sked.plugin.objects import ScheduledPod
from schedkit.sked.plugin.sentences import explain, render_sentences
from schedkit.unknown import Unknown
from tests.unit.sked_plugin.making import (
    MOMENT,
    failed_with,
    make_node,
    make_pod,
    make_report,
    make_rollout,
    make_schedext,
)

NODE = "node-1"
QUARANTINE = '{"schedExt":"default/web","since":"2026-01-01T00:30:00Z","until":"2026-01-01T02:00:00Z","reason":"stall"}'


def make_evidence(**parts: object) -> NodeEvidence:
    agent = make_pod("agent")
    whole: dict[str, object] = {
        "name": NODE,
        "node": make_node(),
        "report": make_report(),
        "agents": [agent],
        "pods": [make_pod()],
        "resources": [make_schedext()],
        "logs": {},
    }
    return NodeEvidence(**(whole | parts))  # type: ignore[arg-type]


def tell(**parts: object) -> str:
    return render_sentences(explain(make_evidence(**parts), MOMENT))


def test_line_has_what_the_kernel_runs_and_whose_it_is() -> None:
    text = render_nodes(make_lines([make_node()], [make_report()], [make_pod("agent")]), MOMENT)
    assert [line.split() for line in text.splitlines()] == [
        ["NODE", "KERNEL", "STATE", "OPS", "SCHEDEXT", "SINCE", "FIT", "QUARANTINE", "NOTE"],
        [NODE, "6.12.9", "enabled", "rusty", "default/web", "10m", "True", "-", "-"],
    ]


def test_node_that_nobody_reports_is_unknown_and_not_idle() -> None:
    line = make_line(NODE, make_node(), None, set())
    assert (line.state, line.fit, line.report, line.notes) == ("unknown", "Unknown", "absent", ("no report",))


def test_report_of_an_agent_that_is_not_ready_is_doubted() -> None:
    (line,) = make_lines([make_node()], [make_report()], [make_pod("agent", ready=False)])
    assert (line.report, line.notes) == ("stale", ("agent not ready, the report may be old",))
    assert " enabled? " in render_nodes([line], MOMENT)


def test_agents_that_may_not_be_seen_make_no_report_current() -> None:
    (line,) = make_lines([make_node()], [make_report()], Unknown("forbidden"))
    assert line.report == "unknown"


def test_nodes_that_may_not_be_seen_leave_the_reports() -> None:
    (line,) = make_lines(Unknown("forbidden"), [make_report()], [])
    assert (line.name, line.ops) == (NODE, "rusty")


def test_notes_name_what_is_not_well() -> None:
    node = make_node(slot="none", wrote="none", quarantine=QUARANTINE, ready=False, spec={"unschedulable": True})
    line = make_line(NODE, node, make_report(schedExt=""), {NODE})
    assert line.notes == ("NotReady", "cordoned", "quarantine: stall", "not started by sked")
    assert "until 2026-01-01T02:00:00Z" in render_nodes([line], MOMENT)
    by_hand = make_line(NODE, make_node(slot="none"), make_report(), {NODE})
    assert (by_hand.notes, " by hand " in render_nodes([by_hand], MOMENT)) == (("kept free by hand",), True)
    assert make_line(NODE, make_node(slot="web"), make_report(), {NODE}).notes == ("slot reserved by hand for web",)


def test_text_of_others_does_nothing_to_a_terminal() -> None:
    slot = {"state": "enabled", "ops": "evil\x1b[2J"}
    assert "\x1b" not in render_nodes(make_lines([make_node()], [make_report(slot=slot)], []), MOMENT)


def test_why_tells_of_a_healthy_node_in_a_few_sentences() -> None:
    assert tell().splitlines() == [
        "kernel      rusty has been attached for 10m; it belongs to default/web.",
        "            Linux 6.12.9 can run schedulers.",
        "agent       The node's agent is ready: its report is current.",
        "node        It is Ready.",
        "slot        Its slot label is absent: there was nothing to decide, or nothing yet.",
        "pod         default/web-x, of web-bbbbbbbbbb (example.com/scx_rusty:1) is Running and ready, 20m old.",
        "schedext    default/web selects it, and no other.",
    ]


def test_why_tells_of_a_crash_with_its_log_and_the_kernels_word() -> None:
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-01-01T00:59:00Z"}}
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}
    status = {"name": "scx", "restartCount": 3, "state": waiting, "lastState": ended}
    pod = make_pod(ready=False, containerStatuses=[status])
    line = 'ejected rusty: kind=1026 code=0 reason="runnable task stall" message="x failed to run for 3s"'
    text = tell(pods=[pod], logs={"web-x": CrashLog(("starting", line))})
    assert "It waits, CrashLoopBackOff: back-off 40s" in text
    assert "It ended last 60s ago with status 1, after 3 restarts." in text
    assert "the kernel ejected it: runnable task stall (kind 1026): x failed to run for 3s." in text
    assert f"              {line}" in text


def test_why_says_of_each_part_that_it_could_not_be_read() -> None:
    refused = Unknown("you may not")
    text = tell(node=refused, report=refused, agents=refused, pods=refused, resources=refused)
    assert text.count("you may not") == 5
    assert make_evidence().is_whole
    assert not make_evidence(agents=refused).is_whole
    assert not make_evidence(logs={"web-x": refused}).is_whole
    assert "is not known" in text
    log = tell(pods=[make_pod()], logs={"web-x": Unknown("no answer")})
    assert "Its log could not be read: no answer." in log


def test_why_tells_of_quarantine_slot_and_detachment() -> None:
    slot, left = {"state": "disabled"}, {"ops": "rusty", "time": "2026-01-01T00:58:00Z", "reason": "stall"}
    node = make_node(slot="none", wrote="none", quarantine=QUARANTINE, ready=False, spec={"unschedulable": True})
    text = tell(node=node, report=make_report(slot=slot, lastDetach=left), pods=[], agents=[])
    assert "No scheduler is attached, though default/web has the node" in text
    assert "The last scheduler that left was rusty 2m ago: stall." in text
    assert "No agent runs on this node" in text
    assert "It is NotReady: kubelet is dead" in text
    assert "It has been in quarantine for 30m because of default/web, until 2026-01-01T02:00:00Z: stall;" in text
    assert "No pod of a scheduler is on it." in text


def test_why_tells_how_many_ejections_count() -> None:
    last = "2026-01-01T00:58:00Z"
    ejections = {"schedExt": "default/web", "last": last, "times": ["2026-01-01T00:57:00Z", last]}
    counted = "2 ejections count towards its quarantine, the last 2m ago."
    assert counted in tell(report=make_report(ejections=ejections))
    assert "count towards" not in tell(report=make_report(ejections=ejections | {"times": []}))
    assert "count towards" not in tell(node=make_node(quarantine=QUARANTINE), report=make_report(ejections=ejections))


def test_why_tells_of_problems_and_of_a_foreign_scheduler() -> None:
    problem = {"check": "kernel.btf", "severity": "error", "message": "/sys/kernel/btf/vmlinux is not there"}
    kernel = {"release": "6.1", "supported": "False", "problems": [problem]}
    text = tell(report=make_report(kernel=kernel, schedExt=""))
    assert "sked did not start it (foreign)" in text
    assert "Linux 6.1 cannot run schedulers." in text
    assert "kernel.btf (error): /sys/kernel/btf/vmlinux is not there" in text
    assert "there is no report for this node" in tell(report=None)
    assert "only its report is left" in tell(node=None)


def test_why_tells_who_selects_the_node_and_what_they_say_of_it() -> None:
    failure = {"node": NODE, "reason": "Ejected", "message": "left without being told to"}
    failed = failed_with("Ejected") | {"node": NODE}
    web = make_schedext(
        make_rollout("RolledBack", failedRevision=failed), status={"failures": [failure], "priority": 5}
    )
    other, elsewhere = make_schedext(name="other"), make_schedext(name="elsewhere", nodeSelector={"pool": "small"})
    text = tell(resources=[elsewhere, other, web])
    assert "default/web (priority 5), default/other (priority 0)." in text
    assert "elsewhere" not in text
    assert "default/web says of it: Ejected: left without being told to" in text
    assert "web-bbbbbbbbbb of default/web failed here first: Ejected: runnable task stall" in text
    assert "No SchedExt selects it by its labels." in tell(resources=[elsewhere])


def test_pod_that_waits_for_a_place_is_told_with_the_node_it_is_meant_for() -> None:
    fields = [{"key": "metadata.name", "operator": "In", "values": [NODE]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    refused = [{"type": "PodScheduled", "status": "False", "message": "too little memory"}]
    waiting = {"metadata": {"name": "web-y"}, "spec": {"affinity": affinity}, "status": {"conditions": refused}}
    pod = msgspec.convert(waiting, ScheduledPod)
    assert (pod.node, make_pod(node="other").node) == (NODE, "other")
    assert "The node does not take it: too little memory" in tell(pods=[pod])
