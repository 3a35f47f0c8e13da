"""Work in a process of its own, which ends with it: neither its memory nor its patience is the agent's."""

import json
import os
import signal
from collections.abc import Callable
from typing import Any, NamedTuple

from schedkit.errors import SchedkitError

_PART = 65536


class ChildFailure(NamedTuple):
    """Why there is no result, and how long to wait before it is tried again where somebody asked for that."""

    message: str
    retry_after: float = 0.0


class Child:
    """One piece of work. Its file descriptor is readable when something came; `take` says when it is all."""

    def __init__(self, work: Callable[[], object], seconds: int) -> None:
        reader, writer = os.pipe()
        try:
            self._pid = os.fork()
        except OSError:
            os.close(reader)
            os.close(writer)
            raise
        if self._pid == 0:
            _work(work, seconds, reader, writer)
        os.close(writer)
        self._reader = reader
        self._seconds = seconds
        self._parts: list[bytes] = []

    def fileno(self) -> int:
        """What to poll."""
        return self._reader

    def take(self) -> dict[str, Any] | ChildFailure | None:
        """Take what came: `{"value": …}` or a failure when it is all, None before."""
        part = os.read(self._reader, _PART)
        if part:
            self._parts.append(part)
            return None
        os.close(self._reader)
        _, status = os.waitpid(self._pid, 0)
        if os.WIFSIGNALED(status):
            ended = os.WTERMSIG(status)
            timed_out = ended == signal.SIGALRM
            return ChildFailure(f"no answer within {self._seconds} s" if timed_out else f"killed by signal {ended}")
        try:
            result = json.loads(b"".join(self._parts))
        except ValueError:
            return ChildFailure(f"ended with status {os.WEXITSTATUS(status)} and no result")
        if "error" in result:
            return ChildFailure(result["error"], result["retryAfter"])
        return {"value": result["value"]}


def _work(work: Callable[[], object], seconds: int, reader: int, writer: int) -> None:
    """Do it, send the result and end, whatever happens."""
    try:
        for number in (signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        signal.alarm(seconds)  # nothing that hangs outlives this
        os.close(reader)
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(json.dumps(_run(work)).encode())
    finally:
        os._exit(0)


def _run(work: Callable[[], object]) -> dict[str, object]:
    try:
        return {"value": work()}
    except SchedkitError as error:
        return {"error": error.message, "retryAfter": getattr(error, "retry_after", 0.0)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}", "retryAfter": 0.0}
