"""The agent's one loop: it sleeps until the kernel, a probe, a child or the clock wakes it."""

import logging
import random
import select
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from schedkit.kernel import metrics
from schedkit.kernel.changes import Changes
from schedkit.kernel.check import ESSENTIAL, Check, Outcome
from schedkit.kernel.files import read_text
from schedkit.kernel.state import read_state
from schedkit.sked.agent.api import EXCHANGE_SECONDS, ApiServer, StoredReport, fetch_report, write_report
from schedkit.sked.agent.child import Child, ChildFailure
from schedkit.sked.agent.report import Look, Report
from schedkit.sked.agent.reporter import Exchange, Reporter
from schedkit.sked.agent.serve import ProbeAnswer, ProbeServer
from schedkit.sked.kube.addresses import Address
from schedkit.sked.kube.logs import fields

LOOK_SECONDS = FETCH_SECONDS = 300.0  # an event may be lost, and a report deleted
WITHOUT_EVENTS_SECONDS = 1.0
# After an event: it comes a moment before the state is what it says, and the end of a passing state has none.
SOON_SECONDS = (0.02, 0.1, 0.5, 2.0)
EXAMINE_SECONDS = 120
_logger = logging.getLogger(__name__)


class AgentSettings(NamedTuple):
    """What the agent is told."""

    node: str
    server: ApiServer
    health: Address | None
    metrics: Address | None
    look_seconds: float = LOOK_SECONDS
    fetch_seconds: float = FETCH_SECONDS
    root: Path = Path("/")


class Agent:
    """Looks at one kernel and keeps one report up to date."""

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings
        self._release = _read(settings.root / "proc/sys/kernel/osrelease")
        self._reporter = Reporter(self._release, _read(settings.root / "proc/sys/kernel/random/boot_id"))
        self._probes = ProbeServer()
        self._examination: Child | None = None
        self._child: Child | None = None
        self._exchange: tuple[Exchange, Report] = ("fetch", {})
        self._left: list[str] = []
        self._look_at = 0.0
        self._doubt_at = 0.0
        self._soon = list(SOON_SECONDS)

    def run(self) -> None:
        """Work until a signal ends the process."""
        with closing(self._probes), Changes(self._settings.root) as changes:
            self._serve()
            if changes.fileno() < 0:
                _logger.warning("the kernel's events cannot be received: looking every second instead")
            self._examine()
            self._doubt_at = time.monotonic() + _spread(self._settings.fetch_seconds)
            while True:
                self._work(changes)
                self._sleep(changes)

    def _serve(self) -> None:
        for what, address, answerer in (
            ("health probes", self._settings.health, self._answer_probe),
            ("metrics", self._settings.metrics, self._answer_scrape),
        ):
            if address:
                port = self._probes.open(what, address, answerer)
                _logger.info("serving", extra=fields(what=what, port=port))

    def _work(self, changes: Changes) -> None:
        now = time.monotonic()
        self._probes.expire(now)
        if now >= self._look_at:
            self._look(now, has_events=changes.fileno() >= 0)
        if now >= self._doubt_at:
            self._doubt_at = now + _spread(self._settings.fetch_seconds)
            self._reporter.doubt()
        if not self._child and (exchange := self._reporter.choose(now)):
            self._start(exchange, now)

    def _sleep(self, changes: Changes) -> None:
        poll = select.poll()
        children = {child.fileno(): child for child in (self._child, self._examination) if child}
        for number in (changes.fileno(), *children, *self._probes.find_readers()):
            if number >= 0:
                poll.register(number, select.POLLIN)
        for number in self._probes.find_writers():
            poll.register(number, select.POLLOUT)
        now = time.monotonic()
        todo = None if self._child else self._reporter.find_time(now)
        times = [when for when in (self._look_at, self._doubt_at, todo, self._probes.find_time()) if when is not None]
        # Rounded up, or it would wake a moment early and turn around until the time has come.
        for number, _ in poll.poll(max(0, int((min(times) - now) * 1000) + 1)):
            if number == changes.fileno():
                self._hear(changes)
            elif number in children:
                self._take(children[number])
            else:
                self._probes.handle(number, time.monotonic())

    def _hear(self, changes: Changes) -> None:
        announcements = changes.take()
        if announcements == []:
            return
        self._left += [said.ops for said in announcements or () if said.action == "remove" and said.ops]
        self._left = self._left[-1:] if announcements is not None else []  # of several, the last one is told
        self._soon = list(SOON_SECONDS)
        self._look_at = min(self._look_at, time.monotonic() + self._soon[0])

    def _look(self, now: float, *, has_events: bool) -> None:
        look = Look(read_state(self._settings.root), _tell_time(), left=tuple(self._left), clock=time.monotonic())
        before = self._reporter.report.get("slot")
        self._reporter.see(look, now)
        if not self._reporter.is_passing:  # one that is announced to leave may not have left yet
            self._left = []
        if self._reporter.report.get("slot") != before:
            slot = self._reporter.report["slot"]
            _logger.info("slot", extra=fields(state=slot["state"], ops=slot.get("ops", ""), seq=slot.get("enableSeq")))
        pause = self._settings.look_seconds if has_events else WITHOUT_EVENTS_SECONDS
        if self._soon:
            pause = min(pause, self._soon.pop(0))
        elif self._reporter.is_passing:
            pause = min(pause, SOON_SECONDS[-1])
        self._look_at = now + pause

    def _examine(self) -> None:
        root = self._settings.root

        def work() -> object:
            from schedkit.kernel.preflight import examine_node  # it reads megabytes: in a child, which gives them back

            return examine_node(root)

        try:
            self._examination = Child(work, EXAMINE_SECONDS)
        except OSError as error:
            self._finish_examination(ChildFailure(str(error.strerror)))

    def _start(self, exchange: Exchange, now: float) -> None:
        server, node, report = self._settings.server, self._settings.node, self._reporter.report

        def work() -> object:
            if exchange == "fetch":
                return fetch_report(server, node)
            write_report(server, node, report, create=exchange == "create")
            return None

        try:
            self._child = Child(work, EXCHANGE_SECONDS)
        except OSError as error:
            self._reporter.fail(f"cannot start a process: {error.strerror}", 0, now)
        self._exchange = (exchange, report)

    def _take(self, child: Child) -> None:
        result = child.take()
        if result is None:
            return
        if child is self._examination:
            self._examination = None
            self._finish_examination(result)
        else:
            self._child = None
            self._finish_exchange(result, time.monotonic())

    def _finish_examination(self, result: dict[str, Any] | ChildFailure) -> None:
        if isinstance(result, ChildFailure):
            why = f"the kernel could not be examined: {result.message}"
            checks = [Check(name, Outcome.UNKNOWN, why) for name in ESSENTIAL]
        else:
            checks = [Check(name, Outcome(outcome), seen, fix) for name, outcome, seen, fix in result["value"]]
        for check in checks:
            if check.outcome is not Outcome.OK:
                _logger.info("kernel", extra=fields(check=check.name, outcome=check.outcome, seen=check.seen))
        self._reporter.examine(checks, time.monotonic())

    def _finish_exchange(self, result: dict[str, Any] | ChildFailure, now: float) -> None:
        exchange, report = self._exchange
        if isinstance(result, ChildFailure):
            if result.message != self._reporter.trouble:
                _logger.warning("report not written", extra=fields(error=result.message))
            self._reporter.fail(result.message, result.retry_after, now)
        elif exchange == "fetch":
            self._reporter.accept_fetched(StoredReport(*result["value"]) if result["value"] else None, now)
        else:
            self._reporter.accept_written(report)
            _logger.info("report written", extra=fields(node=self._settings.node, state=report["slot"]["state"]))

    def _answer_probe(self, path: str) -> ProbeAnswer | None:
        if path == "/healthz":
            return ProbeAnswer(200, "ok")  # who answers is alive: nothing in the loop waits for anybody
        if path != "/readyz":
            return None
        why = self._reporter.unreadiness
        return ProbeAnswer(503, f"{why}\n") if why else ProbeAnswer(200, "ok")

    def _answer_scrape(self, path: str) -> ProbeAnswer | None:
        if path != "/metrics":
            return None
        since = self._reporter.report.get("slot", {}).get("since")
        families = [
            *metrics.describe_slot(
                read_state(self._settings.root), release=self._release, attached_at=_parse_time(since)
            ),
            _count("writes", "Reports written.", self._reporter.writes),
            _count("failures", "Exchanges with the API server that failed.", self._reporter.failures),
        ]
        return ProbeAnswer(200, metrics.render_metrics(families), metrics.CONTENT_TYPE)


def _count(name: str, about: str, number: int) -> metrics.MetricFamily:
    return metrics.MetricFamily(f"sked_agent_{name}", "counter", about, [("_total", {}, number)])


def _spread(seconds: float, choose: Callable[[float, float], float] = random.uniform) -> float:
    """Vary a time a little: many nodes that began at once must not come at once forever."""
    return seconds * choose(0.8, 1.2)


def _read(path: Path) -> str:
    text = read_text(path)
    return text if isinstance(text, str) else ""


def _tell_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _parse_time(text: object) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else None
    except ValueError:
        return None
