"""What to do about the API server, and when: it knows what was seen, what is written there, and what failed."""

from typing import Literal

from schedkit.kernel.check import Check
from schedkit.sked.agent.api import StoredReport
from schedkit.sked.agent.report import Look, Memory, NodeKernel, Report, advance, is_news, is_passing, pick_own
from schedkit.sked.kube.backoff import Backoff
from schedkit.unknown import Unknown

Exchange = Literal["fetch", "write", "create"]

RETRY_BASE_SECONDS, RETRY_CAP_SECONDS = 0.5, 30.0
PASSING_SECONDS = 2.0  # a state that passes is told only if it stays
BURST, REFILL_SECONDS = 8.0, 5.0  # writes at once, and the time for one more: a scheduler may come and go all day
_MOST_LOOKS = 32


class Reporter:
    """Turns looks into exchanges with the API server. Times are a clock's that never jumps."""

    def __init__(self, release: str, boot_id: str, backoff: Backoff | None = None) -> None:
        self.report: Report = {}
        self.writes = self.failures = 0
        self.trouble = "the API server was not asked yet"
        self._kernel = NodeKernel(release, boot_id, ())
        self._is_examined = self._is_fetched = self._is_stale = False
        self._last: Look | None = None
        self._looks: list[Look] = []  # those that wait for the checks and for what was written before
        self._memory = Memory({}, {})
        self._written: Report = {}
        self._must_create = False
        self._backoff = backoff or Backoff(RETRY_BASE_SECONDS, RETRY_CAP_SECONDS)
        self._not_before = 0.0
        self._passing_since: float | None = None
        self._allowance, self._counted_at = BURST, 0.0

    @property
    def is_passing(self) -> bool:
        """Whether the kernel is on its way from one state to another."""
        return is_passing(self.report)

    @property
    def unreadiness(self) -> str:
        """Why what the API server has may not be what is; empty when it is."""
        if self._last is None:
            return "the kernel was not looked at yet"
        if isinstance(self._last.state.state, Unknown):
            return f"the kernel cannot be looked at: {self._last.state.state.why}"
        return self.trouble if self._is_examined else "the kernel is being examined"

    def examine(self, checks: list[Check], now: float) -> None:
        """Take what was found out about the kernel once and for all."""
        self._kernel = self._kernel._replace(checks=checks)
        self._is_examined = True
        self._catch_up(now)

    def see(self, look: Look, now: float) -> None:
        """Take a look into account."""
        before, self._last = self._last, look
        watched = before is not None and not isinstance(before.state.state, Unknown)
        self._looks.append(look._replace(watched=watched))
        if len(self._looks) > _MOST_LOOKS:
            del self._looks[1]  # the first tells what was so before anything was watched
        self._catch_up(now)

    def doubt(self) -> None:
        """Read the report from the API server again: it may have been deleted."""
        self._is_stale = True

    def choose(self, now: float) -> Exchange | None:
        """What to do now; nothing while something is to be waited for."""
        if not self._is_examined or now < self._not_before:
            return None
        if not self._is_fetched or self._is_stale:
            return "fetch"
        if not self._has_news() or now < self._wait_until(now):
            return None
        self._allowance = self._refill(now) - 1
        self._counted_at = now
        return "create" if self._must_create else "write"

    def find_time(self, now: float) -> float | None:
        """When there may be something to do, if nothing else happens; None when there is nothing."""
        if not self._is_examined:
            return None
        if not self._is_fetched or self._is_stale:
            return self._not_before
        return max(self._not_before, self._wait_until(now)) if self._has_news() else None

    def accept_fetched(self, stored: StoredReport | None, now: float) -> None:
        """Take what the API server has."""
        if not self._is_fetched:
            self._memory = Memory.recall(stored.status if stored else {})
        self._is_fetched, self._is_stale = True, False
        self._written = pick_own(stored.status) if stored else {}
        self._must_create = stored is None or not stored.is_owned
        self._succeed()
        self._catch_up(now)
        if self._has_news():
            self.trouble = "the report is being written"

    def accept_written(self, report: Report) -> None:
        """A report is there now."""
        self.writes += 1
        self._written, self._must_create = report, False
        self._succeed()

    def fail(self, message: str, retry_after: float, now: float) -> None:
        """The exchange failed: wait as long as the server asks, or longer each time."""
        self.failures += 1
        self.trouble = message
        self._not_before = now + max(retry_after, self._backoff.next_delay())

    def _succeed(self) -> None:
        self._backoff.reset()
        self.trouble = ""

    def _catch_up(self, now: float) -> None:
        if not (self._is_examined and self._is_fetched):
            return
        for look in self._looks:
            self._memory = advance(self._memory, look, self._kernel)
            self.report = self._memory.report
        self._looks = []
        if not self.is_passing:
            self._passing_since = None
        elif self._passing_since is None:
            self._passing_since = now

    def _has_news(self) -> bool:
        return bool(self.report) and (self._must_create or is_news(self.report, self._written))

    def _wait_until(self, now: float) -> float:
        """When the news may be written."""
        settled = now if self._passing_since is None else self._passing_since + PASSING_SECONDS
        lack = max(0.0, 1.0 - self._refill(now))
        return max(settled, now + lack * REFILL_SECONDS)

    def _refill(self, now: float) -> float:
        return min(BURST, self._allowance + (now - self._counted_at) / REFILL_SECONDS)
