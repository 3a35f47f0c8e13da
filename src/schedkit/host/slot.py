"""The kernel's one slot: whether it is free, and who has it if not."""

from schedkit.errors import UnavailableError
from schedkit.host.errors import SlotTakenError
from schedkit.host.model import Attachment, Managed, Observed
from schedkit.kernel.holder import Holder, describe_holder
from schedkit.kernel.managers import UNITS
from schedkit.kernel.state import KernelState, State
from schedkit.runtimes.view import UnreachableRuntime
from schedkit.unknown import Unknown

DETACH = "schedctl detach"


def check_free(observed: Observed, scheduler: str) -> None:
    """Raise if something is attached, or a container of schedctl runs that might; say who it is and what to do."""
    kernel = observed.kernel
    if isinstance(kernel.state, Unknown):
        raise UnavailableError(
            f"whether a scheduler is attached could not be read: {kernel.state.why}",
            hint="`schedctl doctor` shows details",
        )
    if kernel.state in (State.ENABLED, State.ENABLING, State.DISABLING):
        raise taken(observed, scheduler)
    if observed.running:
        one = observed.running[0]
        raise SlotTakenError(
            f"the container {one.container.name} ({one.container.driver}) runs, though nothing is attached",
            hint=f"`schedctl stop {one.container.name}` ends it, `schedctl switch {scheduler}` replaces it",
        )


def taken(observed: Observed, scheduler: str) -> SlotTakenError:
    """The error for a slot that somebody has."""
    ours = find_attached(observed)
    if ours:
        name = ours.container.name
        return SlotTakenError(
            f"{name_ops(observed.kernel)} is attached already, by the container {name} ({ours.container.driver})",
            hint=f"`schedctl switch {scheduler}` replaces it, `schedctl stop {name}` ends it",
        )
    return SlotTakenError(
        f"{name_ops(observed.kernel)} is attached already, {describe_holder(observed.holder)}",
        hint=hint_ending(observed.holder),
    )


def hint_ending(holder: Holder | Unknown | None) -> str:
    """How a scheduler that schedctl does not manage is ended, as a hint of an error."""
    if isinstance(holder, Holder) and holder.pod:
        return "the cluster runs it: change it there"
    advice = advise_ending(holder)
    return f"end it by `{advice}`" if advice != DETACH else f"end it where it was started, or by `{DETACH}`"


def advise_ending(holder: Holder | Unknown | None) -> str:
    """The command that ends a scheduler which schedctl does not manage, so that it does not come back."""
    unit = holder.unit if isinstance(holder, Holder) else None
    return UNITS.get(unit or "", DETACH)


def find_attached(observed: Observed) -> Managed | None:
    """The managed one that is in the slot."""
    return next((one for one in observed.managed if one.attachment is Attachment.YES), None)


def name_ops(kernel: KernelState) -> str:
    """The attached scheduler in a sentence."""
    return kernel.ops if isinstance(kernel.ops, str) and kernel.ops else "another scheduler"


def find_doubts(observed: Observed) -> list[UnreachableRuntime]:
    """The runtimes that could not be asked and may have started, for schedctl, what holds the slot.

    Also one without a socket: podman needs none to run containers, and those of the others outlive their daemons.
    """
    holder = observed.holder
    if holder is None:
        return observed.hidden
    if isinstance(holder, Unknown) or isinstance(holder.container, Unknown):
        return list(observed.unreachable)
    if holder.container is None or holder.pod is not None:
        return []
    return [one for one in observed.unreachable if holder.driver in (None, one.driver)]
