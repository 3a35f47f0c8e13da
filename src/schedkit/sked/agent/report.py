"""A node's report, made from what was seen of its kernel: pure, bounded, and the same when nothing changed.

It is the status of a SchedExtNode as plain values: whoever reads it back for its history may find anything in it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from schedkit.errors import clean
from schedkit.kernel.check import ESSENTIAL, Check, Outcome
from schedkit.kernel.state import KernelState, State
from schedkit.sked.api.conditions import ATTACHED, FIT, NodeReason
from schedkit.sked.api.limits import LARGEST_NUMBER, OPS_LENGTH, PROBLEMS_TOLD, SUB_SCHEDULERS_TOLD, TEXT_LENGTH
from schedkit.unknown import Unknown

Report = dict[str, Any]

_UNKNOWN = "unknown"
_OWN = ("kernel", "slot", "lastDetach", "attachments", "departures")
_SEVERITIES = (Outcome.ERROR, Outcome.WARNING, Outcome.UNKNOWN)
_ATTACHED = {
    State.ENABLED: ("True", NodeReason.SCHEDULER_ATTACHED),
    State.ENABLING: ("False", NodeReason.ATTACHING),
    State.DISABLING: ("False", NodeReason.DETACHING),
    State.DISABLED: ("False", NodeReason.SLOT_FREE),
    State.UNSUPPORTED: ("False", NodeReason.NO_SCHED_EXT),
}


class NodeKernel(NamedTuple):
    """What stays as it is for as long as the kernel runs."""

    release: str
    boot_id: str  # empty where it cannot be read
    checks: Sequence[Check]


class Look(NamedTuple):
    """One look at the kernel."""

    state: KernelState
    time: str
    watched: bool = False  # it was watched since the look before: what is new happened about now
    left: tuple[str, ...] = ()  # the schedulers that the kernel announced to leave meanwhile
    clock: float = 0.0  # seconds of a clock that nobody sets


class Memory(NamedTuple):
    """The last report, and the last one that told a state: what is compared with the next look."""

    report: Report
    known: Report
    left_at: float | None = None  # by that clock: when a scheduler was seen to leave

    @classmethod
    def recall(cls, status: object) -> Self:
        """The memory of a report that was written before, by anybody."""
        report = status if isinstance(status, dict) else {}
        return cls(report, report if _find(report, "slot", "state") in set(State) else {})


def advance(memory: Memory, look: Look, kernel: NodeKernel) -> Memory:
    """The report after one more look."""
    before = memory.known if _is_same_boot(memory.known, look, kernel) else {}
    word, slot = _describe_slot(before, look)
    seq: int | None = slot.get("enableSeq")
    left_at = _find_leaving(memory, before, word, look)
    if word is State.ENABLED and (gap := _find_gap(before, seq, look, memory.left_at)) is not None:
        slot["gapMilliseconds"] = gap
    departures = None if seq is None else _count_departures(before, word, seq)
    report: Report = {"kernel": _describe_kernel(kernel), "slot": slot}
    if detachment := _describe_detachment(before, look, departures):
        report["lastDetach"] = detachment
    if seq is not None:
        report |= {"attachments": seq, "departures": departures}
    report["conditions"] = [
        _stamp(memory.report, look.time, condition)
        for condition in (_judge_fit(kernel), _judge_attached(word, slot, look))
    ]
    return Memory(report, report if word else memory.known, left_at)


def pick_own(status: object) -> Report:
    """The agent's part of what the API server has; the rest is the operator's."""
    if not isinstance(status, dict):
        return {}
    own = {name: status[name] for name in _OWN if name in status}
    conditions = status.get("conditions")
    if isinstance(conditions, list):
        mine = [condition for condition in conditions if _find(condition, "type") in (FIT, ATTACHED)]
        own["conditions"] = sorted(mine, key=lambda condition: condition["type"] != FIT)
    return own


def is_passing(report: Mapping[str, Any]) -> bool:
    """Whether the state is one that ends by itself, and no event tells of its end."""
    return _find(report, "slot", "state") in (State.ENABLING, State.DISABLING)


def is_news(report: Report, written: Mapping[str, Any]) -> bool:
    """Whether a report is worth a write: rejected tasks are counted with the next one, when there were some before."""
    return _without_count(report) != _without_count(written)


def _without_count(report: Mapping[str, Any]) -> dict[str, Any]:
    slot = report.get("slot")
    if not isinstance(slot, Mapping) or not slot.get("rejected"):
        return dict(report)
    return {**report, "slot": {**slot, "rejected": 1}}


def _is_same_boot(known: Report, look: Look, kernel: NodeKernel) -> bool:
    return look.watched if not kernel.boot_id else _find(known, "kernel", "bootID") == kernel.boot_id


def _describe_slot(before: Mapping[str, Any], look: Look) -> tuple[State | None, Report]:
    """The slot, and the state it is in; None when that is unknown."""
    state = look.state
    if isinstance(state.state, Unknown):
        return None, {"state": _UNKNOWN, "message": _clip(state.state.why)}
    seq = _limit(state.enable_seq)
    word = _settle(before, state.state, state.ops, seq)
    slot: Report = {"state": str(word)}
    if isinstance(state.ops, str):
        slot["ops"] = _clip(state.ops, OPS_LENGTH)
    elif word is State.DISABLING and isinstance(named := _find_name(before, seq), str):
        slot["ops"] = named  # the kernel takes the name away a moment before the state changes
    elif isinstance(state.ops, Unknown):
        slot["message"] = _clip(state.ops.why)
    if seq is not None:
        slot["enableSeq"] = seq
    if word is State.ENABLED:
        if since := _find_since(before, seq, look):
            slot["since"] = since
        rejected = _limit(state.nr_rejected)
        slot |= {} if rejected is None else {"rejected": rejected}
        if not isinstance(state.sub_schedulers, Unknown) and state.sub_schedulers:
            slot["subSchedulers"] = [_clip(ops, OPS_LENGTH) for ops in state.sub_schedulers[:SUB_SCHEDULERS_TOLD]]
    return word, slot


def _settle(before: Mapping[str, Any], word: State, ops: str | Unknown | None, seq: int | None) -> State:
    """The state; a scheduler is attached a moment before enable_seq counts it, and is not before it does."""
    if word is not State.ENABLED or seq is None:
        return word
    departures = _find_number(before, "departures")
    is_gone = seq == 0 or (departures is not None and departures >= seq)
    named = _find_name(before, seq)
    is_another = isinstance(named, str) and isinstance(ops, str) and named != _clip(ops, OPS_LENGTH)
    return State.ENABLING if is_gone or is_another else word


def _find_name(before: Mapping[str, Any], seq: int | None) -> str | None:
    """The name of an attachment, if the slot told it."""
    name = _find(before, "slot", "ops") if _find_number(before, "slot", "enableSeq") == seq else None
    return name if isinstance(name, str) else None


def _find_since(before: Mapping[str, Any], seq: int | None, look: Look) -> str | None:
    if seq is not None and _find_number(before, "slot", "enableSeq") == seq:
        since = _find(before, "slot", "since")
        return since if isinstance(since, str) else None
    return look.time if look.watched and seq is not None else None


def _find_leaving(memory: Memory, before: Mapping[str, Any], word: State | None, look: Look) -> float | None:
    """When the last scheduler was seen to leave: the first look that does not find it."""
    if word not in (State.DISABLING, State.DISABLED):
        return memory.left_at if word is State.ENABLING else None
    return look.clock if look.watched and _find(before, "slot", "state") == State.ENABLED else memory.left_at


def _find_gap(before: Mapping[str, Any], seq: int | None, look: Look, left_at: float | None) -> int | None:
    """How long the kernel was without a scheduler before this one, in milliseconds."""
    if _find(before, "slot", "state") == State.ENABLED and _find_number(before, "slot", "enableSeq") == seq:
        return _find_number(before, "slot", "gapMilliseconds")
    return None if left_at is None or not look.watched else max(0, round((look.clock - left_at) * 1000))


def _count_departures(before: Mapping[str, Any], word: State | None, seq: int) -> int:
    """Each attachment that is counted has ended but the one that is there; a count never goes back."""
    here = word in (State.ENABLED, State.DISABLING)
    told = _find_number(before, "departures") or 0
    return min(seq, max(seq - here, told, 0))


def _describe_detachment(before: Mapping[str, Any], look: Look, departures: int | None) -> Report:
    """The last scheduler that left: the one of which it is news, or the one told before."""
    told = _find_number(before, "departures")
    if departures is None or told is None or departures <= told:
        kept = {name: _find(before, "lastDetach", name) for name in ("ops", "time", "enableSeq")}
        return {name: value for name, value in kept.items() if value is not None}
    # Attachments are counted from 1, so that the number of departures is also the last one's own.
    name = _find_name(before, departures) or next(reversed(look.left), "")
    detachment = {"ops": _clip(name, OPS_LENGTH)} if name else {}
    return detachment | ({"time": look.time} if look.watched else {}) | {"enableSeq": departures}


def _describe_kernel(kernel: NodeKernel) -> Report:
    told: Report = {"supported": _judge_checks(kernel.checks)[0]}
    told |= {"release": _clip(kernel.release)} if kernel.release else {}
    told |= {"bootID": _clip(kernel.boot_id, 64)} if kernel.boot_id else {}
    if problems := _find_problems(kernel.checks):
        told["problems"] = [
            {
                "check": _clip(check.name, 64),
                "severity": str(check.outcome),
                "message": _clip("; ".join(filter(None, (check.seen, check.fix)))),
            }
            for check in problems[:PROBLEMS_TOLD]
        ]
    return told


def _find_problems(checks: Iterable[Check]) -> list[Check]:
    """What is not well or not known, the worst first."""
    return sorted(
        (check for check in checks if check.outcome in _SEVERITIES), key=lambda it: _SEVERITIES.index(it.outcome)
    )


def _judge_checks(checks: Sequence[Check]) -> tuple[str, NodeReason]:
    outcomes = {check.outcome for check in checks}
    known = {check.name for check in checks if check.outcome is not Outcome.UNKNOWN}
    if Outcome.ERROR in outcomes:
        return "False", NodeReason.KERNEL_UNFIT
    if not known.issuperset(ESSENTIAL):
        return "Unknown", NodeReason.NOT_EXAMINED
    return "True", NodeReason.KERNEL_LIMITED if Outcome.WARNING in outcomes else NodeReason.KERNEL_FIT


def _judge_fit(kernel: NodeKernel) -> Report:
    status, reason = _judge_checks(kernel.checks)
    worst = [check for check in _find_problems(kernel.checks) if check.outcome is not Outcome.UNKNOWN]
    if status == "Unknown":
        worst = [check for check in _find_problems(kernel.checks) if check.name in ESSENTIAL]
    message = f"{worst[0].name}: {worst[0].seen}" if worst else reason.about
    return {"type": FIT, "status": status, "reason": str(reason), "message": _clip(message)}


def _judge_attached(word: State | None, slot: Report, look: Look) -> Report:
    if word is None:
        status, reason = "Unknown", NodeReason.STATE_UNKNOWN
        message = look.state.state.why if isinstance(look.state.state, Unknown) else ""
    else:
        status, reason = _ATTACHED[word]
        message = reason.about
        if word is State.ENABLED:
            message = f"{slot['ops']} is attached" if "ops" in slot else "a scheduler of unknown name is attached"
    return {"type": ATTACHED, "status": status, "reason": str(reason), "message": _clip(message)}


def _stamp(report: Report, time: str, condition: Report) -> Report:
    """The condition with the time since when its status is so."""
    told = report.get("conditions")
    for old in told if isinstance(told, list) else ():
        if isinstance(old, Mapping) and (old.get("type"), old.get("status")) == (
            condition["type"],
            condition["status"],
        ):
            since = old.get("lastTransitionTime")
            return condition | {"lastTransitionTime": since if isinstance(since, str) else time}
    return condition | {"lastTransitionTime": time}


def _clip(text: str, length: int = TEXT_LENGTH) -> str:
    text = clean(text)
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _limit(number: object) -> int | None:
    """A count as the definition takes it; anything else is not known."""
    return number if type(number) is int and 0 <= number <= LARGEST_NUMBER else None


def _find(values: object, *path: str) -> Any:
    for name in path:
        values = values.get(name) if isinstance(values, Mapping) else None
    return values


def _find_number(values: object, *path: str) -> int | None:
    return _limit(_find(values, *path))
