"""`why NODE`: what can be known of a node, each part asked for on its own: a refusal hides no more than itself."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import NamedTuple, TypeVar

from schedkit.errors import NotFoundError
from schedkit.sked.api.node_types import SchedExtNode
from schedkit.sked.api.types import SchedExt
from schedkit.sked.kube.errors import ApiNotFoundError
from schedkit.sked.plugin.objects import (
    AGENT_LABELS,
    NODES,
    POD_LABELS,
    PODS,
    REPORTS,
    SCHEDEXTS,
    ClusterNode,
    ScheduledPod,
)
from schedkit.sked.plugin.session import PluginSession, attempt
from schedkit.unknown import Unknown

LOG_LINES, LOG_BYTES = 8, 1 << 16
LOG_SECONDS = 10.0

Item = TypeVar("Item", ClusterNode, SchedExtNode)


class CrashLog(NamedTuple):
    """What a scheduler wrote last before it ended."""

    lines: tuple[str, ...]


class NodeEvidence(NamedTuple):
    """All that can be known of a node. None: it does not exist."""

    name: str
    node: ClusterNode | Unknown | None
    report: SchedExtNode | Unknown | None
    agents: Sequence[ScheduledPod] | Unknown
    pods: Sequence[ScheduledPod] | Unknown
    resources: Sequence[SchedExt] | Unknown
    logs: dict[str, CrashLog | Unknown]  # by the pod's name, of those that ended

    @property
    def is_whole(self) -> bool:
        """Whether everything could be read."""
        return not any(isinstance(part, Unknown) for part in (*self, *self.logs.values()))


async def gather_evidence(session: PluginSession, name: str) -> NodeEvidence:
    """Ask for everything at once."""
    here = f"spec.nodeName={name}"
    node, report, agents, pods, resources = await asyncio.gather(
        attempt(_fetch(session.client.fetch(NODES, ClusterNode, name))),
        attempt(_fetch(session.client.fetch(REPORTS, SchedExtNode, name))),
        attempt(session.fetch_all(PODS, ScheduledPod, labels=AGENT_LABELS, fields=here)),
        attempt(_fetch_pods(session, name)),
        attempt(session.fetch_all(SCHEDEXTS, SchedExt)),
    )
    if node is None and (report is None or isinstance(report, Unknown)):
        raise NotFoundError(f"there is no node {name}", hint="`kubectl scx nodes` lists them")
    ended = [pod for pod in pods if has_ended(pod)] if not isinstance(pods, Unknown) else []
    logs = await asyncio.gather(*(attempt(_fetch_log(session, pod)) for pod in ended))
    names = [pod.metadata.name for pod in ended]
    return NodeEvidence(name, node, report, agents, pods, resources, dict(zip(names, logs, strict=True)))


def has_ended(pod: ScheduledPod) -> bool:
    """Whether the scheduler of a pod has ended at least once."""
    return any(one.state.terminated or one.last_state.terminated for one in pod.status.container_statuses)


async def _fetch(fetching: Awaitable[Item]) -> Item | None:
    try:
        return await fetching
    except ApiNotFoundError as error:
        if not error.status.details.name:  # not the object, but its kind
            raise
        return None


async def _fetch_pods(session: PluginSession, node: str) -> list[ScheduledPod]:
    """The schedulers' pods on a node, and those that wait for a place on it."""
    here = await session.fetch_all(PODS, ScheduledPod, labels=POD_LABELS, fields=f"spec.nodeName={node}")
    nowhere = await session.fetch_all(PODS, ScheduledPod, labels=POD_LABELS, fields="spec.nodeName=")
    return [*here, *(pod for pod in nowhere if pod.node == node)]


async def _fetch_log(session: PluginSession, pod: ScheduledPod) -> CrashLog:
    status = pod.status.container_statuses[0]
    query = {"container": status.name, "tailLines": str(LOG_LINES), "limitBytes": str(LOG_BYTES)}
    if status.state.terminated is None:
        query["previous"] = "true"
    text = await session.client.fetch_text(
        PODS,
        pod.metadata.name,
        namespace=pod.metadata.namespace,
        subresource="log",
        query=query,
        limit_bytes=LOG_BYTES,
        seconds=LOG_SECONDS,
    )
    return CrashLog(tuple(line.rstrip() for line in text.splitlines() if line.strip())[-LOG_LINES:])
