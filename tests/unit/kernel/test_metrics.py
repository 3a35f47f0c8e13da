from schedkit.kernel.metrics import describe_slot, render_metrics
from schedkit.kernel.state import KernelState, State
from schedkit.unknown import Unknown

ATTACHED = KernelState(
    State.ENABLED,
    ops="schedkit_fifo",
    enable_seq=4,
    nr_rejected=0,
    events={"SCX_EV_SELECT_CPU_FALLBACK": 7, "SCX_EV_DISPATCH_KEEP_LAST": 2},
    sub_schedulers=("below",),
)
TEXT = """\
# TYPE sched_ext_state gauge
# HELP sched_ext_state 1 for what the kernel's slot is doing, else 0.
sched_ext_state{state="enabling"} 0
sched_ext_state{state="enabled"} 1
sched_ext_state{state="disabling"} 0
sched_ext_state{state="disabled"} 0
sched_ext_state{state="unsupported"} 0
sched_ext_state{state="unknown"} 0
# TYPE sched_ext_info gauge
# HELP sched_ext_info The attached scheduler's own name, and the kernel's release.
sched_ext_info{ops="schedkit_fifo",release="6.16.1"} 1
# TYPE sched_ext_enable_seq gauge
# HELP sched_ext_enable_seq Schedulers attached since boot.
sched_ext_enable_seq 4
# TYPE sched_ext_nr_rejected gauge
# HELP sched_ext_nr_rejected Tasks that the kernel refused to hand to the scheduler since it attached.
sched_ext_nr_rejected 0
# TYPE sched_ext_attached_timestamp_seconds gauge
# HELP sched_ext_attached_timestamp_seconds When the scheduler was seen to attach.
sched_ext_attached_timestamp_seconds 1767225600.5
# TYPE sched_ext_sub_schedulers gauge
# HELP sched_ext_sub_schedulers Schedulers attached below it.
sched_ext_sub_schedulers 1
# TYPE sched_ext_events counter
# HELP sched_ext_events What the kernel counts of the attached scheduler.
sched_ext_events_total{event="SCX_EV_DISPATCH_KEEP_LAST"} 2
sched_ext_events_total{event="SCX_EV_SELECT_CPU_FALLBACK"} 7
# EOF
"""


def test_attached_scheduler_has_every_metric() -> None:
    assert render_metrics(describe_slot(ATTACHED, release="6.16.1", attached_at=1767225600.5)) == TEXT


def test_every_type_is_one_that_the_older_text_format_has() -> None:
    kinds = {line.split()[3] for line in TEXT.splitlines() if line.startswith("# TYPE ")}
    assert kinds <= {"counter", "gauge", "histogram", "summary", "untyped"}


def test_what_is_unknown_or_absent_has_no_sample() -> None:
    names = [family.name for family in describe_slot(KernelState(Unknown("unreadable"), enable_seq=Unknown("why")))]
    assert names == ["sched_ext_state", "sched_ext_info"]
    text = render_metrics(describe_slot(KernelState(State.UNSUPPORTED)))
    assert 'sched_ext_state{state="unsupported"} 1\n' in text
    assert 'sched_ext_info{ops=""} 1\n' in text


def test_names_from_elsewhere_stay_inside_their_quotes() -> None:
    text = render_metrics(describe_slot(KernelState(State.ENABLED, ops='a"} 1\nb\\')))
    assert 'sched_ext_info{ops="a\\"} 1\\nb\\\\"} 1\n' in text
