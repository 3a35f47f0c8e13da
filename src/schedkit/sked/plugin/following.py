"""`status -w`: a rollout followed by watches, a line for each node that changes, until it is over."""

import asyncio
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TextIO

from schedkit.errors import NoAnswerError, NotFoundError, clean
from schedkit.sked.api.node_types import SchedExtNode
from schedkit.sked.api.requests import NONE, PENDING, make_slot
from schedkit.sked.api.types import SchedExt
from schedkit.sked.kube.informer import Informer
from schedkit.sked.kube.objects import HasMetadata, Key
from schedkit.sked.plugin.objects import NODES, REPORTS, SCHEDEXTS, ClusterNode
from schedkit.sked.plugin.output import now
from schedkit.sked.plugin.rollout_text import advise, describe_end, describe_failure, describe_progress
from schedkit.sked.plugin.rollouts import ENDS, RolloutProgress, list_claims, read_progress
from schedkit.sked.plugin.session import PluginSession, attempt
from schedkit.unknown import Unknown

# So long a finished rollout is watched for a request that the operator has not taken up: it may be one it ignores.
REQUEST_SECONDS = 30.0
CLEAR_LINE = "\r\x1b[K"


class NodeSight(NamedTuple):
    """What is shown of a node while a rollout passes it."""

    slot: str = ""  # who has it, by its label
    state: str = ""  # what its kernel says
    ops: str = ""
    attachment: int | None = None
    left: str = ""  # why the last scheduler left, where that is known
    quarantined: str = ""


class Screen:
    """Lines, and on a terminal a last one that is drawn again and again."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.live = stream.isatty()
        self._last = ""

    def line(self, text: str) -> None:
        """A line that stays."""
        self._write(f"{CLEAR_LINE if self._last and self.live else ''}{clean(text)}\n")
        if self.live and self._last:
            self._write(self._last)

    def bar(self, text: str) -> None:
        """How far it is; where nothing can be drawn again, a line when that has changed."""
        text = clean(text)
        if self.live:
            columns = shutil.get_terminal_size().columns
            text = text if len(text) < columns else f"{text[: columns - 2]}…"  # one that wraps cannot be drawn again
        if text != self._last:
            self._last = text
            self._write(f"{CLEAR_LINE}{text}" if self.live else f"{text}\n")

    def close(self) -> None:
        """Leave the last line as it is."""
        if self.live and self._last:
            self._write("\n")
            self._last = ""

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


async def follow(session: PluginSession, name: str, seconds: float | None = None, stream: TextIO | None = None) -> int:
    """Show a rollout until it is over, and give the exit code that says how."""
    screen = Screen(stream or sys.stdout)
    first = await session.fetch_resource(name)
    follower = Follower(session, first, screen)
    try:
        async with asyncio.timeout(seconds):
            progress = await follower.run()
    except TimeoutError as error:
        last = follower.progress
        raise NoAnswerError(f"{name} is not done after {seconds:g} s: {last.state}", hint=advise(last)) from error
    finally:
        screen.close()
    screen.line(describe_end(progress))
    if hint := advise(progress):
        screen.line(hint)
    return progress.exit_code


class Follower:
    """Watches one resource, and the nodes that it has."""

    def __init__(self, session: PluginSession, first: SchedExt, screen: Screen) -> None:
        self._session = session
        self._screen = screen
        self._resource: SchedExt | None = first
        self._known: dict[str, NodeSight] = {}
        self._slots = _list_slots(first)
        self._key = str(first.metadata.key)
        self._touched: set[str] = set()  # nodes of which something is new
        self._changed = asyncio.Event()
        self._told: set[str] = set()
        metadata = first.metadata
        self._resources = Informer(
            session.client,
            SCHEDEXTS,
            SchedExt,
            namespaces=[metadata.namespace],
            field_selector=f"metadata.name={metadata.name}",
        )
        self._nodes = Informer(session.client, NODES, ClusterNode)
        self._reports = Informer(session.client, REPORTS, SchedExtNode)
        self.progress = read_progress(first)

    async def run(self) -> RolloutProgress:
        """Until it is over."""
        informers: list[Informer[Any]] = [self._resources, *await self._find_readable()]
        tasks = [asyncio.create_task(informer.run()) for informer in informers]
        try:
            for informer in informers:
                await informer.wait_settled()
            if self._resources.synced and not len(self._resources.store):
                self._resource = None  # it went before the watch began
            self._known = self._look(self._list_names())
            self._resources.on_change(self._take)
            self._nodes.on_change(self._note)
            self._reports.on_change(self._note)
            self._touched.clear()  # what is known by now is no news
            return await self._wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _find_readable(self) -> Sequence[Informer[Any]]:
        """What may be seen of nodes; the rollout itself can be followed without."""
        readable = []
        informers: Iterable[Informer[Any]] = (self._nodes, self._reports)
        for informer in informers:
            found = await attempt(self._session.client.fetch_page(informer.resource, query={}, limit=1))
            if isinstance(found, Unknown):
                self._session.warn(f"changes of nodes are not shown in full: {found.why}")
            else:
                readable.append(informer)
        return readable

    def _take(self, _old: SchedExt | None, new: SchedExt | None) -> None:
        self._resource = new
        if new and not (slots := _list_slots(new)).keys() <= self._slots.keys():
            self._slots |= slots  # of one that is left behind, nodes are still called by its name
            self._touched |= self._list_names()  # of a revision that is new, nodes may have been given before
        self._changed.set()

    def _note(self, old: HasMetadata | None, new: HasMetadata | None) -> None:
        seen = new or old
        if seen:
            self._touched.add(seen.metadata.name)
        self._changed.set()

    async def _wait(self) -> RolloutProgress:
        while True:
            self._changed.clear()
            if self._resource is None:
                raise NotFoundError(f"{self.progress.name} was deleted")
            self.progress = read_progress(self._resource)
            self._show()
            if self.progress.is_over:
                return self.progress
            if self.progress.is_settled:
                with suppress(TimeoutError):
                    async with asyncio.timeout(REQUEST_SECONDS):
                        await self._changed.wait()
                        continue
                return self.progress
            await self._changed.wait()

    def _show(self) -> None:
        touched, self._touched = self._touched, set()
        seen = self._look(touched)
        for name in sorted(touched):
            if (old := self._known.pop(name, None)) is None and name not in seen:
                continue  # another's
            if told := describe_change(old or NodeSight(), seen.get(name)):
                self._screen.line(f"{now():%H:%M:%S}  {name}  {told}")
        self._known |= seen
        news = [text for pool in self.progress.pools for text in (pool.message, describe_failure(pool))]
        if self.progress.state not in ENDS:  # at the end it is the last line
            news.append(advise(self.progress))
        for text in dict.fromkeys(text for text in news if text and text not in self._told):
            self._screen.line(f"{now():%H:%M:%S}  {text}")
        self._told = set(news)
        # Where it cannot be drawn again, a line that differs by its age alone would tell nothing.
        moment = now() if self._screen.live else None
        bars = [describe_progress(pool, moment) for pool in self.progress.pools]
        names = [f"{pool.pool} " if pool.pool else "" for pool in self.progress.pools]
        self._screen.bar("  ".join(name + bar for name, bar in zip(names, bars, strict=True)))

    def _list_names(self) -> set[str]:
        return {key.name for key in (*self._nodes.store.all_keys(), *self._reports.store.all_keys())}

    def _look(self, names: Iterable[str]) -> dict[str, NodeSight]:
        """Those of these nodes that the resource has, is to have, or had when this was last looked at."""
        found = {}
        for name in names:
            node, report = self._nodes.store.get("", name), self._reports.store.get("", name)
            label = node.slot if node else ""
            has = label in self._slots or (report is not None and report.status.sched_ext == self._key)
            if has or (name in self._known and (node or report)):
                found[name] = _see(node, report, self._slots.get(label, label))
        return found


def _list_slots(resource: SchedExt) -> dict[str, str]:
    """The values of the label that mean a revision of the resource, and the revision's name."""
    revisions = {claim.daemon_set for claim in list_claims(resource)}
    for pool in resource.status.pools:
        if rollout := pool.rollout:
            failed = rollout.failed_revision.revision if rollout.failed_revision else ""
            revisions |= {rollout.current_revision, rollout.update_revision, failed}
    namespace = resource.metadata.namespace
    return {make_slot(Key(namespace, revision)): revision for revision in revisions if revision}


def _see(node: ClusterNode | None, report: SchedExtNode | None, slot: str) -> NodeSight:
    kernel = report.status.slot if report else None
    quarantine = (node.quarantine if node else None) or (report.status.quarantine if report else None)
    return NodeSight(
        slot=slot,
        state=kernel.state if kernel else "",
        ops=kernel.ops if kernel else "",
        attachment=kernel.enable_seq if kernel else None,
        left=report.status.last_detach.reason if report and report.status.last_detach else "",
        quarantined=(quarantine.reason or "no reason given") if quarantine else "",
    )


def describe_change(old: NodeSight, new: NodeSight | None) -> str:
    """What happened to a node, in a line; empty where it is nothing to tell."""
    if new is None:
        return "gone"
    told = []
    if new.slot != old.slot:
        words: dict[str, Callable[[], str]] = {
            "": lambda: "slot free",
            NONE: lambda: "no scheduler is to run here",
            PENDING: lambda: "the old scheduler leaves",
        }
        told.append(words.get(new.slot, lambda: f"gets {new.slot}")())
    if (new.state, new.attachment) != (old.state, old.attachment) and new.state:
        told.append(_describe_kernel(old, new))
    if new.quarantined and new.quarantined != old.quarantined:
        told.append(f"in quarantine: {new.quarantined}")
    if old.quarantined and not new.quarantined:
        told.append("quarantine lifted")
    return ", ".join(told)


def _describe_kernel(old: NodeSight, new: NodeSight) -> str:
    if new.state == "enabled":
        return f"{new.ops or 'a scheduler of unknown name'} attached"
    if new.state == "disabled" and old.ops:
        return f"{old.ops} left" + (f": {new.left}" if new.left else "")
    return f"kernel: {new.state}"
