"""Start, beside a scheduler with a restart policy, the process that restarts it."""

import sys

from schedkit.host.model import Attached, RunRequest
from schedkit.runtimes.model import Runtime
from schedkit.schedctl.session import Session


def watch_over(session: Session, runtime: Runtime, request: RunRequest, attached: Attached) -> None:
    """Nothing without a policy; a supervisor that could not be started is a warning, as the scheduler runs."""
    if not request.restart.on_failure:
        return
    from schedkit.host.supervise import spawn_supervisor, supervisor_log

    id = attached.container.id
    log = supervisor_log(session.machine, id)
    command = [sys.executable, "-m", "schedkit.schedctl", "--driver", runtime.driver, "--socket", runtime.socket]
    try:
        pid = spawn_supervisor([*command, "supervise", id], log)
    except OSError as error:
        session.talk.warn(f"nobody will restart {attached.container.name}: {error}")
        return
    session.talk.detail(f"process {pid} restarts it when it fails; it writes to {log}")
