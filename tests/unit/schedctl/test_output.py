import io
import json
from datetime import UTC, datetime, timedelta

import pytest

from schedkit.errors import clean, take_colour
from schedkit.schedctl.output import Output, format_bytes, format_seconds, format_span, plain
from schedkit.schedctl.progress import Terminal
from schedkit.unknown import Unknown

TITLES = ("ID", "NAME", "IMAGE")
ROWS = [("1234", "scx_rusty", "ghcr.io/schedkit/scx_rusty:latest"), ("5", "scx_lavd", "x")]


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_in_a_pipe_nothing_is_cut() -> None:
    table = Output(io.StringIO()).table(TITLES, ROWS, elastic=("IMAGE",))
    assert table.splitlines() == [
        "ID    NAME       IMAGE",
        "1234  scx_rusty  ghcr.io/schedkit/scx_rusty:latest",
        "5     scx_lavd   x",
    ]


@pytest.mark.parametrize("width", [30, 40, 49, 50, 200])
def test_on_a_terminal_the_widest_elastic_column_is_cut_until_all_fits(width: int) -> None:
    lines = Output(Screen(), width=width).table(TITLES, ROWS, elastic=("IMAGE", "NAME")).splitlines()
    assert max(map(len, lines)) <= width
    assert lines[1].startswith("1234  scx_rusty  ")
    assert lines[1].endswith("scx_rusty:latest" if width >= 40 else ":latest")  # of an image its end is what matters
    assert ("…" in lines[1]) == (width < 50)


def test_columns_that_can_be_spared_leave_before_others_are_cut_to_nothing() -> None:
    def titles(width: int) -> list[str]:
        spare = ("ID", "NAME")
        return Output(Screen(), width=width).table(TITLES, ROWS, elastic=("IMAGE",), spare=spare).split("\n")[0].split()

    assert titles(34) == ["ID", "NAME", "IMAGE"]  # 16 columns are left for the image
    assert titles(32) == ["NAME", "IMAGE"]
    assert titles(20) == ["IMAGE"]


@pytest.mark.parametrize("width", range(1, 60))
def test_no_line_of_a_table_is_longer_than_the_terminal_is_wide(width: int) -> None:
    output = Output(Screen(), width=width)
    for spare in ((), ("ID",)):
        assert max(map(len, output.table(TITLES, ROWS, elastic=("IMAGE",), spare=spare).splitlines())) <= width


def test_a_long_line_goes_on_below_where_its_text_begins() -> None:
    line = f"{'kernel':12}enabled by process 394 (scx_rusty), in the container d14f669761fe"
    assert Output(Screen(), width=40).fill(line, 12) == [
        "kernel      enabled by process 394",
        "            (scx_rusty), in the",
        "            container d14f669761fe",
    ]
    assert Output(io.StringIO()).fill(line, 12) == [line]


def test_word_longer_than_the_terminal_is_wide_stays_whole() -> None:
    url = "https://schedkit.io/docs/install#which-kernels-have-sched_ext"
    assert Output(Screen(), width=40).fill(f"{'fix':12}boot another kernel: {url}", 12) == [
        "fix         boot another kernel:",
        f"            {url}",
    ]


def test_digests_are_short_on_a_terminal_and_whole_in_a_pipe() -> None:
    image = f"localhost/x:v1@sha256:{'a' * 64}"
    assert Output(Screen(), width=80).shorten(image) == f"localhost/x:v1@sha256:{'a' * 12}"
    assert Output(io.StringIO()).shorten(image) == image
    assert Output(Screen(), width=80).shorten("localhost/x:v1") == "localhost/x:v1"


def test_json_has_the_schemas_version_first() -> None:
    stream = io.StringIO()
    Output(stream, json=True).show(lambda: {"b": 1}, lambda: "text")
    assert list(json.loads(stream.getvalue()).items()) == [("version", "1"), ("b", 1)]
    assert stream.getvalue().endswith("}\n")


def test_text_and_json_are_not_both_made() -> None:
    def never() -> str:
        raise AssertionError

    Output(io.StringIO(), json=True).show(dict, never)


def test_unknown_says_why_in_json() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    value = {"a": Unknown("no permission"), "b": (1, None), "at": moment}
    assert plain(value) == {"a": {"unknown": "no permission"}, "b": [1, None], "at": "2026-01-02T03:04:05Z"}


def test_what_comes_from_elsewhere_does_nothing_to_a_terminal() -> None:
    assert clean("a\x1b[2Jb\r") == "a�[2Jb�"


HOSTILE = "x\x1b]0;title\x07\x1b[2J\x9b31m\x7f\u202e\x1b[41m"


@pytest.mark.parametrize("colour", [True, False])
def test_no_text_that_leaves_can_do_anything_to_a_terminal(colour: bool) -> None:
    stream = io.StringIO()
    output = Output(stream, colour=colour)
    output.show(dict, lambda: f"{output.paint('good', 'good')} {HOSTILE}\nnext")
    said = stream.getvalue()
    assert said.startswith("\x1b[32mgood\x1b[0m x�" if colour else "good x�")
    assert said.endswith("\nnext\n")
    assert said.count("\x1b") == (2 if colour else 0)
    assert not set(said) & set("\x07\x9b\x7f\u202e")


def test_document_keeps_every_character_and_shows_none_that_acts() -> None:
    stream = io.StringIO()
    Output(stream, json=True).show(lambda: {"text": HOSTILE}, str)
    assert json.loads(stream.getvalue())["text"] == HOSTILE
    assert stream.getvalue().replace("\n", "").isprintable()
    assert "\x1b" not in Output(io.StringIO()).table(("A",), [("\x1b]0;title\x07",)])


def test_colour_only_on_a_terminal_that_has_some_and_with_consent() -> None:
    assert take_colour(Screen(), {"TERM": "xterm"})
    assert not take_colour(Screen(), {"TERM": "xterm", "NO_COLOR": "1"})
    assert not take_colour(Screen(), {"TERM": "dumb"})
    assert not take_colour(io.StringIO(), {"TERM": "xterm"})
    assert take_colour(io.StringIO(), {"FORCE_COLOR": "1"})
    assert not take_colour(io.StringIO(), {"FORCE_COLOR": "1", "NO_COLOR": "1"})


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59.9, "59s"), (60, "1m00s"), (3725, "1h02m"), (90000, "1d01h"), (-3, "0s")]
)
def test_spans_have_two_units(seconds: float, text: str) -> None:
    assert format_span(seconds) == text == format_span(timedelta(seconds=seconds))


def test_amounts_are_as_exact_as_they_are_of_use() -> None:
    assert [format_bytes(n) for n in (0, 999, 1500, 15_000, 2_000_000, 3_500_000_000)] == [
        "0 B", "999 B", "1.5 kB", "15 kB", "2.0 MB", "3.5 GB",
    ]  # fmt: skip
    assert [format_seconds(n) for n in (0.0123, 0.9, 1.25)] == ["12 ms", "900 ms", "1.2 s"]


def test_progress_in_a_pipe_is_a_line_each_quarter() -> None:
    stream = io.StringIO()
    progress = Terminal(stream, {})
    progress.step("pulling")
    for done in range(0, 101, 5):
        progress.progress(done, 100)
    progress.close()
    assert stream.getvalue().splitlines() == [
        "pulling", "  25% of 100 B", "  50% of 100 B", "  75% of 100 B", "  100% of 100 B",
    ]  # fmt: skip


def test_progress_on_a_terminal_stays_on_one_line_and_leaves_it_clean() -> None:
    stream = Screen()
    progress = Terminal(stream, {"TERM": "xterm"})
    progress.progress(50, 100)
    progress.progress(0, 0)
    progress.close()
    assert "\n" not in stream.getvalue()
    assert "[############............] 50 B of 100 B" in stream.getvalue()
    assert stream.getvalue().endswith(" \r")


def test_details_are_for_those_who_ask() -> None:
    quiet, verbose = io.StringIO(), io.StringIO()
    Terminal(quiet, {}).detail("x")
    Terminal(verbose, {}, verbose=True).detail("x")
    assert (quiet.getvalue(), verbose.getvalue()) == ("", "  x\n")


def test_warnings_say_so() -> None:
    stream = io.StringIO()
    Terminal(stream, {}).warn("careful")
    assert stream.getvalue() == "warning: careful\n"
