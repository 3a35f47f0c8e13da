"""Talk while long work goes on: one live line on a terminal, a line now and then elsewhere."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

HEARTBEAT_SECONDS = 30.0


def format_seconds(seconds: float) -> str:
    """How long something took, as a person says it."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def format_bytes(count: float) -> str:
    """A size, in MB below one GB and in GB above."""
    return f"{count / 1e6:.0f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"


class Progress:
    """Writes to one stream; safe to use from the thread that works."""

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        self._stream = stream
        self._live = stream.isatty()

    def say(self, text: str) -> None:
        """One finished line."""
        clear = "\r\x1b[K" if self._live else ""
        print(f"{clear}lab: {text}", file=self._stream, flush=True)

    @contextmanager
    def step(self, title: str, *, log: Path | None = None, expected: float | None = None) -> Iterator[None]:
        """Show that `title` is under way, with the last line of its log, until the block ends."""
        before = f" (last time {format_seconds(expected)})" if expected else ""
        self.say(f"{title}{before} …")
        started = time.monotonic()
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(1.0 if self._live else HEARTBEAT_SECONDS):
                line = f"  {format_seconds(time.monotonic() - started)}: {_last_line(log) if log else title}"
                if self._live:
                    print(f"\r\x1b[K{line[:100]}", end="", file=self._stream, flush=True)
                else:
                    print(line[:160], file=self._stream, flush=True)

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        self.say(f"{title}: {format_seconds(time.monotonic() - started)}")


def _last_line(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 400))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return lines[-1].strip() if lines else ""
