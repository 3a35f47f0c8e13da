"""One run of a command: what it took, what it printed, and how late timers were meanwhile."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from schedkit.errors import NotFoundError, SchedkitError
from schedkit.measure.metric import Metric, find_number
from schedkit.measure.model import METRIC, RunEnding

_FOLDER = Path(__file__).parent
_ALONE = (sys.executable, "-I", "-S")  # our small programs need none of our packages, and start quickly without
_MOST_OUTPUT = 64 << 20  # of what it printed, the end is looked at
_LAST_LINES = 20
_LEAVE_SECONDS = 5.0  # what an interrupted command gets to end by itself


class RunAs(NamedTuple):
    """Whom the command runs as."""

    name: str
    uid: int
    gid: int
    home: str


class Work(NamedTuple):
    """What is run and measured."""

    command: tuple[str, ...]
    path: str  # of the program
    environ: Mapping[str, str]
    user: RunAs | None = None  # None: as schedctl itself
    metric: Metric | None = None
    latency: bool = False


class Taken(NamedTuple):
    """What one run took, or why there is no number."""

    ending: RunEnding
    values: Mapping[str, float]
    why: str = ""
    exit_code: int | None = None
    wakeups: int | None = None
    lines: tuple[str, ...] = ()  # the last of what it printed, where it failed


def find_work(
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    user: str | None = None,
    metric: Metric | None = None,
    latency: bool = False,
) -> Work:
    """Look for the program before anything is changed for it."""
    as_whom = _find_user(user) if user else None
    if as_whom:
        environ = {**environ, "HOME": as_whom.home, "USER": as_whom.name, "LOGNAME": as_whom.name}
    path = shutil.which(command[0], path=environ.get("PATH", os.defpath))
    if path is None:
        raise NotFoundError(
            f"no such program: {command[0]}",
            hint="what follows -- is a program and its arguments; for a shell's line: -- sh -c '…'",
        )
    return Work(tuple(command), path, environ, as_whom, metric, latency)


def run_once(work: Work) -> Taken:
    """Run it to its end; interrupted, it and all its children of the same group are ended."""
    with tempfile.TemporaryFile() as output:  # a file, and not a pipe: nobody has to run to empty it meanwhile
        with _probing(work) as wakeups:
            answer = _start(work, output)
        lines = _read_end(output).splitlines()
        said = "\n".join(lines)
    values = {**answer["values"], **wakeups.get("values", {})}
    taken = Taken(RunEnding.MEASURED, values, exit_code=answer["exit_code"], wakeups=wakeups.get("wakeups"))
    if answer["failure"]:
        raise SchedkitError(f"{work.path} could not be started: {answer['failure']}", hint="is it a program?")
    if taken.exit_code:
        last = tuple(line for line in lines if line.strip())[-_LAST_LINES:]
        return taken._replace(ending=RunEnding.FAILED, why=_describe_exit(taken.exit_code), lines=last)
    if work.metric:
        number = find_number(work.metric, said)
        if isinstance(number, str):
            return taken._replace(ending=RunEnding.NO_METRIC, why=number, lines=tuple(lines[-_LAST_LINES:]))
        taken = taken._replace(values={**values, METRIC: number})
    return taken


def _find_user(name: str) -> RunAs:
    try:
        entry = pwd.getpwnam(name)
    except KeyError as error:
        raise NotFoundError(f"no such user: {name}", hint="--user takes the name of a user of this machine") from error
    return RunAs(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir)


def _start(work: Work, output: IO[bytes]) -> Any:
    user = [work.user.name, work.user.uid, work.user.gid] if work.user else None
    order = {"path": work.path, "command": work.command, "output": output.fileno(), "user": user}
    process = subprocess.Popen(
        [*_ALONE, str(_FOLDER / "starter.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(work.environ),
        pass_fds=[output.fileno()],
        process_group=0,  # Ctrl-C comes to us alone, and we end all of them
    )
    try:
        said, _ = process.communicate(json.dumps(order).encode())
    except BaseException:
        _end_group(process)
        raise
    try:
        return json.loads(said)
    except ValueError as error:
        raise SchedkitError(
            f"the process that starts the command ended with exit code {process.returncode} and no result"
        ) from error


@contextmanager
def _probing(work: Work) -> Iterator[dict[str, Any]]:
    """Measure wake-ups while the block runs; what was seen is in the answer afterwards."""
    answer: dict[str, Any] = {}
    if not work.latency:
        yield answer
        return
    process = subprocess.Popen(
        [*_ALONE, str(_FOLDER / "probe.py")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    with process:
        try:
            if process.stdout is None or process.stdout.readline() != "ready\n":
                raise SchedkitError("the wake-up probe did not start")
            yield answer
            process.terminate()
            answer.update(json.loads(process.stdout.read()))
        finally:
            process.kill()


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    """SIGTERM to all, and SIGKILL to those that stay."""
    deadline = time.monotonic() + _LEAVE_SECONDS
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        while time.monotonic() < deadline:
            process.poll()
            os.killpg(process.pid, 0)
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdin, process.stdout):
        if stream:
            with suppress(OSError):
                stream.close()
    process.wait()


def _read_end(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _MOST_OUTPUT))
    return output.read().decode(errors="replace")


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"the command ended with exit code {code}"
    try:
        return f"the command was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"the command was ended by signal {-code}"
