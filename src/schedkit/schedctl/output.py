"""Values as text and as JSON, on stdout: one value is gathered, and both are made from it."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import NamedTuple, TextIO

from schedkit.errors import clean, take_colour
from schedkit.unknown import Unknown

SCHEMA_VERSION = "1"
READABLE = 16  # a column is not cut below this as long as another can be left out
NARROWEST = 8  # nor below this as long as others can be cut
IMAGE = "IMAGE"  # the title of a column whose end matters most: a name and a version
GAP = "  "
CLEAR = "\x1b[H\x1b[J"  # to the upper left corner, and nothing below
OTHER_SCREEN, FIRST_SCREEN = "\x1b[?1049h", "\x1b[?1049l"  # what stood on the terminal before comes back
KEPT = "\n\t"
COLOURS = {"good": "32", "doubtful": "33", "bad": "31"}

# What JSON is made of. Typed as object, since it leaves the program at once.
Json = Mapping[str, object]


class Output(NamedTuple):
    """How one invocation shows its result."""

    stream: TextIO
    json: bool = False
    width: int | None = None  # None: nothing is cut
    colour: bool = False

    def show(self, fields: Callable[[], Json], text: Callable[[], str]) -> None:
        """Print a command's result in the way that was asked for."""
        self.write(f"{format_json(fields(), indent=2) if self.json else text()}\n")

    def write(self, text: str) -> None:
        """Print text, whose every part may come from elsewhere: our colours are all that it can do to a terminal."""
        if not text.strip("\n"):
            return
        if not text.replace("\n", "").isprintable():
            text = _escape(text) if self.json else self._clean(text)
        self.stream.write(text)
        self.stream.flush()

    def clear(self) -> None:
        """An empty screen, for what is drawn again and again."""
        self.stream.write(CLEAR)

    @contextmanager
    def other_screen(self) -> Iterator[None]:
        """Draw on the terminal's alternate screen for a while."""
        self.stream.write(OTHER_SCREEN)
        try:
            yield
        finally:
            self.stream.write(FIRST_SCREEN)
            self.stream.flush()

    def _clean(self, text: str) -> str:
        parts = text.split("\x1b[")
        cleaned = clean(parts[0], keep=KEPT)
        for part in parts[1:]:
            code, _, rest = part.partition("m")
            ours = self.colour and code in (*COLOURS.values(), "0")
            cleaned += f"\x1b[{code}m{clean(rest, keep=KEPT)}" if ours else f"\ufffd[{clean(part, keep=KEPT)}"
        return cleaned

    def paint(self, text: str, mood: str) -> str:
        """A word in the colour of its meaning, where there are colours."""
        return f"\x1b[{COLOURS[mood]}m{text}\x1b[0m" if self.colour else text

    def table(
        self,
        titles: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        elastic: Sequence[str] = (),
        spare: Sequence[str] = (),
    ) -> str:
        """Columns, and no line longer than a terminal is wide.

        There those named in `elastic` are cut, the widest first; where little would be left of them, those in `spare`
        are left out, one after the other.
        """
        cells = [list(titles), *([clean(cell) for cell in row] for row in rows)]
        widths = {title: max(len(row[column]) for row in cells) for column, title in enumerate(titles)}
        if self.width is not None:
            widths = fit_columns(widths, elastic, spare, self.width)
        lines = []
        for row in cells:
            shown = [(title, cell) for title, cell in zip(titles, row, strict=True) if title in widths]
            padded = [_cut(cell, widths[title], keep_end=title == IMAGE).ljust(widths[title]) for title, cell in shown]
            lines.append(GAP.join(padded)[: self.width].rstrip())
        return "\n".join(lines)

    def fill(self, line: str, indent: int) -> list[str]:
        """A line that is longer than the terminal is wide as several, the others below what stands at `indent`.

        A longer word, such as a URL or a digest, stays whole: people copy it.
        """
        if self.width is None or len(line) <= self.width:
            return [line]
        from textwrap import wrap

        room = max(self.width - indent, NARROWEST)
        first, *rest = wrap(line[indent:], room, break_long_words=False, break_on_hyphens=False)
        return [line[:indent] + first, *(f"{'':{indent}}{one}" for one in rest)]

    def shorten(self, text: str) -> str:
        """Shorten digests to as many digits as people compare, on a terminal only."""
        name, at, digest = text.partition("sha256:")
        return text if self.width is None else f"{name}{at}{digest[:12]}"


def make_output(*, json: bool, environ: Mapping[str, str] = os.environ) -> Output:
    """Return the output for this process's stdout."""
    stream = sys.stdout
    return Output(stream, json, count_columns(stream, environ), take_colour(stream, environ))


def count_columns(stream: TextIO, environ: Mapping[str, str] = os.environ) -> int | None:
    """How wide the terminal is; None where there is none, so that nothing is cut in a pipe."""
    if not stream.isatty():
        return None
    if (said := environ.get("COLUMNS", "")).isdigit() and int(said) > 0:
        return int(said)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except OSError:
        return 80


def format_json(fields: Json, *, indent: int | None = None) -> str:
    """One JSON document: its schema's version first."""
    from json import dumps

    return dumps({"version": SCHEMA_VERSION, **fields}, indent=indent, ensure_ascii=_is_ascii(sys.stdout))


def _is_ascii(stream: TextIO) -> bool:
    return not (stream.encoding or "").lower().startswith("utf")


def _escape(document: str) -> str:
    """JSON in which every unusual character is written as an escape: it is inside of a string, wherever it stands."""
    from json import dumps

    return "".join(sign if sign.isprintable() or sign == "\n" else dumps(sign)[1:-1] for sign in document)


def plain(value: object) -> object:
    """A value of a field for JSON: what is unknown says why, times are RFC 3339 in UTC."""
    if isinstance(value, Unknown):
        return {"unknown": value.why}
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return value


def words(value: object) -> str:
    """A value for people: what is unknown says so, what is absent is a dash."""
    if isinstance(value, Unknown):
        return f"unknown ({value.why})"
    return "-" if value is None or value == "" else str(value)


def format_time(moment: datetime) -> str:
    from datetime import UTC

    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def format_bytes(count: int) -> str:
    amount = float(count)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 10 else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def format_span(span: timedelta | float) -> str:
    """A length of time in the two units that matter: 12s, 3m05s, 2h07m, 5d03h."""
    seconds = max(0, int(span.total_seconds() if isinstance(span, timedelta) else span))
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02}s"
    if seconds < 86400:
        return f"{seconds // 3600}h{seconds % 3600 // 60:02}m"
    return f"{seconds // 86400}d{seconds % 86400 // 3600:02}h"


def format_seconds(seconds: float) -> str:
    """A measured time, as exact as it is of use."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def fit_columns(widths: Mapping[str, int], elastic: Sequence[str], spare: Sequence[str], room: int) -> dict[str, int]:
    """The columns that are shown and how wide each is, by title."""
    shown = dict(widths)
    for leaves in (*spare, None):
        fitted, excess = _shrink(shown, elastic, READABLE, room)
        if excess <= 0:
            return fitted
        if leaves is not None:
            shown.pop(leaves)
    fitted, excess = _shrink(shown, elastic, NARROWEST, room)
    return _shrink(fitted, list(fitted), 1, room)[0] if excess > 0 else fitted


def _shrink(widths: Mapping[str, int], elastic: Sequence[str], least: int, room: int) -> tuple[dict[str, int], int]:
    """Narrower columns, the widest first, and by how much they are still too wide."""
    fitted = dict(widths)
    excess = sum(fitted.values()) + len(GAP) * (len(fitted) - 1) - room
    while excess > 0:
        widest = max((title for title in elastic if title in fitted), key=fitted.__getitem__, default=None)
        if widest is None or fitted[widest] <= least:
            break
        fitted[widest] -= 1
        excess -= 1
    return fitted, excess


def _cut(cell: str, width: int, *, keep_end: bool = False) -> str:
    if len(cell) <= width:
        return cell
    return f"…{cell[len(cell) - width + 1 :]}" if keep_end else f"{cell[: width - 1]}…"
