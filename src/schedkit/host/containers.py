"""Make, end and dispose of one scheduler's container."""

import signal
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC
from typing import NamedTuple

from schedkit.errors import NotFoundError, SchedkitError, clean
from schedkit.host.machine import Machine
from schedkit.host.model import ProgressReporter, RunRequest
from schedkit.runtimes.container import NOT_RUNNING, Container
from schedkit.runtimes.labels import UNPRIVILEGED, Label
from schedkit.runtimes.model import ContainerSpec, Runtime, name_taken

KILL_SECONDS = 10.0  # a killed process that has not ended by then hangs in the kernel
TRACING_FOLDER = "/sys/kernel/tracing"  # schedulers look up there which tracers and events the kernel has
_GRACE_SECONDS = 2.0  # what a scheduler we give up on gets to leave by itself
_LOG_LINES = 40
_MOST_LOG_BYTES = 256 * 1024
_LONGEST_LINE = 500


class Ended(NamedTuple):
    """How a container ended."""

    exit_code: int | None
    killed: bool  # SIGTERM was not enough


def make_spec(machine: Machine, request: RunRequest, name: str, verified: str) -> ContainerSpec:
    """A container with all the state we will ever ask for on its labels."""
    return ContainerSpec(
        name=name,
        args=request.args,
        env=request.env,
        files=request.files + find_shared(machine),
        host_network=request.host_network,
        unprivileged=request.unprivileged,
        labels={
            Label.SCHEDULER.value: request.scheduler,
            Label.IMAGE.value: request.image.reference,
            Label.DIGEST.value: request.image.digest,
            Label.MANIFEST.value: request.image.manifest.digest,
            Label.ARGS.value: format_args(request.args),
            Label.CREATED.value: machine.now().astimezone(UTC).isoformat(),
            Label.RESTART.value: str(request.restart),
            Label.VERIFIED.value: verified,
            **({Label.FILES.value: format_args(request.files)} if request.files else {}),
            **({Label.ENV.value: format_args(sorted(request.env))} if request.env else {}),
            **({Label.NETWORK.value: "host"} if request.host_network else {}),
            **({Label.PRIVILEGED.value: UNPRIVILEGED} if request.unprivileged else {}),
            **({Label.TRIAL.value: request.trial} if request.trial else {}),
        },
    )


def find_shared(machine: Machine) -> tuple[str, ...]:
    """What every scheduler may read: a container's own /sys is without the file systems mounted in this machine's."""
    return (TRACING_FOLDER,) if (machine.root / TRACING_FOLDER[1:]).is_dir() else ()


def format_args(args: Sequence[str]) -> str:
    """Arguments as their label has them."""
    import json

    return json.dumps(list(args))


def choose_name(runtime: Runtime, request: RunRequest, progress: ProgressReporter) -> str:
    """A name nobody has; what is left over of that name, ended or never started, is removed."""
    name, leftover = find_name(runtime, request)
    if leftover:
        progress.step(f"removing {name}, left over from before")
        runtime.remove(leftover.id)
    return name


def find_name(runtime: Runtime, request: RunRequest) -> tuple[str, Container | None]:
    """A name that nobody has who runs, and the container that is left over of that name."""
    wanted = request.name or request.scheduler
    taken = {one.name: one for one in runtime.fetch_containers()}
    name, number = wanted, 2
    while name in taken and taken[name].state not in NOT_RUNNING:
        if request.name and not request.replace:
            raise name_taken(runtime.driver, name)
        name, number = f"{wanted}-{number}", number + 1
    return name, taken.get(name)


def create(runtime: Runtime, request: RunRequest, spec: ContainerSpec, progress: ProgressReporter) -> str:
    """Create the container, or leave nothing: also when interrupted before its id was heard."""
    progress.step(f"creating the container {spec.name}")
    try:
        return runtime.create(request.image, spec)
    except BaseException:
        mark = spec.labels[Label.CREATED]
        with suppress(SchedkitError):  # what went wrong first is what shall be told
            for one in runtime.fetch_containers():
                if one.name == spec.name and one.labels.get(Label.CREATED) == mark:
                    runtime.remove(one.id)
        raise


def end(runtime: Runtime, id: str, timeout: float) -> Ended:
    """SIGTERM, and SIGKILL after `timeout` seconds; returns when it has ended."""
    runtime.signal(id, signal.SIGTERM)
    code = runtime.wait(id, timeout)
    if code is not None:
        return Ended(code, killed=False)
    return Ended(kill(runtime, id), killed=True)


def kill(runtime: Runtime, id: str) -> int:
    """SIGKILL, and wait for it."""
    runtime.signal(id, signal.SIGKILL)
    code = runtime.wait(id, KILL_SECONDS)
    if code is None:
        raise SchedkitError(
            f"the container {id[:12]} ({runtime.driver}) did not end within {KILL_SECONDS:.0f} s of SIGKILL",
            hint="its process hangs in the kernel; dmesg may show why",
        )
    return code


def discard(runtime: Runtime, id: str, progress: ProgressReporter) -> None:
    """End and remove a container in whatever state it is; a second Ctrl-C only cuts the waiting short."""
    try:
        try:
            _leave(runtime, id)
        except KeyboardInterrupt:
            kill(runtime, id)
        runtime.remove(id)
    except NotFoundError:
        return
    except SchedkitError as error:
        progress.warn(
            f"the container {id[:12]} could not be removed: {error.message}; `schedctl stop {id[:12]}` tries again"
        )


def read_last_lines(
    runtime: Runtime, id: str, count: int = _LOG_LINES, *, since: float | None = None
) -> tuple[str, ...]:
    """The end of its output since a start, without control characters, blank lines and what nobody would read."""
    try:
        tail = b""
        for piece in runtime.stream_logs(id, tail=count, since=since):
            tail = (tail + piece)[-_MOST_LOG_BYTES:]
    except SchedkitError as error:
        return (f"(its output could not be read: {error.message})",)
    return tuple(clean_line(line) for line in tail.decode(errors="replace").splitlines() if line.strip())[-count:]


def clean_line(line: str) -> str:
    """A line of somebody else's output as it may be shown: no escape sequences, not endless."""
    import re

    plain = re.sub(r"\x1b(\[[0-?]*[ -/]*[@-~]|[@-_])", "", line.rstrip())
    plain = clean(plain, keep="\t")
    return plain if len(plain) <= _LONGEST_LINE else plain[:_LONGEST_LINE] + " …"


def _leave(runtime: Runtime, id: str) -> None:
    state = runtime.fetch_container(id).state
    if state not in NOT_RUNNING:
        end(runtime, id, _GRACE_SECONDS)
