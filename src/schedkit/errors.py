"""One hierarchy of errors: what happened, why in one word, what to do, and how the program ends."""

import errno
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import IntEnum
from typing import ClassVar, TextIO


class ExitCode(IntEnum):
    """How our programs end; exit_codes.py says in a sentence what each means."""

    OK = 0
    FAILURE = 1
    DISCREPANCY = 2
    SLOT_TAKEN = 10
    REJECTED = 11
    EJECTED = 12
    NOT_ATTACHED = 13
    KERNEL_UNFIT = 14
    ROLLED_BACK = 15
    NOT_DETACHED = 16
    ALREADY_EXISTS = 17
    COMMAND_FAILED = 18
    OUTDATED = 19
    UNVERIFIED = 20
    UNSIGNED = 21
    UNTRUSTED = 22
    EXPIRED = 23
    NO_LOG_ENTRY = 24
    BAD_SIGNATURE = 25
    USAGE = 64
    BAD_DATA = 65
    NOT_FOUND = 66
    UNAVAILABLE = 69
    INTERNAL = 70
    NO_SPACE = 73
    BUSY = 75
    NO_PERMISSION = 77
    TIMEOUT = 124
    INTERRUPTED = 130


class SchedkitError(Exception):
    """Something a person can cause or fix. `reason` is one CamelCase word that programs may match on."""

    reason: ClassVar[str] = "Failed"
    exit_code: ClassVar[ExitCode] = ExitCode.FAILURE

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message  # which whoever passes it on may have added to


class UsageError(SchedkitError):
    """The command line was wrong."""

    reason = "Usage"
    exit_code = ExitCode.USAGE


class UnavailableError(SchedkitError):
    """Something this needs is not there: a tool, a service, a kernel feature."""

    reason = "Unavailable"
    exit_code = ExitCode.UNAVAILABLE
    retry_after: float | None = None  # seconds, where a server said when to come again


class BadDataError(SchedkitError):
    """Something read is not what it must be: a corrupt file, a wrong digest, an answer that makes no sense."""

    reason = "BadData"
    exit_code = ExitCode.BAD_DATA


class NotFoundError(SchedkitError):
    """What was named does not exist."""

    reason = "NotFound"
    exit_code = ExitCode.NOT_FOUND


class AlreadyExistsError(SchedkitError):
    """Something of that name exists."""

    reason = "AlreadyExists"
    exit_code = ExitCode.ALREADY_EXISTS


class BusyError(SchedkitError):
    """Another schedctl is at work; it may be tried again."""

    reason = "Busy"
    exit_code = ExitCode.BUSY


class NoAnswerError(SchedkitError):
    """Something that should answer did not in time."""

    reason = "NoAnswer"
    exit_code = ExitCode.TIMEOUT


class NoSpaceError(SchedkitError):
    """The disk is full, or would be."""

    reason = "NoSpace"
    exit_code = ExitCode.NO_SPACE


class NoPermissionError(SchedkitError):
    """The user may not do this."""

    reason = "NoPermission"
    exit_code = ExitCode.NO_PERMISSION


def needs_root(what: str) -> NoPermissionError:
    """The one error for what only root may do."""
    return NoPermissionError(f"{what} needs root", hint=sudo_hint())


def sudo_hint() -> str:
    """The same command line again, as root."""
    import shlex

    return f"sudo schedctl {shlex.join(sys.argv[1:])}".rstrip()


_OS_EXIT_CODES = {
    errno.ENOSPC: ExitCode.NO_SPACE,
    errno.EDQUOT: ExitCode.NO_SPACE,
    errno.EACCES: ExitCode.NO_PERMISSION,
    errno.EPERM: ExitCode.NO_PERMISSION,
    errno.EROFS: ExitCode.NO_PERMISSION,
}


def clean(text: str, *, keep: str = "") -> str:
    """Text as it may be shown on a terminal, whoever wrote it: no control characters but those to `keep`."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign in keep else "\ufffd" for sign in text)


def take_colour(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether to colour: NO_COLOR (https://no-color.org) and FORCE_COLOR decide, else whether it is a terminal."""
    if environ.get("NO_COLOR"):
        return False
    return bool(environ.get("FORCE_COLOR")) or (stream.isatty() and environ.get("TERM") != "dumb")


def report(error: SchedkitError, code: int, stream: TextIO, *, json: bool = False) -> None:
    """Print an error for a person or a program: the one place that does."""
    if json:
        from json import dumps

        fields = {"reason": error.reason, "message": error.message, "hint": error.hint, "exitCode": int(code)}
        tell(dumps({"version": "1", "error": fields}), stream)
        return
    title = "\x1b[31merror:\x1b[0m" if take_colour(stream) else "error:"
    for word, text in ((title, error.message), ("hint:", error.hint)):
        if text:
            # Further lines are indented, so that no message can look like a line of schedctl's own.
            tell(f"{word} {clean(text, keep=chr(10)).strip().replace(chr(10), chr(10) + '  ')}", stream)


def tell(line: str, stream: TextIO) -> None:
    """Print a line beside the result; where it cannot be written (a full disk), what is done goes on all the same."""
    try:
        print(line, file=stream, flush=True)
    except OSError:
        discard_output(stream)


def run_at_edge(
    program: Callable[[], int | None], *, name: str = "this program", debug: bool = False, json: bool = False
) -> int:
    """Run a program's body and turn however it ends into an exit code; only `debug` shows tracebacks.

    With `json` an error is one line of JSON on stderr.
    """
    _prepare_streams()
    try:
        return program() or ExitCode.OK
    except KeyboardInterrupt:
        tell("interrupted", sys.stderr)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:  # the reader of our output left (`| head`)
        discard_output(sys.stdout)
        return ExitCode.FAILURE
    except Exception as error:
        if debug:
            _print_traceback()
        told, code = _translate(error, name)
        report(told, code, sys.stderr, json=json)
        if isinstance(error, OSError) and error.filename is None:
            discard_output(sys.stdout)  # it may be what could not be written
        return code


def _translate(error: Exception, name: str) -> tuple[SchedkitError, ExitCode]:
    """What a person is told of an error of any kind, and how the program ends."""
    if isinstance(error, SchedkitError):
        return error, error.exit_code
    if isinstance(error, OSError):
        where = f": {error.filename}" if error.filename else ""
        code = _OS_EXIT_CODES.get(error.errno or 0, ExitCode.FAILURE)
        return SchedkitError(f"{error.strerror or error}{where}"), code
    if isinstance(error, UnicodeDecodeError):  # a binary file where text belongs
        told = f"the input is not text: {error.reason} at byte {error.start}"
        return BadDataError(told), ExitCode.BAD_DATA
    if isinstance(error, ModuleNotFoundError):  # what only some users need is an extra of the distribution
        whole = "'schedkit[sked]'" if name in ("sked", "kubectl scx") else "--force-reinstall schedkit"
        hint = f"install all of it: pip install {whole}"
        return UnavailableError(f"{name} needs the Python package {error.name}", hint=hint), ExitCode.UNAVAILABLE
    return (
        SchedkitError(
            f"internal error: {type(error).__name__}: {error}",
            hint="this is a bug in schedkit; run again with SCHEDKIT_DEBUG=1 and report the traceback",
        ),
        ExitCode.INTERNAL,
    )


def _prepare_streams() -> None:
    """A stream that is closed (`>&-`) leads nowhere, and what a terminal has no character for is a question mark."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123 (for as long as the process lives)
        elif mode == "w" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def discard_output(stream: TextIO) -> None:
    """What is still in a stream's buffer cannot be written; Python would try again, and complain, at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _print_traceback() -> None:
    import traceback  # here: with all that it imports itself, it would slow every start

    traceback.print_exc()
