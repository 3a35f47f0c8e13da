"""Records a demo and draws it as an animated SVG, by CSS alone: python -m website.recording FILE COMMAND...

It shows all that the demo printed. Only pauses are shortened, and long lines are broken. A FILE that ends with .txt
gets the text alone: what the pages show of a run, for the test that compares them.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from html import escape, unescape
from pathlib import Path
from typing import NamedTuple

COLUMNS, ROWS = 110, 26
CHARACTER, LINE, MARGIN = 7.85, 19.0, 14.0  # in pixels, for a font of 13
LONGEST_PAUSE = 2.0  # seconds that a command seems to take at most
READING = 0.9  # seconds before a command is typed, so that the sentence before it can be read
PER_LINE = 0.07  # seconds from a line of output to the next
LONGEST_WAIT = 0.8  # the same, at most, where a command goes on printing
END = 6.0  # seconds that the last lines stay
STYLE = """
  text { font: 13px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #c9d3de; white-space: pre }
  .says { fill: #ffffff; font-weight: bold }
  .typed { fill: #8fd19e }
  .error { fill: #f2a097 }
"""


class Line(NamedTuple):
    """A line of output, and when it came: seconds since the beginning."""

    at: float
    text: str


class Row(NamedTuple):
    """A line of the picture, and when it is shown."""

    at: float
    text: str
    kind: str


def record(command: list[str]) -> list[Line]:
    """Run a command and note what it prints, and when; what it says on stderr passes by."""
    started = time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as process:
        assert process.stdout is not None  # noqa: S101  (it is a pipe)
        lines = []
        for text in process.stdout:
            print(text, end="", flush=True)
            lines.append(Line(time.monotonic() - started, text.rstrip("\n")))
    if process.returncode:
        raise SystemExit(f"error: the demo ended with exit code {process.returncode}; nothing was written")
    return lines


def arrange(lines: Iterable[Line]) -> Iterator[Row]:
    """When each row is shown: a sentence, then a command, then, after what it took, its output."""
    clock, before = 0.0, 0.0
    pause, is_empty = 0.0, True
    for line in lines:
        kind = _kind(line.text)
        took, before = line.at - before, line.at
        if is_empty:  # the picture begins with a line, for those who see only its beginning
            is_empty = not line.text
        elif kind == "typed":
            clock += READING
            pause = min(took, LONGEST_PAUSE)  # the demo prints a command together with its output
        elif pause:
            clock, pause = clock + pause, 0.0
        else:
            clock += max(PER_LINE, min(took, LONGEST_WAIT))
        for part in _break(line.text):
            yield Row(clock, part, kind)


def _kind(text: str) -> str:
    if text.startswith(("machine# ", "$ ")):
        return "typed"
    if text.startswith(("  error:", "  exit code")):
        return "error"
    return "said" if text.startswith("  ") or not text else "says"


def _break(text: str) -> list[str]:
    """Parts that fit; those after the first are indented."""
    parts = [text[:COLUMNS]]
    rest = text[COLUMNS:]
    while rest:
        parts.append("    " + rest[: COLUMNS - 4])
        rest = rest[COLUMNS - 4 :]
    return parts


def draw(rows: list[Row]) -> str:
    """The picture: all rows below each other, moved up as they fill it, behind a curtain that goes down."""
    width, height = COLUMNS * CHARACTER + 2 * MARGIN, ROWS * LINE + 2 * MARGIN
    length = rows[-1].at + END
    shown: dict[float, int] = {0.0: 0}
    for number, row in enumerate(rows, 1):
        shown[row.at] = number
    scroll = "\n".join(_frame(at / length, -max(0, count - ROWS) * LINE) for at, count in shown.items())
    curtain = "\n".join(_frame(at / length, min(count, ROWS) * LINE) for at, count in shown.items())
    texts = "\n".join(
        f'<text class="{row.kind}" x="{MARGIN:g}" y="{MARGIN + (number + 0.75) * LINE:g}">{escape(row.text)}</text>'
        for number, row in enumerate(rows)
        if row.text
    )
    last = -max(0, len(rows) - ROWS) * LINE
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">
<style>{STYLE}
  .rows {{ animation: scroll {length:.1f}s step-end infinite }}
  .curtain {{ animation: curtain {length:.1f}s step-end infinite }}
  @keyframes scroll {{
{scroll}
  }}
  @keyframes curtain {{
{curtain}
  }}
  @media (prefers-reduced-motion: reduce) {{
    .rows {{ animation: none; transform: translateY({last:g}px) }}
    .curtain {{ animation: none; transform: translateY({ROWS * LINE:g}px) }}
  }}
</style>
<rect width="100%" height="100%" rx="8" fill="#10151c"/>
<clipPath id="screen"><rect x="0" y="{MARGIN:g}" width="{width:g}" height="{ROWS * LINE:g}"/></clipPath>
<g clip-path="url(#screen)">
<g class="rows">
{texts}
</g>
<rect class="curtain" x="0" y="{MARGIN:g}" width="{width:g}" height="{ROWS * LINE:g}" fill="#10151c"/>
</g>
</svg>
"""


def parse_recording(path: Path) -> list[str]:
    """What was printed, of a picture or a text: its lines but empty ones, with those together that were broken."""
    if path.suffix != ".svg":
        return [line for line in path.read_text().splitlines() if line.strip()]
    lines: list[str] = []
    before = ""
    for row in (unescape(text) for text in re.findall(r"<text [^>]*>(.*?)</text>", path.read_text())):
        if len(before) == COLUMNS and row.startswith("    "):
            lines[-1] += row[4:]
        elif row.strip():
            lines.append(row)
        before = row
    return lines


def _frame(part: float, distance: float) -> str:
    return f"    {100 * part:.2f}% {{ transform: translateY({distance:g}px) }}"


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python -m website.recording FILE COMMAND...")
    path, lines = Path(sys.argv[1]), record(sys.argv[2:])
    path.write_text(draw(list(arrange(lines))) if path.suffix == ".svg" else "".join(f"{one.text}\n" for one in lines))
    print(f"recorded: {path}, {path.stat().st_size // 1024} kB")
