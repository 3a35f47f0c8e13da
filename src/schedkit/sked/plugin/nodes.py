"""One line for each node: what its kernel runs, whose that is, and what is not well."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from schedkit.sked.api.conditions import FIT
from schedkit.sked.api.node_types import NodeQuarantine, SchedExtNode
from schedkit.sked.api.requests import NONE, PENDING
from schedkit.sked.kube.objects import Model
from schedkit.sked.plugin.objects import (
    AGENT_LABELS,
    NODES,
    PODS,
    REPORTS,
    ClusterNode,
    ScheduledPod,
)
from schedkit.sked.plugin.output import age, render_table
from schedkit.sked.plugin.session import PluginSession, attempt
from schedkit.unknown import Unknown

ENABLED, UNKNOWN = "enabled", "unknown"
YES, NO = "True", "False"


class NodeLine(Model, frozen=True, kw_only=True, omit_defaults=False):
    """What is known of one node; what could not be found out is `unknown`."""

    name: str
    kernel: str = UNKNOWN
    state: str = UNKNOWN
    ops: str = ""
    sched_ext: str = ""
    since: str | None = None
    fit: str = "Unknown"
    report: str = "current"  # or stale, absent, unknown
    slot: str = ""
    quarantine: NodeQuarantine | None = None
    notes: tuple[str, ...] = ()


async def gather_nodes(session: PluginSession, labels: str) -> list[NodeLine]:
    """All nodes that there are, reported or not."""
    listing = session.fetch_all(NODES, ClusterNode, labels=labels)
    nodes, reports, agents = await asyncio.gather(
        listing if labels else attempt(listing),  # nothing but the nodes themselves knows their labels
        session.fetch_all(REPORTS, SchedExtNode),
        attempt(session.fetch_all(PODS, ScheduledPod, labels=AGENT_LABELS)),
    )
    if isinstance(nodes, Unknown):
        session.warn(f"only nodes with a report are listed: {nodes.why}")
    if isinstance(agents, Unknown):
        session.warn(f"whether the reports are current is not known: {agents.why}")
    return make_lines(nodes, reports, agents)


def make_lines(
    nodes: Sequence[ClusterNode] | Unknown,
    reports: Sequence[SchedExtNode],
    agents: Sequence[ScheduledPod] | Unknown,
) -> list[NodeLine]:
    """The lines, by name."""
    told = {report.metadata.name: report for report in reports}
    ready = None if isinstance(agents, Unknown) else {pod.spec.node_name for pod in agents if pod.is_ready}
    if isinstance(nodes, Unknown):
        return [make_line(name, None, told[name], ready) for name in sorted(told)]
    known: Mapping[str, ClusterNode] = {node.metadata.name: node for node in nodes}
    return [make_line(name, known[name], told.get(name), ready) for name in sorted(known)]


def make_line(
    name: str, node: ClusterNode | None, report: SchedExtNode | None, ready_agents: set[str] | None
) -> NodeLine:
    """What is known of one node."""
    freshness = "absent" if report is None else judge_report(name, ready_agents)
    quarantine = (node.quarantine if node else None) or (report.status.quarantine if report else None)
    kernel = node.status.node_info.kernel_version if node else ""
    notes = tuple(_note(node, report, freshness, quarantine))
    slot = node.slot if node else ""
    if report is None:
        return NodeLine(
            name=name, kernel=kernel or UNKNOWN, report=freshness, slot=slot, quarantine=quarantine, notes=notes
        )
    status = report.status
    fit = next((condition.status for condition in status.conditions if condition.type == FIT), "Unknown")
    return NodeLine(
        name=name,
        kernel=(status.kernel.release if status.kernel else "") or kernel or UNKNOWN,
        state=status.slot.state if status.slot else UNKNOWN,
        ops=status.slot.ops if status.slot else "",
        sched_ext=status.sched_ext,
        since=status.slot.since if status.slot else None,
        fit=fit,
        report=freshness,
        slot=slot,
        quarantine=quarantine,
        notes=notes,
    )


def judge_report(name: str, ready_agents: set[str] | None) -> str:
    """Whether a report tells of now: it does while the node's agent is ready."""
    if ready_agents is None:
        return "unknown"
    return "current" if name in ready_agents else "stale"


def _note(
    node: ClusterNode | None, report: SchedExtNode | None, freshness: str, quarantine: NodeQuarantine | None
) -> Iterator[str]:
    if node and node.not_ready:
        yield "NotReady"
    if node and node.spec.unschedulable:
        yield "cordoned"
    if freshness == "absent":
        yield "no report"
    if freshness == "stale":
        yield "agent not ready, the report may be old"
    if quarantine:
        yield f"quarantine: {quarantine.reason or 'no reason given'}"
    elif node and node.slot == NONE:
        yield "kept free by sked" if node.slot_is_ours else "kept free by hand"
    elif node and node.slot == PENDING:
        yield "the old scheduler is leaving"
    elif node and node.slot and not node.slot_is_ours:
        yield f"slot reserved by hand for {node.slot}"
    status = report.status if report else None
    if status and status.slot and status.slot.state == ENABLED and not status.sched_ext:
        yield "not started by sked"
    if status and status.slot and status.slot.message:
        yield status.slot.message
    if status and status.kernel:
        yield from (
            f"{problem.check}: {problem.message}" for problem in status.kernel.problems if problem.severity == "error"
        )


def render_nodes(lines: Sequence[NodeLine], moment: datetime) -> str:
    """A table of them."""
    titles = ("NODE", "KERNEL", "STATE", "OPS", "SCHEDEXT", "SINCE", "FIT", "QUARANTINE", "NOTE")
    return render_table(
        titles,
        [
            (
                line.name,
                line.kernel,
                line.state + ("?" if line.report == "stale" else ""),
                line.ops,
                line.sched_ext,
                age(line.since, moment) or ("unknown" if line.ops else ""),
                line.fit,
                _describe_quarantine(line),
                "; ".join(line.notes),
            )
            for line in lines
        ],
    )


def _describe_quarantine(line: NodeLine) -> str:
    if line.quarantine is None:
        return "by hand" if "kept free by hand" in line.notes else "-"
    return f"until {line.quarantine.until}" if line.quarantine.until else "until lifted"
