"""Run stages at the same time: python -m tests.side_by_side NAME COMMAND... -- NAME COMMAND...

The first one's output is shown as it comes, that of the others when all have ended. Ctrl-C reaches every one, and each
cleans up what it has running.
"""

import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from itertools import groupby
from typing import IO


def start(stage: list[str], output: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    command = ["scripts/stage", *stage]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output and subprocess.STDOUT)


def wait(process: subprocess.Popen[bytes]) -> int:
    """Its exit status, also where somebody pressed Ctrl-C: it has been told the same and needs its time."""
    while True:
        with suppress(KeyboardInterrupt):
            return process.wait()


def main() -> None:
    shown, *others = (list(words) for divider, words in groupby(sys.argv[1:], "--".__eq__) if not divider)
    with ExitStack() as opened:
        logs = [opened.enter_context(tempfile.TemporaryFile()) for _ in others]
        running = [start(shown), *map(start, others, logs)]
        codes = [wait(process) for process in running]
        for log in logs:
            log.seek(0)
            shutil.copyfileobj(log, sys.stdout.buffer)
    sys.exit(next((code for code in codes if code), 0))


if __name__ == "__main__":
    main()
