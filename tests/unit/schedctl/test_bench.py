"""What `schedctl bench` takes, prints and writes; tests/e2e/test_bench.py does it on a real kernel."""

import json
import re
from html.parser import HTMLParser

import pytest

from schedkit.errors import SchedkitError, UsageError
from schedkit.measure.metric import Metric
from schedkit.measure.model import RunEnding
from schedkit.measure.summary import BenchSummary
from schedkit.schedctl.bench_page import render_page
from schedkit.schedctl.bench_plots import choose_ticks, make_scale
from schedkit.schedctl.bench_result import BenchResult, bench_fields, bench_text, find_worst_ending, format_value
from schedkit.schedctl.commands.bench import parse_contenders
from schedkit.schedctl.group import schedctl
from schedkit.schedctl.output import Output
from tests.documents import missing, undocumented
from tests.unit.measure.making import MACHINE, NOW, TIME, make_contender, make_summary
from tests.unit.schedctl.fakes import FakeRuntime
from tests.unit.schedctl.runner import make_runner

HOSTILE = "<script>alert(1)</script>\"'&\x1b[2J</svg><!--"
LOST = {5: (RunEnding.EJECTED, "runnable task stall"), 7: (RunEnding.FAILED, HOSTILE)}


def make_result(summary: BenchSummary, metric: Metric | None = None, **changes: object) -> BenchResult:
    values: dict[str, object] = {
        "summary": summary,
        "command": ("make", "-j8", "all targets"),
        "workload": None,
        "metric": metric,
        "user": None,
        "runs": 10,
        "warmup": 1,
        "seed": 5,
        "settle": 1.0,
        "started": NOW,
        "finished": NOW,
        "interrupted": False,
        "environment": MACHINE,
        "warnings": ("turbo is on",),
        "driver": "podman",
        "versions": {"schedctl": "1.0", "python": "3.13.5", "runtime": "5.0"},
    }
    return BenchResult(**{**values, **changes})  # type: ignore[arg-type]


def make_hostile() -> BenchResult:
    summary = make_summary({"none": 1.0, "scx_slow": 1.2, "scx_same": 1.0}, lost=LOST, latency=True)
    contender = make_contender("scx_slow")._replace(label=HOSTILE, image=HOSTILE, ops=HOSTILE, verified=HOSTILE)
    summary = summary._replace(contenders=(summary.contenders[0], contender, summary.contenders[2]))
    environment = MACHINE._replace(cpu=HOSTILE, governor=HOSTILE)
    return make_result(summary, command=(HOSTILE,), environment=environment, warnings=(HOSTILE,))


def test_everything_that_json_says_is_documented() -> None:
    for metric in (None, TIME):
        summary = make_summary({"none": 1.0, "scx_slow": 1.2}, lost=LOST, metric=metric, latency=True)
        document = json.loads(json.dumps(bench_fields(make_result(summary, metric))))
        assert undocumented("bench", document) == []
        assert missing("bench", document) == []
        assert len(document["samples"]) == 22
        assert document["comparisons"][1]["finding"] == "worse"
        assert document["machine"]["on_battery"] == {"unknown": "no power supply says"}


def test_the_table_has_a_row_for_each_scheduler_and_the_answer_below() -> None:
    summary = make_summary({"none": 1.0, "scx_slow": 1.2}, lost={5: LOST[5]})
    lines = bench_text(make_result(summary), Output(None)).splitlines()  # type: ignore[arg-type]
    assert lines[0] == "make -j8 'all targets'"
    assert lines[2].split() == ["SCHEDULER", "RUNS", "WALL", "TIME", "RATIO", "INTERVAL", "FINDING"]
    assert re.fullmatch(r"none +(9|10)/10 +[\d.]+ s +1 +- +baseline", lines[3])
    assert re.fullmatch(r"scx_slow +(9|10)/10 +[\d.]+ s +1\.\d+ +1\.\d+ – 1\.\d+ +worse", lines[4])
    assert lines[6].startswith("scx_slow is slower than none: wall time × 1.")
    assert "ejected by the kernel: runnable task stall" in lines[7]


def test_latency_and_wall_time_have_tables_of_their_own() -> None:
    summary = make_summary({"none": 1.0, "scx_slow": 1.2}, metric=TIME, latency=True)
    text = bench_text(make_result(summary, TIME), Output(None))  # type: ignore[arg-type]
    assert "wake-up latency p99:\nSCHEDULER" in text
    assert "wall time:\nSCHEDULER" in text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (12.3456, "s", "12.35 s"),
        (0.0123456, "s", "12.35 ms"),
        (0.0000123, "s", "12.3 µs"),
        (0.0, "s", "0 s"),
        (123e6, "B", "123 MB"),
        (20123.0, "", "20123"),
        (0.12341, "", "0.1234"),
        (None, "s", "-"),
    ],
)
def test_numbers_are_as_exact_as_they_are_of_use(value: float | None, unit: str, text: str) -> None:
    assert format_value(value, TIME.quantity._replace(unit=unit)) == text


def test_the_worst_ending_is_what_the_exit_code_tells() -> None:
    assert find_worst_ending(make_result(make_summary({"none": 1.0, "a": 1.0}))) is None
    assert find_worst_ending(make_result(make_summary({"none": 1.0, "a": 1.0}, lost=LOST))) is RunEnding.EJECTED


def test_schedulers_are_told_apart_as_they_were_said() -> None:
    labels, orders = parse_contenders(["none,scx_rusty,scx_rusty", "scx_lavd --performance --cpus 0,1"], 30.0)
    assert labels == ["none", "scx_rusty", "scx_rusty (2)", "scx_lavd --performance --cpus 0,1"]
    assert [(one.name, one.args) if one else None for one in orders] == [
        None,
        ("scx_rusty", ()),
        ("scx_rusty", ()),
        ("scx_lavd", ("--performance", "--cpus", "0,1")),
    ]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (["none"], "nothing to compare"),
        (["none,,scx_rusty"], "has an empty name"),
        (["none", "scx_lavd 'x"], "No closing quotation"),
        (["none --x", "scx_lavd"], "none takes no arguments"),
    ],
)
def test_what_cannot_be_compared_is_refused(said: list[str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_contenders(said, 30.0)


@pytest.mark.parametrize(
    ("said", "example"),
    [
        ("none", "--with none,scx_rusty"),
        ("scx_lavd", "--with none,scx_lavd"),
        ("scx_lavd --performance", "--with none --with 'scx_lavd --performance'"),
    ],
)
def test_the_baseline_of_the_example_is_the_kernels_own_scheduler(said: str, example: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_contenders([said], 30.0)
    assert refused.value.hint == f"two schedulers at least, for example: {example}"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--with none,scx_rusty", "no command to measure"),
        ("--with none,scx_rusty --workload mixed -- true", "not both"),
        ("--with none,scx_rusty --better lower -- true", "--better needs a --metric"),
        ("--with none,scx_rusty -- no-such-program", "no such program"),
        ("--with none,scx_rusty --workload nosuch", "unknown workload"),
        ("--with none,scx_rusty --user no-such-user -- true", "no such user"),
        ("--with none,scx_rusty --report /no/such/folder/x.html -- true", "no such directory"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_switched(runtime: FakeRuntime, words: str, why: str) -> None:
    done = make_runner().invoke(schedctl, ["bench", *words.split()])
    assert isinstance(done.exception, SchedkitError)
    assert why in done.exception.message
    assert runtime.pulled == []


def test_ticks_are_round_numbers_inside() -> None:
    scale = make_scale([1.93, 2.41], 0, 100)
    assert [round(one, 6) for one in choose_ticks(scale)] == [2.0, 2.2, 2.4]
    assert choose_ticks(make_scale([5.0, 5.0], 0, 100))
    assert choose_ticks(make_scale([0.0, 0.0], 0, 100))


VOID = ("meta", "circle", "line", "rect", "br")  # the SVG ones are closed at once


class _Strict(HTMLParser):
    """Every element that is opened is closed, in order; every text and attribute is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID
        self.seen.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.mark.parametrize("runs", [1, 10])
def test_the_page_is_well_formed_and_nothing_in_it_can_act(runs: int) -> None:
    page = render_page(make_hostile() if runs > 1 else make_result(make_summary({"none": 1.0, "a": 1.0}, runs=1)))
    parser = _Strict()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    assert not {"script", "iframe", "object", "embed", "img", "link", "form", "a"} & set(parser.seen)
    names = {name for name, _ in parser.attributes}
    assert not [name for name in names if name.startswith("on") or name in ("src", "href", "style")]
    assert "http://" not in page
    assert "https://" not in page
    if runs > 1:
        assert any("<script>alert(1)</script>" in text for text in parser.text)  # shown, as text
