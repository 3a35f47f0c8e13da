"""Builds side by side: two at a time, needs first. An error or Ctrl-C ends all of them, with their processes."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Protocol, Self, TypeVar

# Not one, as each downloads, links or packs for a while; not more, as each uses all processors at other times.
AT_A_TIME = 2


class StoppedError(BaseException):
    """Another build failed or was interrupted, so this one ends too. Nobody but the builder is to catch it."""


class Commands:
    """The commands of all builds under way. They end with this process, and all at once by `stop`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def run(self, argv: Sequence[str | Path], log: BinaryIO, env: Mapping[str, str] | None = None) -> int:
        """Run a command in a process group of its own and return its exit status."""
        with self._lock:
            if self._stopped:
                raise StoppedError
            process = subprocess.Popen(
                # When this process is killed, the store's lock is free at once: nothing of it may go on writing.
                ["setpriv", "--pdeathsig", "KILL", *(str(word) for word in argv)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=env,
                start_new_session=True,
            )
            self._running.add(process)
        try:
            code = process.wait()
        except BaseException:
            _end_group(process)
            raise
        finally:
            with self._lock:
                self._running.discard(process)
        self.check()
        return code

    def check(self) -> None:
        """Raise StoppedError if builds are to end; for builds that wait for something other than a command."""
        if self._stopped:
            raise StoppedError

    def stop(self) -> None:
        """End all commands and let no further one begin."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                _end_group(process)


class Buildable(Protocol):
    """What is built, and when it can be."""

    @property
    def needs(self) -> Collection[Self]:
        """What must be built before."""

    @property
    def lane(self) -> str:
        """Of those with the same lane, one is built at a time; those with none do not mind each other."""


Thing = TypeVar("Thing", bound=Buildable)


def build_all(plan: Sequence[Thing], build: Callable[[Thing], None], commands: Commands) -> None:
    """Build each of a plan once all it needs of that plan is built, the earlier ones of the plan first."""
    waiting = list(plan)
    running: dict[Future[None], Thing] = {}

    def can_begin(one: Thing) -> bool:
        unfinished = [*waiting, *running.values()]
        is_free = not one.lane or all(other.lane != one.lane for other in running.values())
        return is_free and not any(need in unfinished for need in one.needs)

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        try:
            while waiting or running:
                for one in plan:
                    if len(running) < AT_A_TIME and one in waiting and can_begin(one):
                        waiting.remove(one)
                        running[pool.submit(build, one)] = one
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    del running[future]
                    future.result()
        except BaseException:
            commands.stop()
            raise


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):  # all of it has ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
