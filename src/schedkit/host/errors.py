"""How a lifecycle goes wrong: one type for each exit code of its own."""

from schedkit.errors import ExitCode, SchedkitError


class SchedulerError(SchedkitError):
    """Something about one scheduler; `log` holds its last lines, for people to read."""

    def __init__(self, message: str, *, hint: str = "", log: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.log = log


class SlotTakenError(SchedulerError):
    """Another scheduler is attached, and a kernel takes one."""

    reason = "SlotTaken"
    exit_code = ExitCode.SLOT_TAKEN


class RejectedError(SchedulerError):
    """The kernel refused to load or attach it."""

    reason = "Rejected"
    exit_code = ExitCode.REJECTED


class EjectedError(SchedulerError):
    """It attached and the kernel ejected it."""

    reason = "Ejected"
    exit_code = ExitCode.EJECTED


class NotAttachedError(SchedulerError):
    """It was started and did not attach in time, or ended before it did."""

    reason = "NotAttached"
    exit_code = ExitCode.NOT_ATTACHED


class KernelUnfitError(SchedulerError):
    """This kernel cannot run this scheduler."""

    reason = "KernelUnfit"
    exit_code = ExitCode.KERNEL_UNFIT


class CommandFailedError(SchedulerError):
    """`bench`: the command that was to be measured failed; `log` holds its last lines."""

    reason = "CommandFailed"
    exit_code = ExitCode.COMMAND_FAILED


class NoMetricError(SchedulerError):
    """`bench`: the command worked, and its output has no number where one was expected."""

    reason = "NoMetric"
    exit_code = ExitCode.BAD_DATA


class RolledBackError(SchedulerError):
    """The new scheduler did not attach, and the old one runs again; `cause` says why the new one did not."""

    reason = "RolledBack"
    exit_code = ExitCode.ROLLED_BACK

    def __init__(self, message: str, *, cause: SchedkitError, hint: str = "", log: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint=hint, log=log)
        self.cause = cause


class NotDetachedError(SchedulerError):
    """It was stopped, and the kernel still says that it is attached."""

    reason = "NotDetached"
    exit_code = ExitCode.NOT_DETACHED
