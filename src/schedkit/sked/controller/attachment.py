"""What became of a scheduler in one kernel: a pure function of its pod and of what the node's agent reports.

The kernel's word wins, and only a fresh report is one: its agent's pod is ready, and it tells of the boot that the
node is in. Times of a node's kubelet and of its agent are of one clock; the operator's own is used for waiting only.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from schedkit.kernel.names import is_same_scheduler
from schedkit.sked.api.workloads import short_scheduler_name
from schedkit.sked.controller import reports
from schedkit.sked.controller.failures import STEADY, is_waiting
from schedkit.sked.controller.objects import INITIALIZED, ContainerStatus, Pod
from schedkit.sked.controller.reports import NodeReport, ReportedDetachment

GRACE = timedelta(seconds=30)  # a scheduler has so long to attach; and what attaches meanwhile is its own
SETTLE = timedelta(seconds=5)  # a kubelet and an agent tell of one moment one after the other
SLACK = timedelta(seconds=2)  # the times of Kubernetes are whole seconds
LEFT = "it was attached and left the kernel"
# Some schedulers need these and some do not, so the kernel is fit; one that fails there has likely met them.
SUSPECTS = ("kernel.btf_kfuncs", "kernel.function_tracer")


class NodeState(StrEnum):
    """What can be said of a scheduler on one node; but for the first, named as the counts of a status."""

    ATTACHING = "attaching"
    ATTACHED = "attached"
    DETACHED = "detached"
    FOREIGN = "foreign"
    EJECTED = "ejected"
    UNFIT = "unfit"
    UNKNOWN = "unknown"


class Judgement(NamedTuple):
    """What became of a scheduler on one node."""

    state: NodeState
    message: str = ""  # why it is not attached
    since: str | None = None  # since when that is so, where it is known
    until: datetime | None = None  # when time alone may change the answer
    ops: str = ""  # the name that was judged
    learned: str = ""  # a name that showed itself to be this image's
    unlearned: str = ""  # a name that showed itself to be somebody else's
    episode: str = ""  # which attachment this is about: one is told once, however often it is judged


class _Runs(NamedTuple):
    """The lives of a pod's scheduler: the one that runs, and the one before it that ended."""

    started: datetime | None = None
    ended: datetime | None = None
    ended_began: datetime | None = None  # when the one that ended had begun

    @property
    def begun(self) -> bool:
        return self.started is not None or self.ended is not None

    def is_crashing(self, now: datetime) -> bool:
        """Whether it ended, and has not run for long enough since."""
        return self.ended is not None and (self.started is None or now - self.started < STEADY)


def judge(
    pod: Pod | None,
    report: NodeReport | None,
    *,
    agent_ready: bool,
    boot_id: str,
    learned: Collection[str],
    foreign: str,
    held: bool,
    now: datetime,
) -> Judgement:
    """What became of the scheduler whose pod this is; without a pod it has yet to begin.

    `learned` are the ops names by which this image attached before; `foreign` is the one that was told last to be
    somebody else's on this node; `held`: the kernel has had one for long that is in no pod that sked knows.
    """
    doubt = find_doubt(report, agent_ready=agent_ready, boot_id=boot_id)
    if doubt or report is None:
        return Judgement(NodeState.UNKNOWN, doubt)
    going = pod is None or pod.metadata.deletion_timestamp is not None
    case = _Case(None if going else pod, report, learned, foreign, now)
    if ejected := case.find_ejection():
        return ejected
    slot = report.status.slot
    if slot.state == reports.ENABLED:
        return case.judge_enabled(held=held)
    if report.is_unfit:
        return Judgement(NodeState.UNFIT, describe_fault(report))
    if slot.state == reports.DISABLED:
        return case.judge_disabled()
    if slot.state in reports.CHANGING:
        return Judgement(NodeState.ATTACHING, f"the kernel is {slot.state}")
    return Judgement(NodeState.UNKNOWN, f"its agent cannot read the slot: {slot.message or 'no reason given'}")


def find_doubt(report: NodeReport | None, *, agent_ready: bool, boot_id: str) -> str:
    """Why a report tells nothing of the present, or nothing."""
    if not agent_ready:
        return "no agent is ready on it"
    if report is None:
        return "its agent has not reported"
    if boot_id and report.status.kernel.boot_id and report.status.kernel.boot_id != boot_id:
        return "its report is from an earlier boot"
    return ""


def describe_fault(report: NodeReport) -> str:
    """What keeps every scheduler from running on a kernel."""
    for problem in report.status.kernel.problems:
        if problem.severity == reports.ERROR:
            return f"{problem.check}: {problem.message}" if problem.message else problem.check
    return "kernel.sched_ext: the kernel has no sched_ext" if report.is_unfit else ""


class _Case:
    """One fresh report beside one pod that is to stay."""

    def __init__(
        self, pod: Pod | None, report: NodeReport, learned: Collection[str], foreign: str, now: datetime
    ) -> None:
        self._pod = pod
        self._report = report
        self._learned = learned
        self._foreign = foreign
        self._now = now
        self._runs = _read_runs(pod)
        self._scheduler = short_scheduler_name(read_image(pod))

    def find_ejection(self) -> Judgement | None:
        """The end of an attachment of this pod's, if nobody asked for it and it is not over yet."""
        left, runs = self._report.status.last_detach, self._runs
        when = parse_time(left.time) if left else None
        if left is None or when is None or self._is_of_earlier_boot(left) or not self._may_be_ours(left, when):
            return None
        # What left before its container started was its predecessor, which the kernel detached moments ago; and in
        # that very second too, unless it has ended meanwhile.
        began = runs.ended_began
        if runs.is_crashing(self._now) and began and when >= began and _lies_in(when, began, runs.ended):
            until = runs.started + STEADY if runs.started else None
            return tell_ejection(self._report, left, LEFT, until)
        if runs.started and self._is_off() and when > runs.started:
            if self._now - when < SETTLE:  # some attach again by themselves
                return Judgement(NodeState.ATTACHING, "it left the kernel", until=when + SETTLE)
            return tell_ejection(self._report, left, f"{LEFT}, and still runs", None)
        return None

    def judge_enabled(self, *, held: bool) -> Judgement:
        """Something is attached: this pod's scheduler, or another."""
        slot, runs = self._report.status.slot, self._runs
        since = parse_time(slot.since)
        fits = self._fits(slot.ops)
        episode = _name_episode(self._report, slot.enable_seq, slot.ops)
        if runs.started is not None:
            began_after = since is None or since >= runs.started - SLACK
            # Times are cut to whole seconds: what attaches when the grace is over has this very time, or a later one.
            began_soon = since is not None and began_after and since < runs.started + GRACE
            # One that is known to attach by the name of its image does not attach by another.
            may_be_its_name = fits or not any(map(self._fits, self._learned))
            if (began_after and (fits or slot.ops in self._learned)) or (began_soon and may_be_its_name):
                learned = slot.ops if began_soon else ""
                return Judgement(NodeState.ATTACHED, "", slot.since, None, slot.ops, learned, episode=episode)
        if not runs.begun and not (held and self._pod and is_waiting(self._pod)):
            return Judgement(NodeState.ATTACHING, "its pod has not started")
        began_with_ended = _lies_in(since, runs.ended_began, runs.ended)
        if until := self._find_settling(since, began_with_ended):
            return Judgement(
                NodeState.ATTACHING, "its node has yet to say whose the attached scheduler is", until=until
            )
        if since is None and runs.started and self._now - runs.started >= SETTLE:
            # One that is refused because of another does not run for so long.
            told = f"{slot.ops} was attached before its agent looked, and may be this scheduler or another"
            return Judgement(NodeState.UNKNOWN, told, ops=slot.ops)
        when = f"since {slot.since}, " if slot.since else ""
        told = f"{slot.ops or 'another scheduler'} is attached, {when}and was not started by sked"
        unlearned = slot.ops if began_with_ended and not fits else ""
        until = runs.started + SETTLE if since is None and runs.started else None
        return Judgement(NodeState.FOREIGN, told, slot.since, until, slot.ops, "", unlearned, episode)

    def _find_settling(self, since: datetime | None, began_with_ended: bool) -> datetime | None:
        """Until when a kubelet and an agent may tell of different moments, so that nobody is accused too early."""
        runs = self._runs
        moments = [since] if since else []
        if runs.ended and (since is None or began_with_ended):
            moments.append(runs.ended)
        if runs.started and not runs.is_crashing(self._now):
            moments.append(runs.started)
        # A moment that is yet to come is told by a wrong clock, and would be waited for as long as that is wrong.
        untils = (moment + SETTLE for moment in moments if moment - self._now < SETTLE)
        until = max(untils, default=self._now)
        return until if until > self._now else None

    def judge_disabled(self) -> Judgement:
        """Nothing is attached: yet, or for too long."""
        runs, now = self._runs, self._now
        started = runs.started
        if runs.is_crashing(now):
            return self._suspect() or Judgement(NodeState.DETACHED, "it ended before it attached")
        if started is None:
            return Judgement(NodeState.ATTACHING, "its pod has not started")
        if now - started < GRACE:
            return Judgement(NodeState.ATTACHING, "it has just started", until=started + GRACE)
        since = f"{started:%Y-%m-%dT%H:%M:%SZ}"
        return Judgement(NodeState.DETACHED, f"its pod runs since {since}, and the kernel has attached nothing", since)

    def _suspect(self) -> Judgement | None:
        """What of the kernel has likely made a scheduler fail that was never attached."""
        left = self._report.status.last_detach
        when = parse_time(left.time) if left else None
        if left and when and self._may_be_ours(left, when):
            return None
        problem = next((found for found in self._report.status.kernel.problems if found.check in SUSPECTS), None)
        ended = self._runs.ended
        if problem is None or ended is None:
            return None
        if self._now - ended < SETTLE and self._runs.started is None:  # that it was attached may yet be told
            return Judgement(NodeState.DETACHED, "it ended before it attached", until=ended + SETTLE)
        return Judgement(NodeState.UNFIT, f"likely {problem.check}: {problem.message}")

    def _is_off(self) -> bool:
        return self._report.status.slot.state == reports.DISABLED

    def _fits(self, ops: str) -> bool:
        return is_same_scheduler(self._scheduler, ops)

    def _may_be_ours(self, left: ReportedDetachment, when: datetime) -> bool:
        """Whether what left was this pod's: by its name, or as it left when this pod's scheduler ended."""
        born = read_birth(self._pod)
        if born is None or when < born - SLACK:
            return False
        if left.ops and (self._fits(left.ops) or left.ops in self._learned):
            return True
        ended = self._runs.ended
        return ended is not None and abs(when - ended) <= SLACK and (not left.ops or left.ops != self._foreign)

    def _is_of_earlier_boot(self, left: ReportedDetachment) -> bool:
        attached = self._report.status.slot.enable_seq
        return attached is not None and left.enable_seq is not None and left.enable_seq > attached


def tell_ejection(
    report: NodeReport, left: ReportedDetachment, what: str = LEFT, until: datetime | None = None
) -> Judgement:
    """A scheduler that left the kernel though nobody asked for it."""
    # Without the time in the message, which is to be the same all through a crash loop.
    why = f", {left.reason}" if left.reason else ""
    return Judgement(
        NodeState.EJECTED,
        f"{what}{why}",
        left.time,
        until,
        ops=left.ops,
        episode=_name_episode(report, left.enable_seq, left.time),
    )


def _name_episode(report: NodeReport, enable_seq: int | None, more: str | None) -> str:
    return f"{report.status.kernel.boot_id}/{enable_seq}/{more}"


def read_image(pod: Pod | None) -> str:
    """The image that a pod was made with."""
    return pod.spec.containers[0].image if pod and pod.spec.containers else ""


def read_digest(pod: Pod | None) -> str:
    """The image that really runs, as its kubelet tells it."""
    status = _find_container(pod)
    return (status.image_id if status else "") or read_image(pod)


def read_birth(pod: Pod | None) -> datetime | None:
    """Since when a pod could have started its scheduler: it is there, and no longer waits for the slot."""
    if pod is None:
        return None
    done = (found for found in pod.status.conditions if found.type == INITIALIZED and found.status == "True")
    waited = next(done, None)
    return parse_time(waited.last_transition_time if waited else None) or parse_time(pod.metadata.creation_timestamp)


def read_start(pod: Pod | None) -> datetime | None:
    """Since when a pod's scheduler runs."""
    return _read_runs(pod).started


def parse_time(text: str | None) -> datetime | None:
    """A time as Kubernetes and agents write it; None where there is none, or whoever wrote it wrote no time."""
    try:
        found = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return found if found is None or found.tzinfo else None


def _find_container(pod: Pod | None) -> ContainerStatus | None:
    return next(iter(pod.status.container_statuses), None) if pod else None


def _read_runs(pod: Pod | None) -> _Runs:
    status = _find_container(pod)
    if pod is None or status is None:
        return _Runs()
    running, ended = status.state.running, status.state.ended or status.last_state.ended
    born = parse_time(pod.metadata.creation_timestamp)
    return _Runs(
        parse_time(running.started_at) or born if running else None,
        parse_time(ended.finished_at) or born if ended else None,
        parse_time(ended.started_at) or born if ended else None,
    )


def _lies_in(when: datetime | None, began: datetime | None, ended: datetime | None) -> bool:
    """Whether something happened in a life, or right after it."""
    return when is not None and began is not None and ended is not None and began - SLACK <= when <= ended + SETTLE
