"""Processes: the result of a command that ends, and daemons that outlive the one who started them."""

import os
import select
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError, tail
from lab.waiting import wait_for

TERMINATE_SECONDS = 10.0


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    stdout: str
    stderr: str
    code: int


@dataclass(frozen=True)
class Daemon:
    """A process known by NAME.pid in a folder, so that any later process can find and end it; it writes NAME.log."""

    name: str
    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def _pid_file(self) -> Path:
        return self.folder / f"{self.name}.pid"

    def start(self, argv: Sequence[str | Path], env: Mapping[str, str] | None = None) -> None:
        """Start it detached, without a terminal or pipes, its log begun again."""
        if self.alive():
            raise LabError(f"{self.name} runs already (process {self.pid()})")
        words = [str(word) for word in argv]
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        files = [
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(self.log), flags, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        try:
            # Not subprocess: its objects want to be waited for, and warn when their process outlives them.
            pid = os.posix_spawnp(
                words[0],
                words,
                dict(os.environ if env is None else env),
                file_actions=files,
                setsid=True,
                setsigmask=(),
                setsigdef=(signal.SIGPIPE, signal.SIGINT),  # Python and shells make their children ignore these
            )
        except OSError as error:
            raise LabError(f"{self.name} does not start: {words[0]}: {error.strerror}") from error
        self._pid_file.write_text(f"{pid} {_read_state(pid)[1]}\n")

    def pid(self) -> int | None:
        """Its process id while it runs. A number that the kernel has given to another process since is not it."""
        try:
            pid, start_time = (int(word) for word in self._pid_file.read_text().split())
        except (OSError, ValueError):
            return None
        state, began = _read_state(pid)
        if began != start_time:
            return None
        if state in ("Z", "X"):
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)  # an ended child stays until its parent, if that is us, has asked
            return None
        return pid

    def alive(self) -> bool:
        """Whether it runs."""
        return self.pid() is not None

    def check(self) -> None:
        """Raise an error with the end of its log when it has ended without being stopped."""
        if self._pid_file.exists() and not self.alive():
            raise LabError(f"{self.name} has ended:\n{tail(self.log)}", hint=f"the whole log is {self.log}")

    def terminate(self) -> None:
        """Ask it to end, without waiting."""
        with self._handle() as handle:
            if handle is not None:
                signal.pidfd_send_signal(handle, signal.SIGTERM)

    def stop(self, timeout: float = TERMINATE_SECONDS) -> None:
        """End it and wait until it has: kindly first, by force after `timeout` seconds. Fine when it has ended."""
        self._end((signal.SIGTERM, timeout), (signal.SIGKILL, TERMINATE_SECONDS))

    def kill(self) -> None:
        """End it without giving it time for anything. Fine when it has ended."""
        self._end((signal.SIGKILL, TERMINATE_SECONDS))

    def hang(self) -> None:
        """Have it stand still until `go_on`."""
        self._signal(signal.SIGSTOP)
        threads = Path(f"/proc/{self.pid()}/task")
        # The call returns before all threads have taken notice.
        wait_for(f"{self.name} to stand still", lambda: _stand_still(threads), TERMINATE_SECONDS, interval=0.01)

    def go_on(self) -> None:
        """End a `hang`."""
        self._signal(signal.SIGCONT)

    def _end(self, *steps: tuple[signal.Signals, float]) -> None:
        """Send one signal after the other, each with seconds to end in, until it has."""
        with self._handle() as handle:
            for number, seconds in steps:
                if handle is not None and not _has_ended(handle, 0):
                    signal.pidfd_send_signal(handle, number)
                    _has_ended(handle, seconds)
        self.pid()  # takes the exit status of a child of the lab
        self._pid_file.unlink(missing_ok=True)

    def _signal(self, number: signal.Signals) -> None:
        with self._handle() as handle:
            if handle is None:
                raise LabError(f"{self.name} does not run")
            signal.pidfd_send_signal(handle, number)

    @contextmanager
    def _handle(self) -> Iterator[int | None]:
        """A descriptor that means this very process, whatever becomes of its number."""
        pid = self.pid()
        try:
            handle = os.pidfd_open(pid) if pid is not None else None
        except ProcessLookupError:
            handle = None
        if handle is None:
            yield None
            return
        try:
            yield handle if self.pid() == pid else None
        finally:
            os.close(handle)


def _has_ended(handle: int, timeout: float) -> bool:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(timeout * 1000))


def _stand_still(threads: Path) -> bool:
    return all((thread / "stat").read_text().rpartition(")")[2].split()[0] == "T" for thread in threads.iterdir())


def _read_state(pid: int) -> tuple[str, int]:
    """A process's state letter and when it began, in the kernel's ticks; ("", 0) when there is no such process."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "", 0
    return after_name[0], int(after_name[19])
