"""What the agents tell of the kernels, and whether it is fresh; everything works without any."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from schedkit.sked.controller.attachment import find_doubt
from schedkit.sked.controller.objects import Node
from schedkit.sked.controller.reports import READY, AgentPod, NodeReport
from schedkit.sked.kube.informer import Informer
from schedkit.sked.kube.store import Store

HAND_OVER = timedelta(seconds=30)  # for so long a kernel is waited for that still has a scheduler when its pod is gone
NO_AGENTS = "no agent runs in the cluster"


@dataclass
class Sight:
    """The reports of all nodes, and their agents."""

    reports: Store[NodeReport]
    agents: Store[AgentPod]
    informers: Sequence[Informer[Any]]  # of both; there need be neither
    _held: dict[str, datetime] = field(default_factory=dict)  # kernels that are waited for, and since when

    @property
    def has_looked(self) -> bool:
        """Whether it is known what nodes report, or that this may not be seen: until then nothing can be said of it."""
        return all(informer.synced or informer.denied for informer in self.informers)

    @property
    def no_reports(self) -> str:
        """Why no node can be judged by its kernel, or nothing."""
        if denied := next((informer.denied for informer in self.informers if informer.denied), ""):
            return f"sked cannot read node reports: {denied}"
        return "" if self.agents else NO_AGENTS

    def has_ready_agent(self, node: str) -> bool:
        """Whether a node's agent can look at its kernel, and tells what it sees; asked where reports may be read."""
        return self.agents.count(READY, node) > 0

    def find_agent_image(self) -> str | None:
        """The image that most agents are made of, empty where it takes credentials; None: no agent is ready."""
        found = Counter(agent.public_image for agent in self.agents if agent.is_ready)
        return max(found, key=lambda image: (found[image], image), default=None)

    def has_agent_of(self, image: str) -> bool:
        """Whether an agent is made of an image."""
        return any(agent.public_image == image for agent in self.agents)

    def find_fresh(self, node: Node) -> NodeReport | None:
        """What a node's kernel does now, where that is known."""
        name = node.metadata.name
        report = self.reports.get("", name)
        if report is None or self.no_reports:
            return None
        ready, boot_id = self.has_ready_agent(name), node.status.node_info.boot_id
        return None if find_doubt(report, agent_ready=ready, boot_id=boot_id) else report

    def note_held(self, node: Node, occupied: bool, now: datetime) -> None:
        """Take in whether a node's kernel still has a scheduler though no pod of one is there any more."""
        name, report = node.metadata.name, self.find_fresh(node)
        if report and report.is_held and not occupied:
            self._held.setdefault(name, now)
        else:
            self._held.pop(name, None)

    def lasts(self, name: str, now: datetime) -> bool:
        """Whether a kernel was waited for until nobody would any more: what it has is nobody's of whom we know."""
        return name in self._held and self.held_in(name, now) is None

    def held_in(self, name: str, now: datetime) -> float | None:
        """For how many seconds more to wait for a kernel that has yet to detach a scheduler; None: not at all.

        Not forever: one that somebody started by hand may stay, and then the next one's pod has to say so.
        """
        since = self._held.get(name)
        left = (since + HAND_OVER - now).total_seconds() if since else 0.0
        return left if left > 0 else None

    def is_waited_for(self, name: str) -> bool:
        """Whether a kernel was seen to have a scheduler after its pod was gone."""
        return name in self._held

    def forget_node(self, name: str) -> None:
        """A node is gone."""
        self._held.pop(name, None)
