"""Progress on stderr: steps, progress bars, warnings."""

import os
from collections.abc import Mapping
from typing import TextIO

from schedkit.errors import clean, take_colour, tell
from schedkit.schedctl.output import count_columns, format_bytes

BAR_CELLS = 24
PLAIN_STEPS = 4  # where there is no terminal, a line for each quarter


class Terminal:
    """Fulfils host.model.ProgressReporter: a bar that redraws itself on a terminal, plain lines elsewhere."""

    def __init__(self, stream: TextIO, environ: Mapping[str, str] = os.environ, *, verbose: bool = False) -> None:
        self._stream = stream
        self._live = stream.isatty() and environ.get("TERM") != "dumb"
        self._colour = take_colour(stream, environ)
        self._verbose = verbose
        self._bar = ""  # what stands on the present line
        self._quarters = 0

    def step(self, text: str) -> None:
        """Print the step that begins."""
        self._wipe()
        self._quarters = 0
        self._print(clean(text))

    def progress(self, done: int, total: int) -> None:
        """Bytes of the present step."""
        share = min(done / total, 1.0) if total > 0 else 0.0
        if self._live:
            self._draw(done, total, share)
        elif total > 0 and (quarters := int(share * PLAIN_STEPS)) > self._quarters:
            self._quarters = quarters
            self._print(f"  {share:.0%} of {format_bytes(total)}")

    def warn(self, text: str) -> None:
        """Print a warning."""
        self._wipe()
        word = "\x1b[33mwarning:\x1b[0m" if self._colour else "warning:"
        self._print(f"{word} {clean(text)}")

    def detail(self, text: str) -> None:
        """Print a detail, with --verbose only."""
        if self._verbose:
            self._wipe()
            self._print(f"  {clean(text)}")

    def close(self) -> None:
        """Remove an unfinished progress bar."""
        self._wipe()

    def _draw(self, done: int, total: int, share: float) -> None:
        if total > 0:
            filled = int(share * BAR_CELLS)
            bar = f"  [{'#' * filled}{'.' * (BAR_CELLS - filled)}] {format_bytes(done)} of {format_bytes(total)}"
        else:
            bar = f"  {format_bytes(done)}"
        bar = bar[: (count_columns(self._stream) or 80) - 1]
        if bar != self._bar:  # thousands of reports a second would make the terminal the bottleneck
            self._stream.write(f"\r{bar.ljust(len(self._bar))}")
            self._stream.flush()
            self._bar = bar

    def _wipe(self) -> None:
        if self._bar:
            self._stream.write(f"\r{' ' * len(self._bar)}\r")
            self._stream.flush()
            self._bar = ""

    def _print(self, line: str) -> None:
        tell(line, self._stream)
