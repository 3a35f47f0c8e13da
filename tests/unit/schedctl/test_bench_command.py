"""The command around a bench: what it shows, writes and ends with, whatever the runs gave."""

import json
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from click.testing import Result

from schedkit.errors import ExitCode
from schedkit.host.bench import Benched, Entrant, Notice
from schedkit.host.errors import NotAttachedError
from schedkit.host.model import Host, RunRequest, Verify
from schedkit.measure.model import RunEnding
from schedkit.measure.plan import PlannedRun, make_plan
from schedkit.measure.sampling import Work
from schedkit.schedctl.group import schedctl
from tests.documents import missing, undocumented
from tests.unit.measure.making import MACHINE, make_contender, make_runs
from tests.unit.schedctl.fakes import FakeRuntime
from tests.unit.schedctl.runner import make_runner

WORDS = ["bench", "--with", "none,scx_rusty", "--runs", "8", "--seed", "5"]


class FakeBench:
    """Runs that were never made; `lost` are those, by number, that gave no number."""

    def __init__(self) -> None:
        self.lost: dict[int, tuple[RunEnding, str]] = {}
        self.made: int | None = None  # None: all
        self.interrupted = False
        self.trouble: NotAttachedError | None = None
        self.verified: list[str] = []
        self.work: Work | None = None

    def prepare(
        self, _host: Host, labels: Sequence[str], requests: Sequence[RunRequest | None], verify: Verify
    ) -> list[Entrant]:
        self.verified += [request.image.reference for request in requests if request]
        return [Entrant(make_contender(label), request) for label, request in zip(labels, requests, strict=True)]

    def bench(
        self,
        _host: Host,
        entrants: Sequence[Entrant],
        plan: Sequence[PlannedRun],
        work: Work,
        *,
        settle: float,
        notice: Notice,
    ) -> Benched:
        assert tuple(plan) == make_plan(2, 8, 1, 5)
        assert settle == 1.0
        self.work = work
        runs = make_runs([1.0, 1.2], 8)[: self.made]
        for number, (ending, why) in self.lost.items():
            runs[number - 1] = runs[number - 1]._replace(ending=ending, why=why)
        for run in runs:
            notice(run, len(plan))
        return Benched(tuple(one.contender for one in entrants), tuple(runs), self.interrupted, self.trouble)


@pytest.fixture
def fake(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> FakeBench:
    fake = FakeBench()
    monkeypatch.setattr("schedkit.host.bench.check_bench", lambda _: None)
    monkeypatch.setattr("schedkit.host.bench.prepare", fake.prepare)
    monkeypatch.setattr("schedkit.host.bench.bench", fake.bench)
    monkeypatch.setattr("schedkit.measure.environment.read_environment", lambda _: MACHINE)
    return fake


def call(*words: str) -> Result:
    return make_runner().invoke(schedctl, [*WORDS, *words, "--", "true"], standalone_mode=False)


def test_the_answer_is_on_stdout_and_the_way_to_it_on_stderr(fake: FakeBench) -> None:
    done = call()
    assert done.return_value == ExitCode.OK
    assert done.stdout.startswith("true\n\nSCHEDULER")
    assert "scx_rusty is slower than none: wall time × 1." in done.stdout
    assert "warning: turbo is on" in done.stderr
    assert "run 1 of 18: " in done.stderr
    assert "(warm-up)" in done.stderr
    assert fake.verified == ["ghcr.io/schedkit/scx_rusty:latest"]


@pytest.mark.parametrize(
    ("caller", "words", "warned"),
    [("alice", [], True), ("alice", ["--user", "root"], False), ("root", [], False), (None, [], False)],
)
def test_who_types_sudo_is_told_that_the_command_runs_as_root(
    fake: FakeBench, monkeypatch: pytest.MonkeyPatch, caller: str | None, words: list[str], warned: bool
) -> None:
    monkeypatch.delenv("SUDO_USER", raising=False)
    if caller:
        monkeypatch.setenv("SUDO_USER", caller)
    told = "warning: the command runs as root; --user alice runs it as you\n"
    assert (told in call(*words).stderr) is warned


def test_json_has_all_samples(fake: FakeBench) -> None:
    document = json.loads(call("-o", "json").stdout)
    assert undocumented("bench", document) == []
    assert missing("bench", document) == []
    assert (len(document["samples"]), document["seed"], document["driver"]) == (18, 5, "podman")


def test_the_report_is_written(fake: FakeBench, tmp_path: Path) -> None:
    assert call("--report", str(tmp_path / "out.html")).return_value == ExitCode.OK
    page = (tmp_path / "out.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "scx_rusty is slower than none" in page


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        (RunEnding.EJECTED, ExitCode.EJECTED),
        (RunEnding.FAILED, ExitCode.COMMAND_FAILED),
        (RunEnding.NO_METRIC, ExitCode.BAD_DATA),
        (RunEnding.NOT_ATTACHED, ExitCode.NOT_ATTACHED),
        (RunEnding.DETACHED, ExitCode.NOT_ATTACHED),
        (RunEnding.DISTURBED, ExitCode.FAILURE),
        (RunEnding.UNKNOWN, ExitCode.FAILURE),
    ],
)
def test_runs_that_are_no_numbers_are_in_the_exit_code(fake: FakeBench, ending: RunEnding, code: ExitCode) -> None:
    fake.lost = {9: (ending, "as it happens")}
    done = call()
    assert done.return_value == code
    assert ": as it happens" in done.stdout
    assert "as it happens" in done.stderr


def test_after_ctrl_c_the_runs_that_were_made_are_told(fake: FakeBench) -> None:
    fake.interrupted, fake.made = True, 7
    done = call()
    assert isinstance(done.exception, click.Abort)  # as which click passes Ctrl-C on
    assert "too few numbers to compare" in done.stdout


def test_after_ctrl_c_in_warm_up_nothing_is_told(fake: FakeBench) -> None:
    fake.interrupted, fake.made = True, 2
    done = call()
    assert isinstance(done.exception, click.Abort)  # as which click passes Ctrl-C on
    assert done.stdout == ""


def test_what_did_not_come_back_is_an_error_after_the_result(fake: FakeBench) -> None:
    fake.trouble = NotAttachedError("mine did not come back: it ended")
    done = call()
    assert done.exception is fake.trouble
    assert "scx_rusty is slower than none" in done.stdout


def test_a_known_workload_brings_its_number(fake: FakeBench) -> None:
    done = make_runner().invoke(schedctl, [*WORDS, "--workload", "mixed"], standalone_mode=False)
    assert done.return_value == ExitCode.OK
    assert fake.work is not None
    assert fake.work.metric is not None
    assert "ROUND TRIPS/S" in done.stdout


def test_too_few_runs_are_a_warning(fake: FakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake, "bench", None)
    monkeypatch.setattr("schedkit.host.bench.bench", lambda *_, **__: Benched((), (), interrupted=True))
    words = ["bench", "--with", "none,scx_rusty", "--runs", "3", "--", "true"]
    done = make_runner().invoke(schedctl, words, standalone_mode=False)
    assert "3 runs with each are too few to compare" in done.stderr
