"""A scheduler's output, as it comes."""

import sys
from collections.abc import Iterable

from schedkit.errors import ExitCode, SchedkitError, discard_output
from schedkit.runtimes.container import Container
from schedkit.runtimes.model import Runtime
from schedkit.schedctl.progress import Terminal
from schedkit.schedctl.session import Session


def write_logs(
    session: Session,
    runtime: Runtime,
    id: str,
    *,
    follow: bool = False,
    tail: int | None = None,
    since: float | None = None,
    timestamps: bool = False,
) -> None:
    """Print it as it is, byte for byte."""
    from schedkit.host.following import stream

    session.progress.close()
    pieces: Iterable[bytes] = (
        stream(runtime, id, session.progress, tail=tail, since=since, timestamps=timestamps)
        if follow
        else runtime.stream_logs(id, tail=tail, since=since, timestamps=timestamps)
    )
    for piece in pieces:
        _write(piece)


def follow_logs(
    session: Session, container: Container, ops: str | None, *, tail: int | None = None, lasting: bool = False
) -> int:
    """Until Ctrl-C, which stops the scheduler and is success; if it ends by itself, that is told as what it was.

    One that shall be `lasting` has failed when it ends, whatever its exit code.
    """
    from schedkit.host.following import follow

    session.progress.close()
    try:
        ended = follow(session.host, container, ops, lambda piece: _write_or_drop(session.progress, piece), tail=tail)
    except KeyboardInterrupt:
        return ExitCode.OK
    if ended is None:
        session.progress.step(f"{container.name} was stopped or replaced by another schedctl")
        return ExitCode.OK
    if ended.exit_code != 0 or lasting:
        code = "unknown" if ended.exit_code is None else ended.exit_code
        raise SchedkitError(f"{container.name} ended by itself, with exit code {code}")
    session.progress.step(f"{container.name} ended by itself")
    return ExitCode.OK


def _write_or_drop(progress: Terminal, piece: bytes) -> None:
    """Output that nobody can keep (a full disk) is no reason to leave a scheduler; a reader who left is one."""
    try:
        _write(piece)
    except BrokenPipeError:
        raise
    except OSError as error:
        progress.warn(
            f"the scheduler's output cannot be written ({error.strerror}) and is dropped from now on; it runs on"
        )
        discard_output(sys.stdout)


def _write(piece: bytes) -> None:
    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
