"""Enable a scheduler, and go back to the enabled one: what several commands do."""

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

from schedkit.errors import BadDataError, NotFoundError
from schedkit.host.units import ENABLED, RERUN, Choice, read_choice
from schedkit.schedctl.lasting import (
    check_systemd,
    find_program,
    make_choice,
    pin,
    read_verified,
    recall_request,
    use_choice,
)
from schedkit.schedctl.modes import apply_mode
from schedkit.schedctl.output import Json, format_seconds
from schedkit.schedctl.show_lasting import choice_fields
from schedkit.schedctl.views import container_fields
from schedkit.unknown import Unknown

if TYPE_CHECKING:
    from schedkit.host.model import Managed, RunRequest, Switched, Verify
    from schedkit.runtimes.container import Container
    from schedkit.schedctl.planning import DryRun
    from schedkit.schedctl.requests import Order
    from schedkit.schedctl.session import Session


class Lasted(NamedTuple):
    """The enabled scheduler, attached; without `switched` it was so before."""

    choice: Choice
    container: "Container"
    switched: "Switched | None"


def enable(
    session: "Session",
    order: "Order",
    *,
    mode: str = "",
    make_way: AbstractContextManager[object] | None = None,
    is_taken: bool = False,
) -> Lasted:
    """Run it, unless it runs, and have systemd run it from now on; what does not attach is not enabled.

    `make_way` is entered when all is prepared: to end another manager, and to bring it back if that was in vain;
    `is_taken` says that the slot is that manager's.
    """
    from schedkit.host.preparing import check_image, pull
    from schedkit.schedctl.verification import make_verify

    mode = mode or order.mode or ""
    request, _ = _prepare(session, order, is_taken=is_taken)
    host = session.host
    if make_way:  # nothing is to be fetched while the slot is empty
        check_image(host, request)
        make_verify(session, host.runtimes.chosen)(request.image)
        pull(host, request)
    with make_way or nullcontext():
        choice = make_choice(session, request, mode=mode)
        return hand_over(session, request, make_verify(session, host.runtimes.chosen), choice, write=True)


def plan_enable(session: "Session", order: "Order", *, is_taken: bool = False) -> "DryRun":
    """What `enable` would do."""
    from schedkit.schedctl.verification import make_verify

    request, replaced = _prepare(session, order, is_taken=is_taken)
    verify = make_verify(session, session.runtimes.chosen)
    plan = _plan_attached(session, request, verify, _find_same(session, make_choice(session, request)), replaced)
    before = read_choice(session.machine.root, ENABLED)
    instead = f", in place of {before.scheduler}" if isinstance(before, Choice) else ""
    return plan.add(f"have {ENABLED} start {request.image.reference} at boot{instead}")


def plan_restore(session: "Session") -> "DryRun":
    """What `restore` would do."""
    from schedkit.host.lasting import find_unit

    request, verify, choice, replaced = _prepare_restore(session)
    same = _find_same(session, choice)
    plan = _plan_attached(session, request, verify, same, replaced)
    if read_choice(session.machine.root, RERUN):
        plan = plan.add(f"remove {RERUN}")
    is_kept = same and find_unit(session.machine) == ENABLED
    return plan if is_kept else plan.add(f"have {ENABLED} look after it")


def _plan_attached(
    session: "Session", request: "RunRequest", verify: "Verify", same: "Managed | None", replaced: "Managed | None"
) -> "DryRun":
    """How it would come to be attached."""
    from schedkit.schedctl.planning import DryRun, name_container, plan_start

    if same is None:
        return plan_start(session, request, verify, replaced)
    steps = (f"leave {name_container(same.container)} as it is, which is attached already",)
    return DryRun(steps, request.scheduler, request.image, verify(request.image))


def _find_same(session: "Session", choice: Choice) -> "Managed | None":
    """Just this choice, attached, and looked after by nobody else."""
    from schedkit.host.lasting import find_chosen, find_unit, is_chosen

    same = find_chosen(session.host, choice)
    return same if same and is_chosen(same) and find_unit(session.machine) in (None, ENABLED) else None


def _prepare(session: "Session", order: "Order", *, is_taken: bool = False) -> "tuple[RunRequest, Managed | None]":
    """All checks, and the pinned image; what has the slot may be replaced unless it is known that it will leave."""
    from schedkit.host.preparing import check_kernel
    from schedkit.host.switch import check_switch
    from schedkit.schedctl.requests import make_request
    from schedkit.schedctl.verification import check_trust_policy

    check_systemd(session, "schedctl enable")
    check_trust_policy(session.settings)
    check_kernel(session.machine, order.name)
    order = apply_mode(session, order)
    replaced = None if is_taken else check_switch(session.host, order.name)
    return pin(make_request(session, order)), replaced


def restore(session: "Session") -> Lasted:
    """Go back to the enabled scheduler, and have its unit look after it."""
    request, verify, choice, _ = _prepare_restore(session)
    return hand_over(session, request, verify, choice, write=False)


def _prepare_restore(session: "Session") -> "tuple[RunRequest, Verify, Choice, Managed | None]":
    """All checks, what is enabled, and what has the slot."""
    from schedkit.host.preparing import check_kernel
    from schedkit.host.switch import check_switch

    check_systemd(session, "schedctl restore", hint="without systemd no scheduler is enabled: schedctl switch NAME")
    choice = require_enabled(session)
    use_choice(session, choice)
    check_kernel(session.machine, choice.scheduler)
    replaced = check_switch(session.host, choice.scheduler)
    return *recall_request(session, choice), choice, replaced


def require_enabled(session: "Session") -> Choice:
    """The choice of the enabled scheduler."""
    choice = read_choice(session.machine.root, ENABLED)
    if isinstance(choice, Unknown):
        raise BadDataError(choice.why, hint="`schedctl enable NAME` writes it again, `schedctl disable` removes it")
    if choice is None:
        raise NotFoundError("no scheduler is enabled", hint="`schedctl enable NAME` enables one")
    return choice


def hand_over(session: "Session", request: "RunRequest", verify: "Verify", choice: Choice, *, write: bool) -> Lasted:
    """Attach the scheduler in this process, so that errors are reported here; then its unit takes it over."""
    from schedkit.host.lasting import end_lasting, find_unit, resume_lasting, start_lasting
    from schedkit.host.switch import switch
    from schedkit.host.trial import keep_if_on_trial

    host, machine = session.host, session.machine
    same, unit = _find_same(session, choice), find_unit(machine)
    switched = None
    if same:
        container = same.container
        choice = choice._replace(verified=verify(request.image))  # the verdict is kept for the next boot
        keep_if_on_trial(host, container)
    else:
        switched = switch(host, request, verify)
        container, unit = switched.attached.container, None
        choice = choice._replace(verified=read_verified(container))
    end_lasting(machine, RERUN)
    if write:
        start_lasting(machine, choice, find_program(), ENABLED, now=unit is None)
    elif unit is None:
        resume_lasting(ENABLED)
    return Lasted(choice, container, switched)


def lasted_fields(lasted: Lasted) -> Json:
    """Return the fields for JSON output."""
    switched = lasted.switched
    return {
        "enabled": {**choice_fields(lasted.choice), "unit": ENABLED},
        "container": container_fields(lasted.container),
        "replaced": container_fields(switched.replaced) if switched and switched.replaced else None,
        "gap_seconds": round(switched.gap, 3) if switched and switched.gap is not None else None,
    }


def describe_lasted(lasted: Lasted) -> str:
    """How it came to be attached."""
    switched = lasted.switched
    if switched is None:
        return f"{lasted.choice.scheduler} is attached already, container {lasted.container.name}"
    instead = f", in place of {switched.replaced.name}" if switched.replaced else ""
    gap = f"; gap {format_seconds(switched.gap)}" if switched.gap is not None else ""
    ops = f" as {switched.attached.ops}" if switched.attached.ops else ""
    return f"{lasted.choice.scheduler} is attached{ops}, container {lasted.container.name}{instead}{gap}"
