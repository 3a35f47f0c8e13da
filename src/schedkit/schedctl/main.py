"""`schedctl`: how it starts and ends."""

import gc
import os
import signal
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn

from schedkit.errors import run_at_edge
from schedkit.schedctl.quick import Answer, find_answer

if TYPE_CHECKING:
    from types import FrameType

# So many new objects make Python look for garbage; by its own 700, it looks again and again while it imports.
_COLLECT_AFTER = 50_000


def main() -> NoReturn:
    """Entry point. SIGTERM and a closed terminal end it as Ctrl-C does: cleaned up, with exit code 130."""
    gc.set_threshold(_COLLECT_AFTER)
    words = sys.argv[1:]
    program = find_answer(words, os.environ) or _load_commands(words)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # under nohup it stays ignored
            signal.signal(number, _interrupt)
    debug = bool(os.environ.get("SCHEDKIT_DEBUG"))
    code = run_at_edge(program, name="schedctl", debug=debug, json=wants_json(words))
    gc.freeze()  # the process ends: what it holds need not be looked through once more
    sys.exit(code)


def _load_commands(words: list[str]) -> Answer:
    from schedkit.cli import run_command
    from schedkit.schedctl.group import schedctl

    return lambda: run_command(schedctl, "schedctl", words)


def wants_json(words: list[str]) -> bool:
    """Whether a command line asks for JSON, in whatever way click takes it: even a line that it refuses."""
    ours = words[: words.index("--")] if "--" in words else words
    pairs = pairwise(ours)
    return any(word in ("-ojson", "--output=json") for word in ours) or any(
        name in ("-o", "--output") and value == "json" for name, value in pairs
    )


def _interrupt(_number: int, _frame: "FrameType | None") -> NoReturn:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # once is enough: what is cleaned up now shall not be interrupted again
    raise KeyboardInterrupt
