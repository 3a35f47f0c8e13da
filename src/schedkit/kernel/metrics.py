"""What the kernel's slot is doing as OpenMetrics text: the names are the same whoever serves it.

Only what Prometheus' older text format has as well: node_exporter reads files by that, and refuses a whole file for a
type that it does not know, such as info.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from schedkit.kernel.state import KernelState, State
from schedkit.unknown import Unknown

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
END = "# EOF\n"
_UNKNOWN = "unknown"


class MetricFamily(NamedTuple):
    """A metric: its samples are a suffix of the name, labels, and a value."""

    name: str
    kind: str
    about: str
    samples: Iterable[tuple[str, Mapping[str, str], float]]


def describe_slot(state: KernelState, *, release: str = "", attached_at: float | None = None) -> Iterator[MetricFamily]:
    """The metrics of one look at the kernel; what is unknown or does not exist has no sample."""
    word = _UNKNOWN if isinstance(state.state, Unknown) else str(state.state)
    ops = state.ops if isinstance(state.ops, str) else ""
    states = [("", {"state": name}, float(name == word)) for name in (*map(str, State), _UNKNOWN)]
    yield MetricFamily("sched_ext_state", "gauge", "1 for what the kernel's slot is doing, else 0.", states)
    names = {"ops": ops} | ({"release": release} if release else {})
    about = "The attached scheduler's own name, and the kernel's release."
    yield MetricFamily("sched_ext_info", "gauge", about, [("", names, 1)])
    for name, about, number in (
        ("enable_seq", "Schedulers attached since boot.", state.enable_seq),
        ("nr_rejected", "Tasks that the kernel refused to hand to the scheduler since it attached.", state.nr_rejected),
        ("attached_timestamp_seconds", "When the scheduler was seen to attach.", attached_at),
    ):
        if isinstance(number, int | float):
            yield MetricFamily(f"sched_ext_{name}", "gauge", about, [("", {}, number)])
    if not isinstance(state.sub_schedulers, Unknown) and ops:
        below = float(len(state.sub_schedulers))
        yield MetricFamily("sched_ext_sub_schedulers", "gauge", "Schedulers attached below it.", [("", {}, below)])
    if state.events is not None and not isinstance(state.events, Unknown):
        events = [("_total", {"event": name}, count) for name, count in sorted(state.events.items()) if count >= 0]
        yield MetricFamily("sched_ext_events", "counter", "What the kernel counts of the attached scheduler.", events)


def render_metrics(families: Iterable[MetricFamily]) -> str:
    """The metrics as text."""
    return "".join(line for family in families for line in _render_family(family)) + END


def _render_family(family: MetricFamily) -> Iterator[str]:
    yield f"# TYPE {family.name} {family.kind}\n"
    yield f"# HELP {family.name} {_escape(family.about)}\n"
    for suffix, labels, value in family.samples:
        told = ",".join(f'{name}="{_escape(text)}"' for name, text in labels.items())
        yield f"{family.name}{suffix}{f'{{{told}}}' if told else ''} {_render_number(value)}\n"


def _render_number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
