import os
import select
import signal
import time

import pytest

from schedkit.errors import SchedkitError
from schedkit.sked.agent.api import ReportNotWrittenError, StoredReport
from schedkit.sked.agent.child import Child, ChildFailure


def finish(child: Child) -> dict[str, object] | ChildFailure:
    while True:
        assert select.select([child], [], [], 30)[0]
        if (result := child.take()) is not None:
            return result


def fail(error: Exception) -> object:
    raise error


def test_result_comes_back_however_large() -> None:
    assert finish(Child(lambda: StoredReport({"a": "x" * 300_000}, is_owned=True), 30)) == {
        "value": [{"a": "x" * 300_000}, True]
    }
    assert finish(Child(lambda: None, 30)) == {"value": None}


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (ReportNotWrittenError("busy", retry_after=7), ChildFailure("busy", 7)),
        (SchedkitError("no"), ChildFailure("no")),
        (KeyError("a"), ChildFailure("KeyError: 'a'")),
        (SystemExit(3), ChildFailure("ended with status 0 and no result")),
    ],
)
def test_error_becomes_a_failure(error: Exception, failure: ChildFailure) -> None:
    assert finish(Child(lambda: fail(error), 30)) == failure


def test_work_that_hangs_ends_in_time_and_leaves_no_process() -> None:
    started = time.monotonic()
    child = Child(lambda: time.sleep(600), 1)
    assert finish(child) == ChildFailure("no answer within 1 s")
    assert time.monotonic() - started < 30
    with pytest.raises(ChildProcessError):
        os.waitpid(child._pid, 0)


def test_killed_work_is_told() -> None:
    child = Child(lambda: time.sleep(600), 60)
    os.kill(child._pid, signal.SIGKILL)
    assert finish(child) == ChildFailure("killed by signal 9")


def test_result_that_is_no_json_is_a_failure() -> None:
    assert finish(Child(object, 30)) == ChildFailure("ended with status 0 and no result")
