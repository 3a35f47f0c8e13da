"""Stay with a scheduler that runs: its output as it comes, until it ends, is replaced, or its runtime loses it."""

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from schedkit.errors import NoAnswerError, NotFoundError, UnavailableError
from schedkit.host import containers
from schedkit.host.errors import EjectedError
from schedkit.host.lock import hold_lock
from schedkit.host.model import Host, ProgressReporter
from schedkit.host.stop import STOP_SECONDS, stop
from schedkit.host.trial_state import is_kept
from schedkit.kernel.log import Ejection, KernelLog
from schedkit.runtimes.container import NOT_RUNNING, Container
from schedkit.runtimes.model import Runtime

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_REPLACING_SECONDS = 86400.0  # a bench may take that long; who dies meanwhile gives the lock back

_AWAY = (UnavailableError, NoAnswerError)


def stream(
    runtime: Runtime,
    id: str,
    progress: ProgressReporter,
    *,
    tail: int | None = None,
    since: float | None = None,
    timestamps: bool = False,
    sleep: Callable[[float], None] = time.sleep,
    seen: Callable[[Container], None] = lambda _: None,
) -> Iterator[bytes]:
    """Its output until it has ended. A runtime that goes away is waited for: its containers may outlive it.

    `seen` is told what the container is each time it is looked at: it may have ended and run again.
    """
    away, pause = False, _FIRST_PAUSE

    def has_ended() -> bool:
        now = runtime.fetch_container(id)
        seen(now)
        return now.state in NOT_RUNNING

    while True:
        try:
            if away and has_ended():
                return
            if away:
                progress.step(f"{runtime.driver} responds again")
            away, pause = False, _FIRST_PAUSE
            for piece in runtime.stream_logs(id, follow=True, tail=tail, since=since, timestamps=timestamps):
                since, tail = time.time(), None
                yield piece
            if has_ended():
                return
        except _AWAY as error:
            if not away:
                progress.warn(f"{error.message}; the scheduler keeps running, and {runtime.driver} is waited for")
            away = True
        sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def follow(
    host: Host,
    container: Container,
    ops: str | None,
    write: Callable[[bytes], None],
    *,
    tail: int | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Container | None:
    """Write its output until it ends by itself; then it is removed, and returned as it ended.

    None if another schedctl stopped or replaced it, whose business its container is, also where that keeps it for the
    way back from a trial. Ctrl-C, or a reader of the output
    who leaves, stops it. Raises EjectedError if the kernel ejected it.
    """
    runtime = host.runtimes.find(container)
    process = _Process(container)
    try:
        with KernelLog(host.machine.root) as log:
            while True:
                try:
                    for piece in stream(
                        runtime, container.id, host.progress, tail=tail, sleep=sleep, seen=process.renew
                    ):
                        write(piece)
                    now = _remove_ended(host, runtime, container.id)
                    if now is None:
                        return None
                    process.renew(now)
                except _AWAY:
                    continue
                except NotFoundError:
                    return None
                if now.state in NOT_RUNNING:
                    break
                tail = 0  # it runs again: who replaced it has brought it back
            _check_ejection(log, ops)
            return now
    except (KeyboardInterrupt, BrokenPipeError):
        _stop(host, container, process)
        raise
    finally:
        process.close()


def _remove_ended(host: Host, runtime: Runtime, id: str) -> Container | None:
    """Remove it, unless it runs again. Whoever stops or replaces it holds the lock until that is done.

    None where a trial keeps it.
    """
    with hold_lock(host.machine.lock, patience=_REPLACING_SECONDS):
        now = runtime.fetch_container(id)
        if now.state in NOT_RUNNING and is_kept(host.machine, id):
            return None
        if now.state in NOT_RUNNING:
            containers.discard(runtime, id, host.progress)
        return now


def _check_ejection(log: KernelLog, ops: str | None) -> None:
    ejection = log.read_ejection()
    if isinstance(ejection, Ejection) and ejection.is_fault and ejection.ops == ops:
        raise EjectedError(ejection.sentence)


class _Process:
    """A container's first process, to be reached also when its runtime is not; a handle, as numbers are used again."""

    def __init__(self, container: Container) -> None:
        self._pid: int | None = None
        self._handle: int | None = None
        self.renew(container)

    def renew(self, container: Container) -> None:
        """Take the process that the container has now: one that was brought back has another."""
        if container.pid and (container.pid != self._pid or self.has_ended):
            self.close()
            with suppress(OSError):
                self._pid, self._handle = container.pid, os.pidfd_open(container.pid)

    @property
    def has_ended(self) -> bool:
        """Also where there is no handle."""
        return self._handle is None or _is_over(self._handle, 0)

    def end(self) -> None:
        """SIGTERM, and SIGKILL if that does not do."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._handle is None:
                return
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)
            if _is_over(self._handle, STOP_SECONDS):
                return

    def close(self) -> None:
        """Give the handle back."""
        if self._handle is not None:
            os.close(self._handle)
        self._pid = self._handle = None


def _is_over(handle: int, seconds: float) -> bool:
    return bool(select.select([handle], [], [], seconds)[0])


def _stop(host: Host, container: Container, process: _Process) -> None:
    try:
        stop(host, container.id)
    except NotFoundError:
        return
    except _AWAY as error:
        # One that has ended already may not be its last: it may have been started again meanwhile.
        if process.has_ended:
            raise
        host.progress.warn(f"{error.message}; its process is ended without its runtime")
        process.end()
