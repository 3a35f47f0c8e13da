"""Runs in the guest: schedctl for whoever asks, each time in a process forked from this one, which has imported it.

Importing is most of what a command costs under emulation. Who asks is a small shell script (CALLER in
tests/e2e/schedctl.py): it tells its process id and waits for an exit status. The forked process takes that one's
arguments, environment, folder and open files and then is schedctl. What one command imported, the next finds imported.
"""

import ctypes
import importlib
import os
import sys
from contextlib import suppress
from pathlib import Path

from schedkit.runtimes import containerd
from schedkit.schedctl import group
from schedkit.schedctl.main import main as schedctl

IMPORTED_BEFORE_FORKING = (containerd, group)
PIDFD_GETFD = 438  # Python has no function for it
STANDARD_STREAMS = (0, 1, 2)


def main() -> None:
    """Serve callers, one after the other; the folder and the pipe in it are there."""
    folder = sys.argv[1]
    with os.fdopen(os.open(f"{folder}/callers", os.O_RDWR)) as callers:
        for line in callers:
            caller = int(line)
            reader, writer = os.pipe()
            child = os.fork()
            if not child:
                os.close(reader)
                perform(caller, writer)
            os.close(writer)
            with os.fdopen(reader) as imported:
                names = imported.read().split()
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            answer(f"{folder}/{caller}", status if status >= 0 else 128 - status)
            for name in names:
                with suppress(Exception):  # some are there only within others
                    importlib.import_module(name)


def answer(pipe: str, code: int) -> None:
    """Tell a caller the exit status, unless it has gone."""
    with suppress(OSError), os.fdopen(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK), "w") as caller:
        caller.write(f"{code}\n")


def perform(caller: int, writer: int) -> None:
    """Be schedctl in place of the caller; never returns. What was imported for it is written down."""
    known = set(sys.modules)
    take_streams(caller)
    os.chdir(f"/proc/{caller}/cwd")
    path = os.environ["PYTHONPATH"]  # the command line that this stands in for sets it, and children need it
    os.environb.clear()
    settings = (entry.partition(b"=") for entry in read_words(caller, "environ"))
    os.environb.update({name: value for name, _, value in settings})
    os.environ["PYTHONPATH"] = path
    sys.argv = ["schedctl", *(os.fsdecode(word) for word in read_words(caller, "cmdline")[2:])]
    try:
        schedctl()
    finally:
        os.write(writer, "\n".join(set(sys.modules) - known).encode())


def take_streams(process: int) -> None:
    """Have the very standard streams of another process."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    handle = os.pidfd_open(process)
    for stream in STANDARD_STREAMS:
        theirs = call(PIDFD_GETFD, handle, stream, 0)
        if theirs < 0:
            raise OSError(ctypes.get_errno(), f"stream {stream} of process {process}")
        os.dup2(theirs, stream)
        os.close(theirs)
    os.close(handle)
    # As Python opens them when it starts: files and pipes differ.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)


def read_words(process: int, name: str) -> list[bytes]:
    return Path(f"/proc/{process}/{name}").read_bytes().split(b"\0")[:-1]


main()
