"""Start a scheduler's container again, as it is."""

from schedkit.errors import SchedkitError
from schedkit.host import containers
from schedkit.host.attaching import AttachAttempt
from schedkit.host.lock import hold_lock
from schedkit.host.model import Attachment, Host, Managed, Observed, RunResult
from schedkit.host.preparing import observe_settled
from schedkit.host.slot import check_free
from schedkit.host.stop import STOP_SECONDS, find, wait_detached
from schedkit.kernel.changes import Changes


def find_restartable(host: Host, which: str | None) -> tuple[Observed, Managed]:
    """What is there, and the one that `which` names, or the only one; one that has ended needs the slot free."""
    observed = observe_settled(host)
    one = find(observed, which)
    if not one.running:
        check_free(observed, one.scheduler)
    return observed, one


def restart(host: Host, which: str | None, *, timeout: float, stop_timeout: float = STOP_SECONDS) -> RunResult:
    """Stop the one that `which` names, or the only one there is, and start it again; one that has ended, too."""
    machine = host.machine
    with hold_lock(machine.lock):
        observed, one = find_restartable(host, which)
        container, runtime = one.container, host.runtimes.find(one.container)
        with (
            Changes(machine.root) as changes,
            AttachAttempt(machine, runtime, container.id, one.scheduler) as attempt,
        ):
            if one.running:
                host.progress.step(f"stopping {container.name}")
                if containers.end(runtime, container.id, stop_timeout).killed:
                    host.progress.warn(f"{container.name} ignored SIGTERM for {stop_timeout:.0f} s and was killed")
                if one.attachment is Attachment.YES:
                    wait_detached(machine, changes, observed.kernel)
            host.progress.step(f"starting {container.name}")
            attempt.start()
            try:
                return attempt.wait(timeout)
            except SchedkitError:
                containers.discard(runtime, container.id, host.progress)
                raise
