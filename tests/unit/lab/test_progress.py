"""What the lab says while it works."""

import io

from lab.progress import Progress, format_about


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def make_progress() -> tuple[Progress, io.StringIO, Clock]:
    said, clock = io.StringIO(), Clock()
    return Progress(said, clock), said, clock


def test_many_steps_are_counted_with_what_is_left() -> None:
    progress, said, clock = make_progress()
    with progress.count({"kernel": 480.0, "kube": 300.0, "helm": 60.0}, at_a_time=2):
        with progress.step("kernel", expected=480.0), progress.step("kube", expected=300.0):
            clock.now = 120.0
            assert progress.describe() == (
                "0/3 after 2 min 00 s, about 6 min left: "
                "kernel 2 min 00 s of about 8 min, kube 2 min 00 s of about 5 min"
            )
            clock.now = 500.0
            assert "0/3 after 8 min 20 s, about 60 s left" in progress.describe()
        assert said.getvalue() == "lab: [1/3] kube: 8 min 20 s\nlab: [2/3] kernel: 8 min 20 s\n"


def test_single_step_says_when_it_begins_and_ends() -> None:
    progress, said, clock = make_progress()
    with progress.step("booting a machine", expected=20.0):
        clock.now = 17.0
    assert said.getvalue() == "lab: booting a machine (about 20 s) …\nlab: booting a machine: 17.0 s\n"


def test_quiet_progress_says_nothing_and_still_knows() -> None:
    progress, said, clock = make_progress()
    progress.quiet = True
    with progress.step("kernel", expected=480.0):
        clock.now = 60.0
        assert progress.describe() == "kernel 1 min 00 s of about 8 min"
    assert said.getvalue() == ""


def test_what_will_take_long_is_told_in_minutes() -> None:
    assert [format_about(seconds) for seconds in (0.2, 12, 60, 61, 470)] == ["5 s", "15 s", "60 s", "2 min", "8 min"]
