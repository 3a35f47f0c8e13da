"""A recording shows everything that was printed, in its order, with the pauses shortened."""

import re
import sys
import xml.etree.ElementTree as ET  # what is read was written here
from pathlib import Path

import pytest

from website.recording import (
    COLUMNS,
    END,
    LONGEST_PAUSE,
    LONGEST_WAIT,
    ROWS,
    Line,
    arrange,
    draw,
    parse_recording,
    record,
)

SVG = "{http://www.w3.org/2000/svg}"
SESSION = [
    Line(9.0, ""),
    Line(9.0, "Run one:"),
    Line(20.0, "machine# schedctl run a && true <x>"),
    Line(20.0, "  attached"),
    Line(20.0, "  error: " + "long " * 40),
    Line(20.5, "machine# true"),
    Line(20.5, "  done"),
]


def test_pauses_are_shortened_and_order_is_kept() -> None:
    rows = list(arrange(SESSION))
    times = [row.at for row in rows]
    assert times == sorted(times)
    at = {row.text[:12]: row.at for row in rows}
    assert at["  attached"] - at["machine# sch"] == LONGEST_PAUSE
    assert at["  done"] - at["machine# tru"] == pytest.approx(0.5)
    assert [row.kind for row in rows[:4]] == ["said", "says", "typed", "said"]
    assert times[:2] == [0.0, 0.0]


def test_a_command_that_goes_on_printing_is_shown_line_by_line() -> None:
    lines = [Line(0.0, "Look:"), Line(0.0, "$ watch"), Line(0.0, "  a"), Line(30.0, "  b"), Line(30.3, "  c")]
    *_, first, second, third = (row.at for row in arrange(lines))
    assert second - first == pytest.approx(LONGEST_WAIT)
    assert third - second == pytest.approx(0.3)


def test_long_lines_are_broken_and_nothing_is_lost() -> None:
    rows = [row for row in arrange(SESSION) if row.kind == "error"]
    assert len(rows) == 2
    assert all(len(row.text) <= COLUMNS for row in rows)
    assert (rows[0].text + rows[1].text[4:]) == SESSION[4].text


def test_the_picture_has_every_line_and_ends_with_the_last_ones_in_sight() -> None:
    lines = [Line(float(number), f"  line {number} <&>") for number in range(ROWS + 10)]
    rows = list(arrange(lines))
    root = ET.fromstring(draw(rows))  # noqa: S314
    assert [one.text for one in root.iter(f"{SVG}text")] == [line.text for line in lines]
    style = next(root.iter(f"{SVG}style")).text or ""
    scroll = re.findall(r"([\d.]+)% \{ transform: translateY\((-?[\d.]+)px\)", style.split("@keyframes curtain")[0])
    assert float(scroll[0][1]) == 0
    assert float(scroll[-1][1]) == -10 * 19
    assert float(scroll[-1][0]) == pytest.approx(100 * rows[-1].at / (rows[-1].at + END), abs=0.01)
    assert [float(part) for part, _ in scroll] == sorted(float(part) for part, _ in scroll)
    assert "prefers-reduced-motion" in style


def test_a_demo_is_recorded_with_times_and_one_that_fails_is_not() -> None:
    lines = record([sys.executable, "-c", "print('a'); print('  b')"])
    assert [line.text for line in lines] == ["a", "  b"]
    assert 0 < lines[0].at <= lines[1].at
    with pytest.raises(SystemExit, match="exit code 3"):
        record([sys.executable, "-c", "import sys; print('x'); sys.exit(3)"])


def test_what_was_printed_can_be_read_from_a_picture_and_from_a_text(tmp_path: Path) -> None:
    printed = [line.text for line in SESSION if line.text]
    picture, text = tmp_path / "a.svg", tmp_path / "a.txt"
    picture.write_text(draw(list(arrange(SESSION))))
    text.write_text("".join(f"{line.text}\n" for line in SESSION))
    assert parse_recording(picture) == parse_recording(text) == printed
