"""Run a command under one scheduler after another, with the kernel's word for it before and after each run."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from schedkit.errors import SchedkitError
from schedkit.host import containers
from schedkit.host.attaching import AttachAttempt
from schedkit.host.errors import CommandFailedError, NoMetricError, NotAttachedError, SchedulerError, SlotTakenError
from schedkit.host.lock import hold_lock
from schedkit.host.model import Host, Managed, Observed, RunRequest, Verify
from schedkit.host.preparing import check_image, check_runtimes, observe_settled, pull
from schedkit.host.slot import check_free, find_attached
from schedkit.host.stop import STOP_SECONDS, wait_detached
from schedkit.kernel.changes import Changes
from schedkit.kernel.log import Ejection, KernelLog
from schedkit.kernel.state import KernelState, State, read_state
from schedkit.measure.model import BenchRun, Contender, RunEnding
from schedkit.measure.plan import PlannedRun
from schedkit.measure.sampling import Taken, Work, run_once
from schedkit.runtimes.container import ContainerState
from schedkit.runtimes.model import Runtime
from schedkit.unknown import Unknown

NONE = "none"  # the kernel's own scheduler
_BACK_SECONDS = 30.0  # what the scheduler that was there before gets at least to attach again


class Entrant(NamedTuple):
    """A scheduler whose image is verified and here; without a request, the kernel's own."""

    contender: Contender
    request: RunRequest | None = None


class Benched(NamedTuple):
    """What was measured, also when it could not go on, or when what was there before did not come back."""

    contenders: tuple[Contender, ...]
    runs: tuple[BenchRun, ...]
    interrupted: bool = False
    trouble: SchedkitError | None = None


# Told of each run when it is over.
Notice = Callable[[BenchRun, int], None]


def check_bench(host: Host) -> None:
    """What can be known before the network is asked: whether what is attached may make room, and a runtime there."""
    find_lender(observe_settled(host))
    check_runtimes(host)


def prepare(host: Host, labels: Sequence[str], requests: Sequence[RunRequest | None], verify: Verify) -> list[Entrant]:
    """Verify and pull all images, as `run` and `switch` do; nothing is changed in the kernel yet."""
    entrants: list[Entrant] = []
    for label, request in zip(labels, requests, strict=True):
        if request is None:
            entrants.append(Entrant(Contender(label)))
            continue
        check_image(host, request)
        verified = verify(request.image)
        pull(host, request)
        image = request.image
        contender = Contender(
            label,
            request.scheduler,
            image.reference,
            image.digest,
            image.manifest.digest,
            request.args,
            verified,
        )
        entrants.append(Entrant(contender, request))
    return entrants


def bench(
    host: Host,
    entrants: Sequence[Entrant],
    plan: Sequence[PlannedRun],
    work: Work,
    *,
    settle: float,
    notice: Notice,
) -> Benched:
    """Make all runs of the plan; afterwards, and when interrupted, the slot is as it was before.

    The lock is held throughout: no other schedctl changes the slot meanwhile.
    """
    with hold_lock(host.machine.lock):
        lender = find_lender(observe_settled(host))
        course = _Course(host, entrants, work, settle)
        trouble: SchedkitError | None = None
        failure: SchedkitError | None = None
        interrupted = False
        try:
            course.enter()
            if lender:
                course.borrow(lender)
            for planned in plan:
                notice(course.run(planned), len(plan))
        except KeyboardInterrupt:
            interrupted = True
        except SchedkitError as error:
            failure = error
        finally:
            with _undisturbed():
                trouble = _restore(host, course, lender)
        if trouble and failure:
            host.progress.warn(failure.message)
        if failure and not any(run.counts for run in course.runs):
            raise trouble or failure  # else what was measured so far is told first
        return Benched(course.contenders, tuple(course.runs), interrupted, trouble or failure)


def find_lender(observed: Observed) -> Managed | None:
    """Who has the slot and gets it back; an error for what cannot be put back: a scheduler that others started."""
    attached = find_attached(observed)
    if attached and observed.running == (attached,):
        return attached
    try:
        check_free(observed, NONE)
    except SlotTakenError as error:
        if not observed.running:
            raise
        names = " ".join(one.container.name for one in observed.running if one is not attached)
        raise SlotTakenError(error.message, hint=f"`schedctl stop {names}` ends it") from error
    return None


class _Course:
    """All runs: the schedulers' containers, which of them is attached, and what became of the runs."""

    def __init__(self, host: Host, entrants: Sequence[Entrant], work: Work, settle: float) -> None:
        self._host = host
        self._entrants = list(entrants)
        self._work = work
        self._settle = settle
        self._ids: dict[int, str] = {}
        self._attached: int | None = None
        self._worked = False  # the command, at least once
        self._stack = ExitStack()
        self._log = KernelLog(host.machine.root)
        self._expected = KernelState(Unknown("not read yet"))
        self.borrowed = False
        self.runs: list[BenchRun] = []

    @property
    def contenders(self) -> tuple[Contender, ...]:
        return tuple(one.contender for one in self._entrants)

    @property
    def patience(self) -> float:
        """How long the user lets any scheduler take to attach."""
        return max((one.request.timeout for one in self._entrants if one.request), default=0.0)

    def enter(self) -> None:
        """Create all containers; none is started."""
        self._stack.enter_context(self._log)
        runtime = self._host.runtimes.chosen
        for number, entrant in enumerate(self._entrants):
            if entrant.request is None:
                continue
            request = entrant.request._replace(name=f"bench-{number + 1}-{entrant.request.scheduler}")
            name = containers.choose_name(runtime, request, self._host.progress)
            spec = containers.make_spec(self._host.machine, request, name, entrant.contender.verified or "")
            self._ids[number] = containers.create(runtime, request, spec, self._host.progress)

    def leave(self) -> None:
        """Remove all containers, and see the kernel without them."""
        runtime = self._host.runtimes.chosen
        attached = read_state(self._host.machine.root)
        with Changes(self._host.machine.root) as changes:
            for id in self._ids.values():
                containers.discard(runtime, id, self._host.progress)
            if self._attached is not None and attached.state is not State.DISABLED:
                wait_detached(self._host.machine, changes, attached)
        self._stack.close()

    def run(self, planned: PlannedRun) -> BenchRun:
        """One run, whatever comes of it; an error where going on makes no sense."""
        number, started = len(self.runs) + 1, self._host.machine.now()
        taken = self._take(planned.contender)
        self.runs.append(
            BenchRun(
                number,
                planned.block,
                planned.contender,
                taken.ending,
                started,
                taken.values,
                taken.why,
                taken.exit_code,
                taken.wakeups,
            )
        )
        return self.runs[-1]

    def _take(self, contender: int) -> Taken:
        self._clear()
        try:
            self._bring(contender)
        except SchedulerError as error:
            if self._entrants[contender].contender.ops is None:  # it never attached: nor will it
                raise
            return Taken(RunEnding.NOT_ATTACHED, {}, error.message)
        time.sleep(self._settle)
        if lost := self._confirm(contender):
            return lost
        taken = run_once(self._work)
        if lost := self._confirm(contender):
            return lost._replace(values=taken.values, exit_code=taken.exit_code, wakeups=taken.wakeups)
        self._check_first(taken)
        return taken

    def _check_first(self, taken: Taken) -> None:
        """A command that fails at its very first try, with the scheduler in place, is likely wrong itself."""
        if not self._worked and taken.ending is RunEnding.FAILED:
            raise CommandFailedError(
                f"{taken.why} in the first run already",
                hint=f"try it alone: {' '.join(self._work.command)[:200]}",
                log=taken.lines,
            )
        if not self._worked and taken.ending is RunEnding.NO_METRIC:
            raise NoMetricError(taken.why, hint="the last lines of the output are shown above", log=taken.lines)
        self._worked = True

    def borrow(self, lender: Managed) -> None:
        """Take the slot from the scheduler that has it; its container stays, to be started again."""
        self.borrowed = True
        self.end(self._host.runtimes.find(lender.container), lender.container.id, lender.container.name)

    def _clear(self) -> None:
        """Nothing in the slot: each scheduler is newly attached for each run, so that all its runs begin alike."""
        if self._attached is not None:
            before = self._attached
            self.end(self._host.runtimes.chosen, self._ids[before], self._entrants[before].contender.label)
            self._attached = None

    def _bring(self, contender: int) -> None:
        machine, runtime = self._host.machine, self._host.runtimes.chosen
        entrant = self._entrants[contender]
        ops: str | None = None
        if entrant.request is not None:
            id = self._ids[contender]
            self._attached = contender
            self._log.forget()
            with AttachAttempt(machine, runtime, id, entrant.request.scheduler) as attempt:
                attempt.start()
                ops = attempt.wait(entrant.request.timeout).ops
            self._note(contender, ops)
        # One that is ejected right now was attached all the same: what is there after the run is compared with that.
        now = read_state(machine.root)
        self._expected = now._replace(ops=ops) if ops else now

    def _note(self, contender: int, ops: str | None) -> None:
        entrant = self._entrants[contender]
        if entrant.contender.ops is None:
            self._entrants[contender] = entrant._replace(contender=entrant.contender._replace(ops=ops or ""))
            if read_state(self._host.machine.root).switch_all is False:
                self._host.progress.warn(
                    f"{entrant.contender.label} schedules only tasks that ask for it (SCHED_EXT):"
                    " the command is not one of them, unless it asks itself"
                )

    def end(self, runtime: Runtime, id: str, name: str) -> None:
        """Stop a scheduler and see the kernel without it; its container stays."""
        attached = read_state(self._host.machine.root)
        with Changes(self._host.machine.root) as changes:
            ended = containers.end(runtime, id, STOP_SECONDS)
            if ended.killed:
                self._host.progress.warn(f"{name} ignored SIGTERM for {STOP_SECONDS:.0f} s and was killed")
            if attached.state is not State.DISABLED:
                wait_detached(self._host.machine, changes, attached)

    def _confirm(self, contender: int) -> Taken | None:
        """None if the slot is as it was; else what a run that this happened to is."""
        now = read_state(self._host.machine.root)
        if self._entrants[contender].request is None:
            return confirm_free(self._expected, now)
        return confirm_attached(self._expected, now, self._log.read_ejection())


def confirm_free(expected: KernelState, now: KernelState) -> Taken | None:
    """Whether the kernel ran its own scheduler all the time."""
    if isinstance(now.state, Unknown):
        return Taken(RunEnding.UNKNOWN, {}, now.state.why)
    if now.state is not State.DISABLED or now.enable_seq != expected.enable_seq:
        who = now.ops if isinstance(now.ops, str) else "another scheduler"
        return Taken(RunEnding.DISTURBED, {}, f"{who} was attached meanwhile")
    return None


def confirm_attached(expected: KernelState, now: KernelState, ejection: Ejection | Unknown | None) -> Taken | None:
    """Whether the same attachment is there still."""
    for value in (now.state, now.ops, now.enable_seq):
        if isinstance(value, Unknown):
            return Taken(RunEnding.UNKNOWN, {}, value.why)
    if now.state is State.ENABLED and (now.ops, now.enable_seq) == (expected.ops, expected.enable_seq):
        return None
    if isinstance(ejection, Ejection) and ejection.ops == expected.ops and ejection.is_fault:
        return Taken(RunEnding.EJECTED, {}, "; ".join([ejection.reason, *ejection.details[:1]]))
    if now.state is State.ENABLED:
        return Taken(RunEnding.DISTURBED, {}, f"{now.ops} was attached meanwhile")
    why = ejection.reason if isinstance(ejection, Ejection) and ejection.ops == expected.ops else "why is not known"
    return Taken(RunEnding.DETACHED, {}, f"the kernel says {now.state}; {why}")


def _restore(host: Host, course: _Course, lender: Managed | None) -> SchedkitError | None:
    """Everything as it was; what cannot be is returned, so that the numbers are not lost for it."""
    try:
        host.progress.step("removing the containers of the bench")
        course.leave()
        if lender is None or not course.borrowed:
            return None
        container, runtime = lender.container, host.runtimes.find(lender.container)
        host.progress.step(f"starting {container.name} again")
        if runtime.fetch_container(container.id).state is not ContainerState.EXITED:
            course.end(runtime, container.id, container.name)  # it may be just leaving
        with AttachAttempt(host.machine, runtime, container.id, lender.scheduler) as attempt:
            attempt.start()
            attempt.wait(max(_BACK_SECONDS, course.patience))
    except SchedkitError as error:
        what = f"{lender.container.name} did not come back" if lender else "the slot was not cleared"
        return NotAttachedError(
            f"{what}: {error.message}", hint="`schedctl status` shows what is attached now and what to do"
        )
    return None


@contextmanager
def _undisturbed() -> Iterator[None]:
    """While the block runs, Ctrl-C and SIGTERM wait: everything in it ends by itself."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
