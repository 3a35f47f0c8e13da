"""Fields that several commands print, made in one place; docs/schedctl/json.md describes them (schema.py)."""

from datetime import datetime

from schedkit.host.model import Managed, RunResult
from schedkit.kernel.holder import Holder
from schedkit.kernel.state import KernelState, State
from schedkit.runtimes.container import Container
from schedkit.runtimes.labels import Label, is_unprivileged
from schedkit.runtimes.view import UnreachableRuntime
from schedkit.schedctl.output import Json, format_span, plain
from schedkit.unknown import Unknown

SHORT_ID = 12


def container_fields(container: Container) -> Json:
    """What a runtime tells of one container."""
    labels = container.labels
    return {
        "id": container.id,
        "name": container.name,
        "driver": container.driver,
        "image": labels.get(Label.IMAGE, container.image),
        "digest": labels.get(Label.DIGEST) or None,
        "manifest": labels.get(Label.MANIFEST) or None,
        "args": read_list(labels.get(Label.ARGS)),
        "state": plain(container.state),
        "pid": container.pid,
        "exit_code": container.exit_code,
        "started_at": plain(container.started),
        "finished_at": plain(container.finished),
    }


def managed_fields(managed: Managed) -> Json:
    """A container, and what the kernel says of it."""
    return {
        **container_fields(managed.container),
        "scheduler": managed.scheduler,
        "attached": managed.attachment.value,
        "why": managed.why or None,
        "verified": managed.verified or None,
        "restart": managed.restart,
        "supervised": managed.watched,
        "privileged": not is_unprivileged(managed.container.labels),
    }


def kernel_fields(kernel: KernelState) -> Json:
    """What the kernel says; `supported`, `enabled` and `ops` are as the Go schedctl wrote them."""
    known = not isinstance(kernel.state, Unknown)
    return {
        "supported": kernel.state is not State.UNSUPPORTED if known else plain(kernel.state),
        "enabled": kernel.state is State.ENABLED if known else plain(kernel.state),
        "state": plain(kernel.state),
        "ops": "" if kernel.ops is None else plain(kernel.ops),
        "enable_seq": plain(kernel.enable_seq),
        "nr_rejected": plain(kernel.nr_rejected),
        "hotplug_seq": plain(kernel.hotplug_seq),
        "switch_all": plain(kernel.switch_all),
        "events": plain(kernel.events),
        "sub_schedulers": plain(kernel.sub_schedulers),
    }


def holder_fields(holder: Holder | Unknown | None) -> object:
    """Which process keeps the attached scheduler in its slot."""
    if not isinstance(holder, Holder):
        return plain(holder)
    return {
        "pid": holder.pid,
        "command": holder.command,
        "link": holder.link,
        "container": plain(holder.container),
        "pod": holder.pod,
        "unit": holder.unit,
    }


def unreachable_fields(runtime: UnreachableRuntime) -> Json:
    """A runtime that could not be asked."""
    return {"driver": runtime.driver, "socket": runtime.socket, "why": runtime.why, "absent": runtime.absent}


def attached_fields(attached: RunResult) -> Json:
    """A scheduler that was just started."""
    return {**container_fields(attached.container), "ops": attached.ops, "seconds": round(attached.seconds, 3)}


def format_uptime(container: Container, now: datetime) -> str:
    """How long it has been running; what it is instead where it does not run."""
    if isinstance(container.state, Unknown):
        return "unknown"
    if container.pid is None or container.started is None:
        code = "" if container.exit_code is None else f" ({container.exit_code})"
        return f"{container.state.value}{code}"
    return format_span(now - container.started)


def read_list(text: str | None) -> list[str] | None:
    """A list of words from a label of schedctl; other containers have none, or something else there."""
    if not text:
        return None
    from json import loads

    try:
        args = loads(text)
    except ValueError:
        return None
    return args if isinstance(args, list) else None
