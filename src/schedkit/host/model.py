"""What the lifecycle speaks of: requests, results, and the machine it happens on."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from schedkit.errors import ExitCode, UsageError
from schedkit.host.machine import Machine
from schedkit.kernel.holder import Holder
from schedkit.kernel.state import KernelState
from schedkit.runtimes.container import NOT_RUNNING, Container
from schedkit.runtimes.view import Runtimes, UnreachableRuntime
from schedkit.unknown import Unknown

if TYPE_CHECKING:
    from schedkit.host.lasting import Lasting
    from schedkit.images.image import Image


class ProgressReporter(Protocol):
    """How the lifecycle tells what it does, to whoever listens; the lifecycle itself prints nothing."""

    def step(self, text: str) -> None:
        """A new step begins: `pulling ghcr.io/schedkit/scx_rusty:latest (12 MB)`."""

    def progress(self, done: int, total: int) -> None:
        """Bytes of the present step."""

    def warn(self, text: str) -> None:
        """Print a warning."""


# Between resolve and pull: returns what Label.VERIFIED shall say, or raises.
Verify = Callable[["Image"], str]


class Host(NamedTuple):
    """What every verb of the lifecycle works with: this machine, its runtimes, and who is told of the progress."""

    machine: Machine
    runtimes: Runtimes
    progress: ProgressReporter


class Restart(NamedTuple):
    """What to do when a scheduler fails: at most `times` restarts (None: no limit), with growing pauses."""

    on_failure: bool = False
    times: int | None = None
    always: bool = False  # also when it ends by itself, whatever its exit code

    def __str__(self) -> str:
        if self.always:
            return "always"
        if not self.on_failure:
            return "no"
        return "on-failure" if self.times is None else f"on-failure:{self.times}"


def parse_restart(text: str) -> Restart:
    """`no`, `on-failure`, `on-failure:N` or `always`, as --restart takes it and Label.RESTART keeps it."""
    if text in ("", "no"):
        return Restart()
    if text == "always":
        return Restart(on_failure=True, always=True)
    policy, colon, times = text.partition(":")
    if policy == "on-failure" and not colon:
        return Restart(on_failure=True)
    if policy == "on-failure" and times.isascii() and times.isdigit() and 0 < int(times) < 1_000_000:
        return Restart(on_failure=True, times=int(times))
    raise UsageError(
        f"{text!r} is not a restart policy", hint="use no, on-failure, on-failure:N for at most N restarts, or always"
    )


class RunRequest(NamedTuple):
    """One scheduler to be run."""

    image: "Image"
    scheduler: str  # for people and for matching the kernel's ops name
    name: str | None = None  # of the container; made from `scheduler` if not given
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    files: tuple[str, ...] = ()  # absolute paths
    host_network: bool = False
    unprivileged: bool = False  # only the capabilities that loading takes, and no devices
    replace: bool = False  # take the name of the container that is replaced, if `name` is that
    restart: Restart = Restart()
    timeout: float = 30.0
    wait: bool = True
    trial: str = ""  # the mark of a trial, on whose container it stands


class RunResult(NamedTuple):
    """A scheduler that runs; with wait=False, `ops` is None as nobody looked."""

    container: Container
    ops: str | None
    seconds: float  # from start to attached


class Switched(NamedTuple):
    """A switch that worked."""

    attached: RunResult
    replaced: Container | None
    gap: float | None  # seconds in which the kernel had none of schedctl's schedulers; None if there was none before


class Attachment(StrEnum):
    """Whether a managed container's scheduler is the one in the slot."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Managed(NamedTuple):
    """A container of schedctl, or of the Go schedctl, and what the kernel says of it."""

    container: Container
    scheduler: str
    attachment: Attachment
    verified: str  # as whom; `` when nothing was noted (the Go schedctl's containers)
    restart: str
    why: str = ""  # for NO and UNKNOWN
    watched: bool | None = None  # whether a unit is at work that restarts it; None without a policy

    @property
    def running(self) -> bool:
        """Whether it may be at work: what could not be told counts as that."""
        return self.container.state not in NOT_RUNNING


class Observed(NamedTuple):
    """Runtimes and kernel at one moment, joined."""

    kernel: KernelState
    holder: Holder | Unknown | None
    managed: tuple[Managed, ...]
    unreachable: tuple[UnreachableRuntime, ...] = ()  # runtimes that could not be asked

    @property
    def running(self) -> tuple[Managed, ...]:
        """Those that have not ended, and were started."""
        return tuple(one for one in self.managed if one.running)

    @property
    def hidden(self) -> list[UnreachableRuntime]:
        """Runtimes that are there and could not be asked: what they run is unknown."""
        return [one for one in self.unreachable if not one.absent]


class Summary(StrEnum):
    """The six values of the Go schedctl, and unknown where something could not be read."""

    IDLE = "idle"
    RUNNING = "running"
    ORPHANED_KERNEL_STATE = "orphaned-kernel-state"
    MANAGED_DETACHED = "managed-detached"
    MANAGED_MISMATCH = "managed-mismatch"
    MULTIPLE_MANAGED = "multiple-managed"
    UNKNOWN = "unknown"

    @property
    def exit_code(self) -> ExitCode:
        """The Go schedctl's exit code for this status; unknown, which it did not have, is 1."""
        if self in (Summary.IDLE, Summary.RUNNING):
            return ExitCode.OK
        return ExitCode.FAILURE if self is Summary.UNKNOWN else ExitCode.DISCREPANCY


class Status(NamedTuple):
    """The truth about this machine, as far as it can be known."""

    summary: Summary
    explanation: str  # a sentence
    remedy: str  # the command that fixes it; empty when nothing is wrong
    kernel: KernelState
    managed: tuple[Managed, ...]
    holder: Holder | Unknown | None
    unreachable: tuple[UnreachableRuntime, ...] = ()  # runtimes that could not be asked
    lasting: "Lasting | None" = None  # what is enabled, restarted or on trial
