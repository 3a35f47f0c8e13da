"""The truth about this machine: what the kernel says, what the runtimes say, and whether the two agree."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from schedkit.errors import NoPermissionError
from schedkit.host.machine import Machine
from schedkit.host.managed import observe
from schedkit.host.model import Attachment, Managed, Observed, Status, Summary
from schedkit.host.slot import advise_ending, find_doubts, name_ops
from schedkit.kernel.holder import Holder, describe_holder
from schedkit.kernel.state import State
from schedkit.runtimes.container import ContainerState
from schedkit.runtimes.view import Runtimes, describe_hidden
from schedkit.unknown import Unknown

if TYPE_CHECKING:
    from schedkit.host.lasting import Lasting

# Where host.units and host.trial_state keep what lasts; a test compares.
LASTING_FILES = ("etc/systemd/system/schedkit.service", "run/systemd/system/schedkit-run.service")
TRIAL_FILE = "trial.json"


def read_status(machine: Machine, runtimes: Runtimes) -> Status:
    """Ask the kernel and all runtimes once, and judge."""
    observed = observe(machine, runtimes)
    places = [*(machine.root / file for file in LASTING_FILES), machine.lock.parent / TRIAL_FILE]
    if not any(_may_exist(place) for place in places):  # on most machines: what reads them is not even imported
        return judge(observed)
    from schedkit.host.lasting import read_lasting

    return judge(observed, read_lasting(machine))


def judge(observed: Observed, lasting: "Lasting | None" = None) -> Status:
    """Pure: one of the six values or unknown, a sentence, and the command that fixes it."""
    summary, explanation, remedy = _judge(observed)
    kept = lasting.kept if lasting else None
    notes = _tell_leftovers(observed, kept) if summary in (Summary.IDLE, Summary.RUNNING) else ""
    failed = lasting.failed if lasting else None
    return Status(
        summary=summary,
        explanation=explanation + notes + _tell_unwatched(observed) + (failed.explain_failure() if failed else ""),
        remedy=remedy or (f"journalctl -u {failed.unit}" if failed else ""),
        lasting=lasting,
        kernel=observed.kernel,
        managed=observed.managed,
        holder=observed.holder,
        unreachable=observed.unreachable,
    )


def _judge(observed: Observed) -> tuple[Summary, str, str]:
    kernel, running = observed.kernel, observed.running
    if isinstance(kernel.state, Unknown):
        return Summary.UNKNOWN, f"What the kernel does could not be read: {kernel.state.why}.", "schedctl doctor"
    if len(running) > 1:
        names = ", ".join(one.container.name for one in running)
        attached = next((one.container.name for one in running if one.attachment is Attachment.YES), "none of them")
        return (
            Summary.MULTIPLE_MANAGED,
            f"{len(running)} containers managed by schedctl run ({names}), and a kernel takes one scheduler;"
            f" attached: {attached}.",
            f"schedctl stop {_name_superfluous(running)}",
        )
    if running:
        return _judge_one(observed, running[0])
    if kernel.state in (State.DISABLED, State.UNSUPPORTED):
        return _judge_empty(observed, kernel.state)
    return _judge_foreign(observed)


def _judge_one(observed: Observed, one: Managed) -> tuple[Summary, str, str]:
    name, ops = one.container.name, name_ops(observed.kernel)
    if isinstance(one.container.state, Unknown):
        return (
            Summary.UNKNOWN,
            f"Whether the container {name} runs could not be found out: {one.container.state.why}.",
            "schedctl ps",
        )
    if one.attachment is Attachment.YES:
        return Summary.RUNNING, f"{one.scheduler} runs in the container {name} and is attached as {ops}.", ""
    if one.attachment is Attachment.UNKNOWN:
        return (
            Summary.UNKNOWN,
            f"{ops} is attached and the container {name} runs; whether it is that one's is not known: {one.why}.",
            "sudo schedctl status",
        )
    if observed.kernel.state is State.ENABLED:
        return (
            Summary.MANAGED_MISMATCH,
            f"The container {name} runs, but what is attached is not its scheduler: {ops},"
            f" {describe_holder(observed.holder)}.",
            f"schedctl stop {name}",
        )
    return (
        Summary.MANAGED_DETACHED,
        f"The container {name} runs, but nothing is attached: the kernel says {observed.kernel.state}.",
        f"schedctl logs {name}; schedctl stop {name}",
    )


def _judge_empty(observed: Observed, state: State) -> tuple[Summary, str, str]:
    kernel_says = (
        "This kernel has no sched_ext"
        if state is State.UNSUPPORTED
        else "The kernel runs its own scheduler; none is attached"
    )
    hidden = describe_hidden(observed.hidden)
    if hidden:
        return (
            Summary.UNKNOWN,
            f"{kernel_says}. Whether a container managed by schedctl runs is not known: {hidden}.",
            _find_out(observed),
        )
    return Summary.IDLE, f"{kernel_says}, and no container managed by schedctl runs.", ""


def _judge_foreign(observed: Observed) -> tuple[Summary, str, str]:
    """Something is attached and we know of no container: foreign, unless it may be one that we cannot see."""
    ops, holder = name_ops(observed.kernel), observed.holder
    if isinstance(holder, Holder) and holder.pod:
        return (
            Summary.ORPHANED_KERNEL_STATE,
            f"{ops} is attached, {describe_holder(holder)}: the cluster runs it, schedctl does not manage it.",
            "kubectl get pods -A --field-selector spec.nodeName=$(hostname)",
        )
    doubts = describe_hidden(find_doubts(observed))
    if doubts:
        return (
            Summary.UNKNOWN,
            f"{ops} is attached, {describe_holder(holder)}; it may be managed by schedctl: {doubts}.",
            _find_out(observed),
        )
    return (
        Summary.ORPHANED_KERNEL_STATE,
        f"{ops} is attached, {describe_holder(holder)}; it is not managed by schedctl.",
        advise_ending(holder),
    )


def _may_exist(path: Path) -> bool:
    """Also what we may not look at."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _find_out(observed: Observed) -> str:
    """The command that shows more of runtimes that could not be asked."""
    denied = any(one.error is NoPermissionError for one in observed.hidden)
    return "sudo schedctl status" if denied else "schedctl doctor"


def _name_superfluous(running: Sequence[Managed]) -> str:
    return next((one for one in running if one.attachment is not Attachment.YES), running[0]).container.name


def _tell_leftovers(observed: Observed, kept: str | None) -> str:
    left = [one for one in observed.managed if not one.running and one.container.id != kept]
    if not left:
        return ""
    told = []
    for one in left:
        if one.container.state is ContainerState.CREATED:
            told.append(f"{one.container.name} ({one.container.driver}) was created and never started")
        else:
            code = "" if one.container.exit_code is None else f" with exit code {one.container.exit_code}"
            told.append(f"{one.container.name} ({one.container.driver}) ended{code}")
    return f" Left over: {', '.join(told)} (`schedctl logs` shows why, `schedctl stop` removes it)."


def _tell_unwatched(observed: Observed) -> str:
    return "".join(
        f" {one.container.name} has the restart policy {one.restart}, but no unit of systemd restarts it."
        for one in observed.running
        if one.watched is False
    )
