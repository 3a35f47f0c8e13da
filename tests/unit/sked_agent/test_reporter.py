"""When a report is read and written, by a clock that the test turns."""

import pytest

from schedkit.kernel.check import ESSENTIAL, Check, Outcome
from schedkit.kernel.state import KernelState, State
from schedkit.sked.agent.api import StoredReport
from schedkit.sked.agent.report import Look
from schedkit.sked.agent.reporter import BURST, PASSING_SECONDS, REFILL_SECONDS, RETRY_CAP_SECONDS, Reporter
from schedkit.sked.kube.backoff import Backoff
from schedkit.unknown import Unknown

FIT = [Check(name, Outcome.OK, "fine") for name in ESSENTIAL]
FREE = KernelState(State.DISABLED, enable_seq=3, nr_rejected=0)
FIFO = KernelState(State.ENABLED, ops="schedkit_fifo", enable_seq=4, nr_rejected=0)


def look(state: KernelState, second: int = 0) -> Look:
    return Look(state, f"2026-01-01T00:00:{second:02}Z")


@pytest.fixture
def reporter() -> Reporter:
    return Reporter("6.12.41", "boot-1", Backoff(1, RETRY_CAP_SECONDS, lambda _low, high: high))


@pytest.fixture
def settled(reporter: Reporter) -> Reporter:
    """One that has written its first report."""
    reporter.examine(FIT, 0)
    reporter.see(look(FREE), 0)
    reporter.accept_fetched(None, 0)
    assert reporter.choose(0) == "create"
    reporter.accept_written(reporter.report)
    return reporter


def test_what_was_written_before_is_read_first_and_nothing_before_the_kernel_was_examined(reporter: Reporter) -> None:
    reporter.see(look(FREE), 0)
    assert (reporter.choose(0), reporter.find_time(0)) == (None, None)
    assert reporter.unreadiness == "the kernel is being examined"
    reporter.examine(FIT, 1)
    assert reporter.choose(1) == "fetch"
    reporter.accept_fetched(None, 2)
    assert reporter.unreadiness == "the report is being written"
    assert reporter.choose(2) == "create"
    reporter.accept_written(reporter.report)
    assert (reporter.choose(3), reporter.find_time(3), reporter.unreadiness) == (None, None, "")


def test_only_news_is_written(settled: Reporter) -> None:
    settled.see(look(FREE, 9), 9)
    assert settled.choose(9) is None
    settled.see(look(FIFO, 10), 10)
    assert settled.choose(10) == "write"


def test_report_that_is_up_to_date_is_not_written_again_after_a_restart(settled: Reporter) -> None:
    again = Reporter("6.12.41", "boot-1")
    again.examine(FIT, 0)
    again.see(look(FREE, 30), 0)
    again.accept_fetched(StoredReport({**settled.report, "schedExt": "default/a"}, is_owned=True), 0)
    assert again.choose(0) is None
    assert again.unreadiness == ""


def test_report_that_is_not_the_nodes_own_is_made_so(settled: Reporter) -> None:
    again = Reporter("6.12.41", "boot-1")
    again.examine(FIT, 0)
    again.see(look(FREE, 30), 0)
    again.accept_fetched(StoredReport(settled.report, is_owned=False), 0)
    assert again.choose(0) == "create"


def test_what_happened_before_the_first_answer_is_not_lost(reporter: Reporter) -> None:
    reporter.examine(FIT, 0)
    for second, state in enumerate((FREE, FIFO, FREE._replace(enable_seq=4), FIFO._replace(enable_seq=5))):
        reporter.see(look(state, second), second)
    reporter.fail("no answer", 0, 4)
    reporter.accept_fetched(None, 9)
    assert reporter.report["slot"]["since"] == "2026-01-01T00:00:03Z"
    assert reporter.report["lastDetach"] == {
        "ops": "schedkit_fifo",
        "time": "2026-01-01T00:00:02Z",
        "enableSeq": 4,
    }


def test_what_waits_for_the_first_answer_is_bounded(reporter: Reporter) -> None:
    reporter.examine(FIT, 0)
    for number in range(1000):
        reporter.see(look(FREE._replace(enable_seq=number)), number)
    reporter.accept_fetched(None, 1000)
    assert (reporter.report["attachments"], reporter.report["departures"]) == (999, 999)


def test_failures_are_repeated_later_and_later_and_as_late_as_the_server_asks(settled: Reporter) -> None:
    settled.see(look(FIFO), 10)
    assert settled.choose(10) == "write"
    settled.fail("refused", 0, 10)
    assert (settled.choose(10.9), settled.find_time(10.9), settled.unreadiness) == (None, 11, "refused")
    assert settled.choose(11) == "write"
    settled.fail("refused", 0, 11)
    assert settled.find_time(11) == 13
    settled.fail("busy", 60, 13)
    assert settled.find_time(13) == 73
    for _ in range(20):
        settled.fail("refused", 0, 100)
    assert settled.find_time(100) == 100 + RETRY_CAP_SECONDS
    assert settled.choose(140) == "write"
    settled.accept_written(settled.report)
    assert (settled.unreadiness, settled.find_time(140)) == ("", None)


def test_outage_ends_with_one_write(settled: Reporter) -> None:
    for second, state in enumerate((FIFO, FREE._replace(enable_seq=4), FIFO._replace(enable_seq=5)), start=1):
        settled.see(look(state, second), second)
    assert settled.choose(5) == "write"
    settled.fail("no answer", 0, 5)
    settled.see(look(FREE._replace(enable_seq=5), 6), 6)
    assert settled.choose(8) == "write"
    settled.accept_written(settled.report)
    assert settled.choose(9) is None
    assert settled.report["departures"] == 5


def test_what_changed_while_it_was_written_is_written_next(settled: Reporter) -> None:
    settled.see(look(FIFO, 1), 1)
    assert settled.choose(1) == "write"
    sent = settled.report
    settled.see(look(FREE._replace(enable_seq=4), 2), 2)
    settled.accept_written(sent)
    assert settled.choose(2) == "write"


def test_state_that_passes_is_not_told_unless_it_stays(settled: Reporter) -> None:
    settled.see(look(FREE._replace(state=State.ENABLING), 1), 1)
    assert (settled.choose(1), settled.find_time(1)) == (None, 1 + PASSING_SECONDS)
    settled.see(look(FIFO, 2), 1.5)
    assert settled.choose(1.5) == "write"
    settled.accept_written(settled.report)
    settled.see(look(FIFO._replace(state=State.DISABLING), 3), 10)
    assert settled.choose(10) is None
    assert settled.choose(10 + PASSING_SECONDS) == "write"


def test_scheduler_that_comes_and_goes_all_day_costs_few_writes(settled: Reporter) -> None:
    written = 0
    for tenth in range(600):
        now = 100 + tenth / 10
        settled.see(look(FREE._replace(enable_seq=4 + tenth), tenth % 60), now)
        if settled.choose(now):
            settled.accept_written(settled.report)
            written += 1
    assert written <= BURST + 60 / REFILL_SECONDS + 1


def test_deleted_report_is_found_missing_and_written_again(settled: Reporter) -> None:
    settled.doubt()
    assert settled.choose(300) == "fetch"
    settled.accept_fetched(StoredReport(settled.report, is_owned=True), 300)
    assert settled.choose(300) is None
    settled.doubt()
    settled.accept_fetched(None, 600)
    assert settled.choose(600) == "create"


def test_unreadable_kernel_is_told_and_not_ready(settled: Reporter) -> None:
    settled.see(look(KernelState(Unknown("/sys: Permission denied")), 5), 5)
    assert settled.unreadiness == "the kernel cannot be looked at: /sys: Permission denied"
    assert settled.choose(5) == "write"
    settled.accept_written(settled.report)
    settled.see(look(FIFO, 9), 9)
    assert "since" not in settled.report["slot"], "nobody watched meanwhile"
