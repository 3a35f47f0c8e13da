"""A scheduler's output, as it comes."""

import sys

from schedkit.errors import ExitCode, SchedkitError
from schedkit.runtimes.container import Container
from schedkit.runtimes.model import Runtime
from schedkit.schedctl.session import Session
from schedkit.unknown import Unknown

EXIT_SECONDS = 5.0  # from the end of its output until its runtime knows the exit code


def write_logs(session: Session, runtime: Runtime, id: str, *, follow: bool = False, tail: int | None = None) -> None:
    """Print it as it is, byte for byte."""
    stream = sys.stdout.buffer
    session.talk.close()
    for piece in runtime.stream_logs(id, follow=follow, tail=tail):
        stream.write(piece)
        stream.flush()


def follow_logs(session: Session, runtime: Runtime, container: Container) -> int:
    """Until Ctrl-C, which stops the scheduler and is success; if it ends by itself, that is told as what it was."""
    from schedkit.host.containers import discard
    from schedkit.host.errors import EjectedError
    from schedkit.host.stop import stop
    from schedkit.kernel.log import KernelLog

    with KernelLog(session.machine.root) as log:
        try:
            write_logs(session, runtime, container.id, follow=True)
            code = runtime.wait(container.id, EXIT_SECONDS)
        except BaseException as error:
            stop(session.host, container.id)
            if isinstance(error, KeyboardInterrupt):
                return ExitCode.OK
            raise
        ejection = log.read_ejection()
    discard(runtime, container.id, session.talk)
    if ejection is not None and not isinstance(ejection, Unknown) and ejection.is_fault:
        details = "; ".join(ejection.details)
        raise EjectedError(
            f"the kernel threw {ejection.ops} out: {ejection.reason}{f' ({details})' if details else ''}"
        )
    if code != 0:
        raise SchedkitError(f"{container.name} ended by itself, with exit code {'unknown' if code is None else code}")
    session.talk.step(f"{container.name} ended by itself")
    return ExitCode.OK
