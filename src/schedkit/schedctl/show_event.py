"""One change of the kernel's slot, as `events` and `wait` show it."""

from typing import TYPE_CHECKING

from schedkit.errors import clean
from schedkit.kernel.holder import describe_holder
from schedkit.schedctl.output import Json, format_time, plain, words
from schedkit.schedctl.views import SHORT_ID, container_fields, holder_fields
from schedkit.unknown import Unknown

if TYPE_CHECKING:
    from schedkit.host.events import KernelEvent

KIND = 8  # columns


def event_fields(event: "KernelEvent") -> Json:
    """Return an event's fields for JSON."""
    owner = event.owner
    managed = None if isinstance(owner, Unknown) else owner.managed
    return {
        "at": format_time(event.at),
        "event": event.kind.value,
        "ops": event.ops,
        "reason": plain(event.reason),
        "details": list(event.details),
        "managed": plain(owner) if isinstance(owner, Unknown) else managed is not None,
        "container": container_fields(managed.container) if managed else None,
        "holder": plain(owner) if isinstance(owner, Unknown) else holder_fields(owner.holder),
    }


def describe_event(event: "KernelEvent") -> str:
    """One line."""
    parts = [format_time(event.at), f"{event.kind.value:{KIND}}", event.ops, _describe_owner(event)]
    if event.reason is not None:
        details = f": {'; '.join(event.details)}" if event.details else ""
        parts.append(f"{words(event.reason)}{details}")
    return clean("  ".join(parts))


def _describe_owner(event: "KernelEvent") -> str:
    owner = event.owner
    if isinstance(owner, Unknown):
        return "-"
    if owner.managed:
        container = owner.managed.container
        return f"container {container.name} ({container.driver} {container.id[:SHORT_ID]})"
    return f"{describe_holder(owner.holder)}, not managed by schedctl"
