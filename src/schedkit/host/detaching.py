"""End a scheduler that nobody manages."""

from typing import NamedTuple

from schedkit.errors import BusyError, NotFoundError, UnavailableError, UsageError
from schedkit.host.errors import NotDetachedError
from schedkit.host.lock import hold_lock
from schedkit.host.managed import observe
from schedkit.host.model import Attachment, Host, Observed
from schedkit.host.slot import find_attached, find_doubts, name_ops
from schedkit.host.stop import is_gone
from schedkit.kernel.changes import Changes
from schedkit.kernel.detach import Way, detach, find_way
from schedkit.kernel.holder import Holder, describe_holder
from schedkit.kernel.state import KernelState, State, read_state
from schedkit.unknown import Unknown

_DETACH_SECONDS = 10.0


class Foreign(NamedTuple):
    """What will be ended, and how: for people to agree to before it is done."""

    ops: str
    kernel: KernelState
    holder: Holder | Unknown | None
    way: Way
    doubt: str = ""  # why it might be ours after all

    @property
    def returns(self) -> bool:
        """Whether a cluster runs it, and will start it again."""
        return isinstance(self.holder, Holder) and self.holder.pod is not None

    def describe(self) -> str:
        """One sentence."""
        return f"{self.ops} is attached, {describe_holder(self.holder)}; it will be ended by: {self.way.text}"


class Detached(NamedTuple):
    """What was ended; `after` is what the kernel says then, where another may have attached at once."""

    foreign: Foreign
    after: KernelState


def find_foreign(host: Host) -> Foreign:
    """The attached scheduler, unless schedctl manages it: those are stopped."""
    machine = host.machine
    observed = observe(machine, host.runtimes)
    kernel = observed.kernel
    if isinstance(kernel.state, Unknown):
        raise UnavailableError(f"whether a scheduler is attached could not be read: {kernel.state.why}")
    if kernel.state in (State.DISABLED, State.UNSUPPORTED):
        raise NotFoundError("no scheduler is attached", hint="`schedctl status` shows more")
    ours = find_attached(observed)
    if ours:
        name = ours.container.name
        raise UsageError(
            f"{name_ops(kernel)} is the scheduler of the container {name} ({ours.container.driver}), which schedctl"
            " manages",
            hint=f"`schedctl stop {name}` ends it",
        )
    way = find_way(machine.root)
    if isinstance(way, Unknown):
        raise UnavailableError(
            f"there is no way to detach {name_ops(kernel)}: {way.why}", hint="end the process that holds it"
        )
    return Foreign(name_ops(kernel), kernel, observed.holder, way, _find_doubt(observed))


def end_foreign(host: Host, foreign: Foreign) -> Detached:
    """Do it, and see the kernel detach it; nothing is done if meanwhile another scheduler took the slot."""
    machine = host.machine
    with hold_lock(machine.lock), Changes(machine.root) as changes:
        now = read_state(machine.root)
        if is_gone(now, foreign.kernel):
            if now.state is State.ENABLED:
                raise BusyError(
                    f"{foreign.ops} has left and {name_ops(now)} came", hint="look again: `schedctl status`"
                )
            return Detached(foreign, now)
        host.progress.step(f"detaching {foreign.ops}: {foreign.way.text}")
        detach(foreign.way, machine.root)
        after = changes.wait_until(lambda now: is_gone(now, foreign.kernel), _DETACH_SECONDS)
        if not is_gone(after, foreign.kernel):
            raise NotDetachedError(
                f"{foreign.ops} is still attached {_DETACH_SECONDS:.0f} s after: {foreign.way.text}",
                hint="end the process that holds it",
            )
        return Detached(foreign, after)


def _find_doubt(observed: Observed) -> str:
    unread = [one for one in observed.running if one.attachment is Attachment.UNKNOWN]
    told = [f"the container {one.container.name} runs, and {one.why}" for one in unread]
    return "; ".join([*told, *(str(one) for one in find_doubts(observed))])
