"""Reports from made-up looks at made-up kernels, some of which say anything at all."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schedkit.kernel.check import ESSENTIAL, Check, Outcome
from schedkit.kernel.state import KernelState, State
from schedkit.sked.agent.report import Look, Memory, NodeKernel, advance, is_news, is_passing, pick_own
from schedkit.sked.api.kinds import SCHEDEXTNODE
from schedkit.sked.api.limits import OPS_LENGTH, TEXT_LENGTH
from schedkit.sked.api.node_types import SchedExtNodeStatus
from schedkit.sked.api.schema import Schema
from schedkit.unknown import Unknown

FIT = [Check(name, Outcome.OK, "fine") for name in ESSENTIAL]
KERNEL = NodeKernel("6.12.41", "boot-1", FIT)
EMPTY = Memory({}, {})
FREE = KernelState(State.DISABLED, enable_seq=3, nr_rejected=0)
FIFO = KernelState(State.ENABLED, ops="schedkit_fifo", enable_seq=4, nr_rejected=0)
LARGEST_REPORT = 32 << 10


def at(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z"


def see(*states: KernelState, memory: Memory = EMPTY, kernel: NodeKernel = KERNEL, start: int = 0) -> Memory:
    """The memory after looks, one a second; the first one's time is `start`."""
    for number, state in enumerate(states):
        memory = advance(memory, Look(state, at(start + number), watched=number > 0), kernel)
    return memory


def condition(memory: Memory, kind: str) -> dict[str, Any]:
    (found,) = (each for each in memory.report["conditions"] if each["type"] == kind)
    return dict(found)


def test_free_slot() -> None:
    report = see(FREE).report
    assert report["slot"] == {"state": "disabled", "enableSeq": 3}
    assert (report["attachments"], report["departures"]) == (3, 3)
    assert "lastDetach" not in report
    assert condition(see(FREE), "Attached") == {
        "type": "Attached",
        "status": "False",
        "reason": "SlotFree",
        "message": "No scheduler is attached.",
        "lastTransitionTime": at(0),
    }


def test_attachment_that_was_seen_has_a_time_and_keeps_it() -> None:
    memory = see(FREE, FIFO, FIFO)
    assert memory.report["slot"] == {
        "state": "enabled",
        "ops": "schedkit_fifo",
        "enableSeq": 4,
        "since": at(1),
        "rejected": 0,
    }
    assert (memory.report["attachments"], memory.report["departures"]) == (4, 3)
    assert (condition(memory, "Attached")["status"], condition(memory, "Attached")["lastTransitionTime"]) == (
        "True",
        at(1),
    )
    assert condition(memory, "Attached")["message"] == "schedkit_fifo is attached"


def test_restart_of_the_agent_keeps_since_and_transition_times() -> None:
    before = see(FREE, FIFO)
    after = see(FIFO, memory=Memory.recall(json.loads(json.dumps(before.report))), start=60)
    assert after.report == before.report


def test_attachment_that_nobody_saw_has_no_time() -> None:
    assert "since" not in see(FIFO).report["slot"]
    later = FIFO._replace(enable_seq=7)
    assert "since" not in see(later, memory=Memory.recall(see(FREE, FIFO).report), start=60).report["slot"]


def test_another_boot_begins_anew() -> None:
    before = see(FREE, FIFO, FREE._replace(enable_seq=4))
    assert before.report["lastDetach"]
    other = KERNEL._replace(boot_id="boot-2")
    report = see(KernelState(State.DISABLED, enable_seq=0), memory=before, kernel=other, start=60).report
    assert (report["attachments"], report["departures"]) == (0, 0)
    assert "lastDetach" not in report
    same = FIFO._replace(enable_seq=4)
    assert "since" not in see(same, memory=see(FREE, FIFO), kernel=other, start=60).report["slot"]


def test_one_that_left_is_told_with_its_name() -> None:
    memory = see(FREE, FIFO, FREE._replace(enable_seq=4))
    assert memory.report["lastDetach"] == {"ops": "schedkit_fifo", "time": at(2), "enableSeq": 4}
    assert see(FREE._replace(enable_seq=4), memory=memory, start=9).report["lastDetach"]["time"] == at(2)


def test_name_is_kept_while_it_leaves() -> None:
    leaving = KernelState(State.DISABLING, enable_seq=4)
    assert see(FREE, FIFO, leaving).report["slot"] == {"state": "disabling", "enableSeq": 4, "ops": "schedkit_fifo"}
    gone = see(FREE, FIFO, leaving, FREE._replace(enable_seq=4))
    assert gone.report["lastDetach"]["ops"] == "schedkit_fifo"


def test_one_that_came_and_went_between_two_looks_is_counted_and_named_by_its_event() -> None:
    memory = see(FREE)
    gone = advance(memory, Look(FREE._replace(enable_seq=5), at(1), watched=True, left=("a", "b")), KERNEL)
    assert (gone.report["attachments"], gone.report["departures"]) == (5, 5)
    assert gone.report["lastDetach"] == {"ops": "b", "time": at(1), "enableSeq": 5}
    unnamed = advance(memory, Look(FREE._replace(enable_seq=5), at(1), watched=True), KERNEL)
    assert unnamed.report["lastDetach"] == {"time": at(1), "enableSeq": 5}


def test_change_from_one_to_the_next_is_a_departure_and_an_attachment() -> None:
    memory = see(FREE, FIFO, KernelState(State.ENABLED, ops="other", enable_seq=5))
    assert memory.report["lastDetach"] == {"ops": "schedkit_fifo", "time": at(2), "enableSeq": 4}
    assert memory.report["slot"]["since"] == at(2)
    assert (memory.report["attachments"], memory.report["departures"]) == (5, 4)


def test_enabled_before_it_is_counted_is_not_attached_yet() -> None:
    """The kernel says enabled a moment before enable_seq grows: the number would be the one's before it."""
    early = see(FREE, FIFO._replace(enable_seq=3))
    assert early.report["slot"]["state"] == "enabling"
    assert is_passing(early.report)
    assert early.report["departures"] == 3
    assert see(FIFO, memory=early).report["slot"]["state"] == "enabled"
    replaced = see(FREE, FIFO, FIFO._replace(ops="other"))
    assert replaced.report["slot"]["state"] == "enabling"


def test_unreadable_state_is_unknown_and_forgets_nothing() -> None:
    unreadable = KernelState(Unknown("/sys: Permission denied"))
    memory = see(FREE, FIFO, unreadable)
    assert memory.report["slot"] == {"state": "unknown", "message": "/sys: Permission denied"}
    assert condition(memory, "Attached")["status"] == "Unknown"
    assert "attachments" not in memory.report
    again = see(unreadable, unreadable, memory=memory, start=10)
    assert again.report == memory.report, "an unchanged report is not written again"
    back = see(FIFO, memory=again, start=20)
    assert back.report["slot"]["since"] == at(1)
    assert condition(back, "Attached")["lastTransitionTime"] == at(20)


def test_kernel_without_sched_ext() -> None:
    memory = see(KernelState(State.UNSUPPORTED))
    assert memory.report["slot"] == {"state": "unsupported"}
    assert condition(memory, "Attached")["reason"] == "NoSchedExt"


@pytest.mark.parametrize(
    ("checks", "supported", "reason"),
    [
        (FIT, "True", "KernelFit"),
        ([*FIT, Check("kernel.config", Outcome.UNKNOWN, "not there")], "True", "KernelFit"),
        ([*FIT, Check("kernel.btf_kfuncs", Outcome.WARNING, "malformed")], "True", "KernelLimited"),
        ([*FIT[1:], Check("kernel.version", Outcome.ERROR, "5.15", "boot 6.12")], "False", "KernelUnfit"),
        ([*FIT[1:], Check("kernel.version", Outcome.UNKNOWN, "unreadable")], "Unknown", "NotExamined"),
        ([], "Unknown", "NotExamined"),
    ],
)
def test_fitness_follows_from_the_checks(checks: list[Check], supported: str, reason: str) -> None:
    memory = see(FREE, kernel=KERNEL._replace(checks=checks))
    assert memory.report["kernel"]["supported"] == supported
    assert (condition(memory, "Fit")["status"], condition(memory, "Fit")["reason"]) == (supported, reason)


def test_problems_are_told_worst_first_with_what_to_do() -> None:
    checks = [
        Check("a", Outcome.UNKNOWN, "not seen"),
        Check("b", Outcome.WARNING, "seen", "do this"),
        Check("c", Outcome.ERROR, "bad"),
        *FIT,
    ]
    assert see(FREE, kernel=KERNEL._replace(checks=checks)).report["kernel"]["problems"] == [
        {"check": "c", "severity": "error", "message": "bad"},
        {"check": "b", "severity": "warning", "message": "seen; do this"},
        {"check": "a", "severity": "unknown", "message": "not seen"},
    ]


def test_rejected_tasks_are_news_once() -> None:
    none, some, more = (see(FREE, FIFO._replace(nr_rejected=count)).report for count in (0, 1, 9))
    assert is_news(some, none)
    assert not is_news(more, some)
    assert is_news(see(FREE).report, {})


def test_what_the_operator_wrote_is_not_compared() -> None:
    report = see(FREE, FIFO).report
    theirs = {"type": "Judged", "status": "True"}
    conditions = [theirs, *reversed(report["conditions"])]
    assert pick_own({**report, "schedExt": "default/a", "conditions": conditions}) == report
    assert pick_own(None) == pick_own([]) == {}


names = st.one_of(st.none(), st.text(max_size=300), st.builds(Unknown, st.text(max_size=2000)))
numbers = st.one_of(
    st.none(), st.integers(min_value=-(10**20), max_value=10**20), st.builds(Unknown, st.text(max_size=2000))
)
states = st.builds(
    KernelState,
    st.one_of(st.sampled_from(State), st.builds(Unknown, st.text(max_size=2000))),
    ops=names,
    enable_seq=numbers,
    nr_rejected=numbers,
    sub_schedulers=st.one_of(
        st.lists(st.text(max_size=300), max_size=40).map(tuple), st.builds(Unknown, st.text(max_size=9))
    ),
)
checks = st.lists(
    st.builds(
        Check,
        st.one_of(st.sampled_from(ESSENTIAL), st.text(max_size=100)),
        st.sampled_from(Outcome),
        st.text(max_size=2000),
        st.text(max_size=2000),
    ),
    max_size=40,
)
kernels = st.builds(NodeKernel, st.text(max_size=2000), st.text(max_size=200), checks)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=20)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=9), inner, max_size=3)),
    max_leaves=8,
)


def find_excess(value: Any, schema: Schema, path: str = "status") -> list[str]:
    """Where a value exceeds what the definition allows."""
    if schema.items:
        assert len(value) <= schema.keywords.get("maxItems", len(value)), path
        return [found for item in value for found in find_excess(item, schema.items, f"{path}[]")]
    if schema.properties:
        assert set(value) <= set(schema.properties), path
        return [
            found
            for name, item in value.items()
            for found in find_excess(item, schema.properties[name], f"{path}.{name}")
        ]
    if isinstance(value, str) and len(value) > schema.keywords.get("maxLength", len(value)):
        return [path]
    if value not in schema.keywords.get("enum", [value]):
        return [f"{path}: {value}"]
    return []


@settings(deadline=None)
@given(st.lists(states, min_size=1, max_size=4), kernels, st.lists(st.text(max_size=300), max_size=3).map(tuple))
def test_report_is_bounded_and_valid_whatever_the_kernel_says(
    looks: list[KernelState], kernel: NodeKernel, left: tuple[str, ...]
) -> None:
    memory = EMPTY
    for number, state in enumerate(looks):
        memory = advance(memory, Look(state, at(number), watched=number > 0, left=left), kernel)
        text = json.dumps(memory.report, ensure_ascii=False)
        assert len(text) < LARGEST_REPORT
        assert not find_excess(memory.report, SCHEDEXTNODE.schema.properties["status"])
        msgspec.convert(memory.report, SchedExtNodeStatus)
        assert memory.report["slot"].get("ops", "").isprintable()
    assert max(OPS_LENGTH, TEXT_LENGTH) < LARGEST_REPORT


@settings(deadline=None)
@given(values, states, kernels)
def test_any_history_will_do(history: Any, state: KernelState, kernel: NodeKernel) -> None:
    for found in (history, {"slot": history, "kernel": history, "conditions": history, "departures": history}):
        memory = see(state, memory=Memory.recall(found), kernel=kernel)
        assert not find_excess(memory.report, SCHEDEXTNODE.schema.properties["status"])
        pick_own(found)


class Kernel:
    """A kernel that does what kernels do, seen at any moment of it."""

    def __init__(self) -> None:
        self.seq = 0
        self.state = State.DISABLED
        self.ops: str | None = None
        self.lives: list[int] = []  # the numbers of those that left

    def do(self, step: str) -> None:
        if step == "come" and self.state is State.DISABLED:
            self.state, self.ops = State.ENABLED, f"ops_{self.seq + 1}"  # counted a moment later
        elif step == "count" and self.state is State.ENABLED and self.ops == f"ops_{self.seq + 1}":
            self.seq += 1
        elif step == "go" and self.state is State.ENABLED and self.ops == f"ops_{self.seq}":
            self.state = State.DISABLING
        elif step == "unname" and self.state is State.DISABLING:
            self.ops = None
        elif step == "gone" and self.state is State.DISABLING:
            self.state, self.ops = State.DISABLED, None
            self.lives.append(self.seq)

    def read(self) -> KernelState:
        return KernelState(self.state, ops=self.ops, enable_seq=self.seq, nr_rejected=0)


STEPS = ("come", "count", "go", "unname", "gone", "look", "restart", "unreadable")
steps = st.lists(st.sampled_from(STEPS), max_size=60)


@settings(deadline=None, max_examples=300)
@given(steps)
@example(["look", "come", "count", "go", "gone", "come", "look"])
def test_counts_never_go_back_and_are_right_whenever_it_stands_still(steps: list[str]) -> None:
    kernel, memory, watched = Kernel(), EMPTY, False
    told = seen_seq = 0
    for number, step in enumerate(steps):
        kernel.do(step)
        if step == "restart":
            memory, watched = Memory.recall(json.loads(json.dumps(memory.report))), False
        if step not in ("look", "unreadable"):
            continue
        if not watched or kernel.seq != seen_seq:
            # One that is not counted yet is told from the one before it only by who saw that one; a look later it is.
            kernel.do("count")
        seen_seq = kernel.seq
        state = kernel.read() if step == "look" else KernelState(Unknown("unreadable"))
        before = memory
        memory = advance(memory, Look(state, at(number), watched=watched), KERNEL)
        watched = step == "look"
        report = memory.report
        if "departures" not in report:
            continue
        assert told <= report["departures"] <= report["attachments"] == kernel.seq
        told = report["departures"]
        if state.state is State.DISABLED:
            assert report["departures"] == len(kernel.lives)
        if (seen := report["slot"]).get("state") == "enabled":
            assert seen["ops"] == f"ops_{seen['enableSeq']}", "the number is this one's own"
            old = before.known.get("slot", {})
            if old.get("state") == "enabled" and old["enableSeq"] == seen["enableSeq"]:
                assert seen.get("since") == old.get("since")
        if last := report.get("lastDetach"):
            assert last["enableSeq"] in kernel.lives
            assert last.get("ops", f"ops_{last['enableSeq']}") == f"ops_{last['enableSeq']}"
