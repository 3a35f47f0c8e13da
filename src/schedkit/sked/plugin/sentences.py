"""A node in sentences: what its kernel does, who is to have it, what its pods did, and what is not known. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from schedkit.kernel.exits import parse_exit
from schedkit.sked.api.node_types import NodeQuarantine, SchedExtNode, SlotReport
from schedkit.sked.api.requests import NONE, PENDING
from schedkit.sked.api.selectors import InvalidSelectorError
from schedkit.sked.api.types import SchedExt
from schedkit.sked.api.workloads import resolve_workloads
from schedkit.sked.kube.objects import Model
from schedkit.sked.plugin.explaining import NodeEvidence
from schedkit.sked.plugin.objects import ClusterNode, ScheduledPod
from schedkit.sked.plugin.output import age
from schedkit.unknown import Unknown

ENABLED = "enabled"
WIDTH = 12


class Sentence(Model, frozen=True, kw_only=True, omit_defaults=False):
    """One thing that is known of a node, and what it is about."""

    about: str
    text: str


def explain(evidence: NodeEvidence, moment: datetime) -> list[Sentence]:
    """All that is known, what the kernel says first."""
    parts = {
        "kernel": _tell_kernel(evidence.report, moment),
        "agent": _tell_agent(evidence),
        "node": _tell_node(evidence.node),
        "slot": _tell_slot(evidence),
        "quarantine": _tell_quarantine(evidence, moment),
        "pod": _tell_pods(evidence, moment),
        "schedext": _tell_resources(evidence),
    }
    return [Sentence(about=about, text=text) for about, texts in parts.items() for text in texts]


def render_sentences(sentences: Sequence[Sentence]) -> str:
    """A paragraph for each subject."""
    lines, last = [], ""
    for one in sentences:
        lines.append(f"{one.about if one.about != last else '':{WIDTH}}{one.text}")
        last = one.about
    return "\n".join(lines)


def _tell_kernel(report: SchedExtNode | Unknown | None, moment: datetime) -> Iterator[str]:
    if isinstance(report, Unknown):
        yield f"What the kernel does is not known: {report.why}."
        return
    if report is None:
        yield "What the kernel does is not known: there is no report for this node."
        return
    status = report.status
    yield _describe_slot(status.slot, status.sched_ext, moment)
    if left := status.last_detach:
        when = f" {age(left.time, moment)} ago" if left.time else ""
        why = f": {left.reason}" if left.reason else ""
        yield f"The last scheduler that left was {left.ops or 'one of unknown name'}{when}{why}."
    kernel = status.kernel
    if kernel is None:
        yield "Which kernel it is, and whether it can run schedulers, is not reported."
        return
    fit = {"True": "can run schedulers", "False": "cannot run schedulers"}.get(kernel.supported, "may run schedulers")
    yield f"Linux {kernel.release or 'of unknown release'} {fit}."
    for problem in kernel.problems:
        yield f"{problem.check} ({problem.severity}): {problem.message}"


def _describe_slot(slot: SlotReport | None, owner: str, moment: datetime) -> str:
    if slot is None or slot.state == "unknown":
        why = f": {slot.message}" if slot and slot.message else ""
        return f"Whether a scheduler is attached is not known{why}."
    if slot.state == ENABLED:
        has, since = "is", ", since before anybody looked"
        if slot.since:
            has, since = "has been", f" for {age(slot.since, moment)}"
        whose = f"it belongs to {owner}" if owner else "sked did not start it (foreign)"
        return f"{slot.ops or 'A scheduler of unknown name'} {has} attached{since}; {whose}."
    if slot.state == "unsupported":
        return "The kernel has no sched_ext."
    if slot.state == "disabled":
        wanted = f", though {owner} has the node" if owner else ""
        return f"No scheduler is attached{wanted}; the kernel runs its own."
    return f"The kernel is {slot.state} {slot.ops or 'a scheduler'}."


def _tell_agent(evidence: NodeEvidence) -> Iterator[str]:
    agents = evidence.agents
    if isinstance(agents, Unknown):
        yield f"Whether the report is current is not known: {agents.why}."
    elif not agents:
        yield "No agent runs on this node, so that a report of it may be old."
    elif any(pod.is_ready for pod in agents):
        yield "The node's agent is ready: its report is current."
    else:
        yield f"The node's agent ({agents[0].metadata.key}) is not ready: its report may be old."


def _tell_node(node: ClusterNode | Unknown | None) -> Iterator[str]:
    if isinstance(node, Unknown):
        yield f"The node itself could not be read: {node.why}."
    elif node is None:
        yield "The node does not exist any more; only its report is left."
    else:
        yield f"It is NotReady: {node.not_ready}" if node.not_ready else "It is Ready."
        if node.spec.unschedulable:
            yield "It is cordoned."


def _tell_slot(evidence: NodeEvidence) -> Iterator[str]:
    node = evidence.node
    if not isinstance(node, ClusterNode):
        return
    who = "sked" if node.slot_is_ours else "a person"
    if not node.slot:
        yield "Its slot label is absent: there was nothing to decide, or nothing yet."
    elif node.slot == NONE and not node.quarantine:
        why = "its kernel is unfit, or no resource may use it" if node.slot_is_ours else "`kubectl scx lift` ends that"
        yield f"No scheduler is to run here: {who} set the slot label to none; {why}."
    elif node.slot == PENDING:
        yield "Its slot is pending: the scheduler before has to leave first."
    elif node.slot != NONE:
        yield f"Its slot belongs to {node.slot}: {who} set that label."


def _tell_quarantine(evidence: NodeEvidence, moment: datetime) -> Iterator[str]:
    found = evidence.node.quarantine if isinstance(evidence.node, ClusterNode) else None
    if found is None and isinstance(evidence.report, SchedExtNode):
        found = evidence.report.status.quarantine
    if found:
        yield _describe_quarantine(found, evidence.name, moment)
    counted = evidence.report.status.ejections if isinstance(evidence.report, SchedExtNode) else None
    if counted and counted.times and not found:
        many = "1 ejection counts" if len(counted.times) == 1 else f"{len(counted.times)} ejections count"
        yield f"{many} towards its quarantine, the last {age(counted.last, moment)} ago."


def _describe_quarantine(found: NodeQuarantine, node: str, moment: datetime) -> str:
    since = f" for {age(found.since, moment)}" if found.since else ""
    whose = f" because of {found.sched_ext}" if found.sched_ext else ""
    end = f"until {found.until}" if found.until else "until a person lifts it, or there is a new revision"
    return (
        f"It has been in quarantine{since}{whose}, {end}: {found.reason or 'no reason given'}; "
        f"`kubectl scx lift {node}` ends that."
    )


def _tell_pods(evidence: NodeEvidence, moment: datetime) -> Iterator[str]:
    if isinstance(evidence.pods, Unknown):
        yield f"Which schedulers' pods are here is not known: {evidence.pods.why}."
        return
    if not evidence.pods:
        yield "No pod of a scheduler is on it."
    for pod in evidence.pods:
        yield _describe_pod(pod, moment)
        yield from _tell_containers(pod, moment)
        log = evidence.logs.get(pod.metadata.name)
        if isinstance(log, Unknown):
            yield f"Its log could not be read: {log.why}."
        elif log:
            if thrown_out := parse_exit(log.lines):
                yield f"By its log the kernel ejected it: {thrown_out}."
            yield "The end of its log:" if log.lines else "Its log is empty."
            yield from (f"  {line}" for line in log.lines)


def _describe_pod(pod: ScheduledPod, moment: datetime) -> str:
    image = pod.spec.containers[0].image if pod.spec.containers else "an unknown image"
    state = "ready" if pod.is_ready else "not ready"
    if pod.metadata.deletion_timestamp:
        state = "on its way out"
    born = age(pod.metadata.creation_timestamp, moment)
    of = f", of {pod.daemonset}" if pod.daemonset else ""
    return f"{pod.metadata.key}{of} ({image}) is {pod.status.phase or 'of unknown phase'} and {state}, {born} old."


def _tell_containers(pod: ScheduledPod, moment: datetime) -> Iterator[str]:
    if pod.status.reason or pod.status.message:
        yield f"{pod.status.reason}: {pod.status.message}".strip(": ")
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            yield f"The node does not take it: {condition.message or condition.reason}"
    for one in pod.status.container_statuses:
        if one.state.waiting and one.state.waiting.reason not in ("", "ContainerCreating", "PodInitializing"):
            told = f": {one.state.waiting.message}" if one.state.waiting.message else ""
            yield f"It waits, {one.state.waiting.reason}{told}"
        if ended := one.state.terminated or one.last_state.terminated:
            how = f"signal {ended.signal}" if ended.signal else f"status {ended.exit_code}"
            when = f" {age(ended.finished_at, moment)} ago" if ended.finished_at else ""
            why = f" ({ended.reason})" if ended.reason not in ("", "Error", "Completed") else ""
            times = f"after {one.restart_count} restarts" if one.restart_count != 1 else "after 1 restart"
            yield f"It ended last{when} with {how}{why}, {times}."
            if ended.message:
                yield ended.message


def _tell_resources(evidence: NodeEvidence) -> Iterator[str]:
    if isinstance(evidence.resources, Unknown):
        yield f"Which SchedExts select it is not known: {evidence.resources.why}."
        return
    if isinstance(evidence.node, ClusterNode):
        yield _describe_claims(evidence.node, evidence.resources)
    for resource in evidence.resources:
        for failure in resource.status.failures:
            if failure.node == evidence.name:
                yield f"{resource.metadata.key} says of it: {failure.reason}: {failure.message}"
        for pool in resource.status.pools:
            failed = pool.rollout.failed_revision if pool.rollout else None
            if failed and failed.node == evidence.name:
                why = f"{failed.reason}: {failed.message}"
                yield f"{failed.revision} of {resource.metadata.key} failed here first: {why}"


def _describe_claims(node: ClusterNode, resources: Sequence[SchedExt]) -> str:
    wanting = [resource for resource in resources if _selects(resource, node)]
    wanting.sort(key=lambda one: (-one.status.priority, one.metadata.creation_timestamp or "", one.metadata.key))
    if not wanting:
        return "No SchedExt selects it by its labels."
    if len(wanting) == 1:
        return f"{wanting[0].metadata.key} selects it, and no other."
    listed = ", ".join(f"{one.metadata.key} (priority {one.status.priority})" for one in wanting)
    return f"Several SchedExts select it, and the first of them that can run here has it: {listed}."


def _selects(resource: SchedExt, node: ClusterNode) -> bool:
    if resource.spec.suspend or resource.metadata.deletion_timestamp:
        return False
    labels, name = node.metadata.labels, node.metadata.name
    try:
        return any(claim.parse_selector().matches(labels, name) for claim in resolve_workloads(resource))
    except InvalidSelectorError:
        return False  # as for Kubernetes, which refuses it
