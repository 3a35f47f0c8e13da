"""Restart a scheduler that fails, with growing pauses: one small process beside each container that wants it."""

import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

from schedkit.errors import NoAnswerError, NotFoundError, SchedkitError, UnavailableError
from schedkit.host.attaching import AttachAttempt
from schedkit.host.containers import kill, read_last_lines
from schedkit.host.errors import SlotTakenError
from schedkit.host.explain import explain_end
from schedkit.host.lock import hold_lock
from schedkit.host.managed import name_scheduler, observe, supervisor_lock
from schedkit.host.model import Machine, Restart, parse_restart
from schedkit.host.slot import check_free
from schedkit.runtimes.container import Container, ContainerState
from schedkit.runtimes.labels import Label
from schedkit.runtimes.model import Runtime
from schedkit.runtimes.view import Runtimes

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
STEADY_SECONDS = 60.0  # one that ran so long has recovered: pauses and count begin anew
ATTACH_SECONDS = 60.0
_WAIT_SECONDS = 3600.0
_LOCK_SECONDS = 600.0  # another schedctl may be at work for that long
_STARTING_SECONDS = 1.0  # who looks whether a supervisor lives holds its lock for a moment

_Answer = TypeVar("_Answer")

Note = Callable[[str], None]  # a line of the supervisor's own log


def spawn_supervisor(command: Sequence[str], log: Path) -> int:
    """Start the supervisor as a process of its own that outlives us and our terminal, and return its pid."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        child = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            start_new_session=True,
        )
    child.returncode = 0  # nobody waits for it: init does once we are gone
    return child.pid


def supervisor_log(machine: Machine, id: str) -> Path:
    """Where the supervisor of a container says what it does."""
    return machine.lock.parent / f"supervise-{id}.log"


def supervise(
    machine: Machine,
    runtime: Runtime,
    id: str,
    note: Note,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Watch over one container until it is removed, ends in peace, or need not or cannot be started again."""
    lock = supervisor_lock(machine, id)
    with hold_lock(lock, patience=_STARTING_SECONDS, command=f"supervise {id}"):
        try:
            _Supervisor(machine, runtime, id, note, sleep, clock).watch()
        except NotFoundError:
            # Its files go with it; nobody else will ever lock by this id.
            supervisor_log(machine, id).unlink(missing_ok=True)
            lock.unlink(missing_ok=True)


def _began(container: Container) -> float | None:
    return container.started.timestamp() if container.started else None


class _Supervisor:
    def __init__(
        self,
        machine: Machine,
        runtime: Runtime,
        id: str,
        note: Note,
        sleep: Callable[[float], None],
        clock: Callable[[], float],
    ) -> None:
        self._machine = machine
        self._runtime = runtime
        self._id = id
        self._note = note
        self._sleep = sleep
        self._clock = clock
        self._restarts = 0
        self._pause = FIRST_PAUSE

    def watch(self) -> None:
        """Raises NotFoundError when the container is gone."""
        container = self._ask(self._runtime.fetch_container)
        policy = parse_restart(container.labels.get(Label.RESTART, "no"))
        if not policy.on_failure:
            return
        self._note(f"watching over {container.name}, restart {policy}")
        while True:
            begun = self._clock()
            while self._ask(lambda id: self._runtime.wait(id, _WAIT_SECONDS)) is None:
                pass
            if self._clock() - begun >= STEADY_SECONDS:
                self._restarts, self._pause = 0, FIRST_PAUSE
            # Looked at under the lock: who stops or switches holds it until the container is gone or runs again.
            with self._lock():
                now = self._ask(self._runtime.fetch_container)
            if now.state is not ContainerState.EXITED:
                continue
            if now.exit_code == 0:
                self._note(f"{container.name} ended with exit code 0: it stays so")
                return
            if not self._try_again(now, policy):
                return

    def _try_again(self, container: Container, policy: Restart) -> bool:
        """Pause and restart; whether to go on watching."""
        if policy.times is not None and self._restarts >= policy.times:
            self._note(f"{container.name} failed again after {self._restarts} restarts: giving up")
            return False
        why = explain_end(
            container.name, read_last_lines(self._runtime, self._id, since=_began(container)), container.exit_code
        )
        self._note(f"{why.message}; starting it again in {self._pause:.0f} s")
        self._sleep(self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        self._restarts += 1
        with self._lock():
            if self._ask(self._runtime.fetch_container) != container:
                return True  # somebody started it meanwhile: how that went is looked at anew
            try:
                self._note(self._restart(name_scheduler(container), container.name))
            except SlotTakenError as error:
                self._note(f"giving up on {container.name}: {error.message}")
                return False
        return True

    def _restart(self, scheduler: str, name: str) -> str:
        """Start it and tell what happened; one that does not attach is ended, which is a failure like others."""
        check_free(observe(self._machine, Runtimes([self._runtime])), scheduler)
        try:
            with AttachAttempt(self._machine, self._runtime, self._id, scheduler) as attempt:
                attempt.start()
                attached = attempt.wait(ATTACH_SECONDS)
        except NotFoundError:
            raise
        except SchedkitError as error:
            if self._ask(self._runtime.fetch_container).state is not ContainerState.EXITED:
                kill(self._runtime, self._id)
            if isinstance(error, SlotTakenError):
                raise
            return f"{name} did not attach: {error.message}"
        return f"{name} is attached again, after {attached.seconds:.1f} s"

    def _lock(self) -> AbstractContextManager[None]:
        return hold_lock(self._machine.lock, patience=_LOCK_SECONDS, command=f"supervise {self._id}")

    def _ask(self, question: Callable[[str], _Answer]) -> _Answer:
        """Ask the runtime, again and again while it is away: it may be restarted under us."""
        pause = FIRST_PAUSE
        while True:
            try:
                return question(self._id)
            except (UnavailableError, NoAnswerError) as error:
                self._note(f"{self._runtime.driver} does not answer: {error.message}")
            self._sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
