"""Start a container and see its scheduler into the kernel's slot, or learn why it did not get there."""

import os
import select
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from schedkit.errors import NoAnswerError, NotFoundError, SchedkitError
from schedkit.host.containers import read_last_lines
from schedkit.host.explain import FailureEvidence, explain
from schedkit.host.machine import Machine
from schedkit.host.managed import decide_attachment, read_slot
from schedkit.host.model import Attachment, RunResult
from schedkit.host.slot import name_ops
from schedkit.kernel.changes import Changes
from schedkit.kernel.holder import describe_holder
from schedkit.kernel.log import KernelLog
from schedkit.kernel.names import is_same_scheduler
from schedkit.kernel.state import KernelState, State, read_state
from schedkit.runtimes.container import Container, ContainerState
from schedkit.runtimes.model import Runtime
from schedkit.unknown import Unknown

STAY_SECONDS = 0.25  # errors late in enable eject a scheduler right after it attached
_EXIT_SECONDS = 10.0  # from a process's end until its runtime knows the exit code
_LOOK_AGAIN_SECONDS = 1.0  # though events tell
_LOOK_SOON_SECONDS = 0.05  # where no event will
_LOOK_CLOSELY_SECONDS = 0.01  # between the kernel saying enabled and counting it


class AttachAttempt:
    """One try; entered before the container starts, so that nothing the kernel says is missed."""

    def __init__(self, machine: Machine, runtime: Runtime, id: str, scheduler: str) -> None:
        self._machine = machine
        self._runtime = runtime
        self._id = id
        self._scheduler = scheduler
        self._stack = ExitStack()
        self._process: int | None = None
        self._before: int | None = None
        self._begun = 0.0
        self._since = 0.0  # the same moment, as logs tell time
        self._ops: str | None = None  # what the kernel called it, once it was seen attached
        self._silence: NoAnswerError | None = None
        self._stopwatch: _Stopwatch | None = None
        self.attached_at = 0.0  # monotonic, once wait has returned

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._log = stack.enter_context(KernelLog(self._machine.root))
            self._changes = stack.enter_context(Changes(self._machine.root))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def start(self) -> None:
        """Start the container; the time it takes to attach counts from here."""
        sequence = read_state(self._machine.root).enable_seq
        self._before = sequence if isinstance(sequence, int) else None
        self._log.forget()  # the scheduler that was there before may have been ejected
        self._since = time.time()
        # A runtime may answer later than its scheduler attaches: somebody else looks at the kernel meanwhile.
        self._stopwatch = self._stack.enter_context(_Stopwatch(self._machine, self._is_new))
        self._begun = time.monotonic()
        try:
            self._runtime.start(self._id)
        except NoAnswerError as error:
            self._silence = error  # it may have started all the same: the kernel will tell

    def wait(self, timeout: float) -> RunResult:
        """Until the kernel says that it is attached, and a moment longer; raises the reason if it is not."""
        container = self._runtime.fetch_container(self._id)
        self._watch_process(container)
        deadline = self._begun + timeout
        while True:
            kernel = read_state(self._machine.root)
            if self._is_new(kernel):
                self._ops = kernel.ops if isinstance(kernel.ops, str) else None
                self.attached_at = (
                    self._stopwatch.seen if self._stopwatch and self._stopwatch.seen else time.monotonic()
                )
                return self._see_it_stay(container, deadline)
            if self._has_ended():
                raise self._explain(kernel, ended=True)
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._silence or self._explain(kernel, ended=False)
            self._sleep(kernel, left)

    def _see_it_stay(self, container: Container, deadline: float) -> RunResult:
        until = time.monotonic() + STAY_SECONDS
        while True:
            kernel, holder = read_slot(self._machine.root)
            attachment, _ = decide_attachment(container, self._scheduler, kernel, holder)
            if isinstance(holder, Unknown) and self._has_counted(kernel) and self._is_named(kernel):
                attachment = Attachment.YES  # one attached since the start, by this name, and the slot was free before
            ended = self._has_ended()
            if ended or kernel.state is not State.ENABLED:
                raise self._explain(kernel, ended=ended or self._has_ended(patience=STAY_SECONDS))
            # On a loaded machine its process may take a while from the attach until it has the link among its files.
            doubtful = holder is None and attachment is not Attachment.YES
            left = (deadline if doubtful else until) - time.monotonic()
            if left <= 0:
                break
            self._sleep(kernel, min(left, _LOOK_SOON_SECONDS) if doubtful else left)
        if attachment is not Attachment.YES:
            raise self._explain(kernel, ended=False)
        ops = kernel.ops if isinstance(kernel.ops, str) else None
        return RunResult(self._runtime.fetch_container(self._id), ops, self.attached_at - self._begun)

    def _is_new(self, kernel: KernelState) -> bool:
        unknown = self._before is None or not isinstance(kernel.enable_seq, int)
        return kernel.state is State.ENABLED and (unknown or self._has_counted(kernel))

    def _is_named(self, kernel: KernelState) -> bool:
        return isinstance(kernel.ops, str) and is_same_scheduler(self._scheduler, kernel.ops)

    def _has_counted(self, kernel: KernelState) -> bool:
        """Whether the kernel has seen an attach since the start."""
        sequence = kernel.enable_seq
        return self._before is not None and isinstance(sequence, int) and sequence > self._before

    def _watch_process(self, container: Container) -> None:
        """Have its first process as a file that becomes readable when it ends, so that nobody has to ask for that."""
        if container.pid is None:
            return
        try:
            self._process = os.pidfd_open(container.pid)
        except OSError:  # it has ended, or its numbering is not ours: then the runtime is asked
            return
        self._stack.callback(os.close, self._process)

    def _has_ended(self, patience: float = 0.0) -> bool:
        if self._process is not None:
            return bool(select.select([self._process], [], [], patience)[0])
        # Created is what it is as long as its runtime has not come to start it.
        return self._runtime.fetch_container(self._id).state is ContainerState.EXITED

    def _sleep(self, kernel: KernelState, most: float) -> None:
        """Until the kernel or the process stirs."""
        events = self._changes.fileno()
        # The event of an attach comes a little before enable_seq grows, which has none.
        blind = events < 0 or self._process is None or kernel.state is not State.DISABLED
        files = [file for file in (events, self._process) if file is not None and file >= 0]
        seconds = max(0.0, min(most, _LOOK_SOON_SECONDS if blind else _LOOK_AGAIN_SECONDS))
        ready, _, _ = select.select(files, [], [], seconds)
        if events in ready:
            self._changes.wait(0)

    def _explain(self, kernel: KernelState, *, ended: bool) -> SchedkitError:
        from schedkit.kernel.preflight import examine_kernel

        exit_code: int | None = None
        if ended:
            try:
                exit_code = self._runtime.wait(self._id, _EXIT_SECONDS)
            except NotFoundError as error:
                return error
        occupant, doubt = "", ""
        now, holder = read_slot(self._machine.root)
        if self._is_new(now) and not ended:
            attachment, why = decide_attachment(self._runtime.fetch_container(self._id), self._scheduler, now, holder)
            occupant = f"{name_ops(now)} is attached, {describe_holder(holder)}" if attachment is Attachment.NO else ""
            doubt = why if attachment is Attachment.UNKNOWN else ""
        elif now.state is State.ENABLED:
            occupant = f"{name_ops(now)} is attached, {describe_holder(holder)}"
        lines = self._log.read_lines()
        return explain(
            FailureEvidence(
                scheduler=self._scheduler,
                log=read_last_lines(self._runtime, self._id, since=self._since),
                ended=ended,
                exit_code=exit_code,
                seconds=time.monotonic() - self._begun,
                ejection=self._log.read_ejection(),
                kernel=kernel,
                kernel_lines=() if isinstance(lines, Unknown) else tuple(lines),
                occupant=occupant,
                doubt=doubt,
                came=self._has_counted(now),
                ops=self._ops,
                checks=tuple(examine_kernel(self._machine.root)) if ended else (),
            )
        )


class _Stopwatch:
    """Notes, in a thread of its own, when the kernel was first seen in a state; it only looks."""

    def __init__(self, machine: Machine, is_it: Callable[[KernelState], bool]) -> None:
        self.seen: float | None = None  # monotonic
        self._machine = machine
        self._is_it = is_it
        self._enough = False
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._enough = True  # it notices when it next looks; nobody has to wait for that

    def _look(self) -> None:
        with Changes(self._machine.root) as changes:
            while not self._enough:
                kernel = changes.wait_until(lambda now: now.state is State.ENABLED, _LOOK_AGAIN_SECONDS)
                if self._is_it(kernel):
                    self.seen = time.monotonic()
                    return
                if kernel.state is State.ENABLED:
                    time.sleep(_LOOK_CLOSELY_SECONDS)
