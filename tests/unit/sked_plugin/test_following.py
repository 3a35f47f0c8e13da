"""What is shown while a rollout is followed; the integration tests follow one on a real API server."""

import io

import pytest

from schedkit.sked.plugin.following import NodeSight, Screen, describe_change
from schedkit.sked.plugin.output import format_age, render_bar, render_table

RUNS = NodeSight(slot="web-a", state="enabled", ops="rusty", attachment=1)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (RUNS, RUNS, ""),
        (RUNS, RUNS._replace(slot="pending"), "the old scheduler leaves"),
        (RUNS._replace(slot="pending"), NodeSight(slot="pending", state="disabled", attachment=1), "rusty left"),
        (RUNS, NodeSight(slot="web-a", state="disabled", left="stall", attachment=1), "rusty left: stall"),
        (NodeSight(), NodeSight(state="enabling"), "kernel: enabling"),
        (NodeSight(), NodeSight(slot="web-b"), "gets web-b"),
        (RUNS, RUNS._replace(ops="lavd", attachment=2), "lavd attached"),
        (RUNS, RUNS._replace(attachment=2), "rusty attached"),
        (RUNS, RUNS._replace(slot="none", quarantined="stall"), "no scheduler is to run here, in quarantine: stall"),
        (RUNS._replace(slot="none", quarantined="stall"), RUNS._replace(slot=""), "slot free, quarantine lifted"),
        (RUNS, None, "gone"),
    ],
)
def test_change_of_a_node_is_told_in_a_line(old: NodeSight, new: NodeSight | None, told: str) -> None:
    assert describe_change(old, new) == told


def test_pipe_gets_lines_and_a_bar_only_when_it_changed() -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    for text in ("1/4", "1/4", "2/4"):
        screen.bar(text)
    screen.line("node-1 attached")
    screen.close()
    assert stream.getvalue() == "1/4\n2/4\nnode-1 attached\n"


def test_terminal_keeps_the_bar_below_the_lines() -> None:
    stream = Terminal()
    screen = Screen(stream)
    screen.bar("1/4")
    screen.line("evil\x1b[2J")
    screen.close()
    assert stream.getvalue() == "\r\x1b[K1/4\r\x1b[Kevil\ufffd[2J\n1/4\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (3600, "60m"),
        (4 * 3600 + 60, "4h1m"),
        (47 * 3600, "47h"),
        (3 * 86400 + 3600, "3d1h"),
        (30 * 86400, "30d"),
    ],
)
def test_ages_are_as_kubectl_writes_them(seconds: int, text: str) -> None:
    assert format_age(seconds) == text


def test_table_marks_what_is_empty_and_bar_never_overflows() -> None:
    assert render_table(("A", "LONG"), [("x", ""), ("yy", "1")]) == "A    LONG\nx    -\nyy   1"
    assert (render_bar(9, 4, 4), render_bar(1, 4, 4), render_bar(0, 0, 4)) == ("[####]", "[#...]", "[....]")
