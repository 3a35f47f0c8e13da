"""The operator's end of the verifier: a process that is started when it is needed, and ended when it is idle."""

import asyncio
import itertools
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

import msgspec

from schedkit.errors import NoAnswerError
from schedkit.sked.verifier.messages import ImageFinding, Question, TrustSettings

IDLE_SECONDS = 20.0
ANSWER_SECONDS = 200.0  # each answer has its own limits; whoever takes longer than all of them together is stuck
LONGEST_LINE = 1 << 16
# With the same path as here, whatever started this process: a virtual environment, or an image without one.
PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from schedkit.sked.verifier.child import main; main()"


class VerifierProcess:
    """Asks the one child that there is, or starts it. For one event loop."""

    def __init__(
        self,
        settings: TrustSettings,
        *,
        command: Sequence[str] = (),
        idle_seconds: float = IDLE_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._settings = settings
        self._command = command or (sys.executable, "-IB", "-c", PROGRAM, *sys.path)
        self._idle_seconds = idle_seconds
        self._answer_seconds = answer_seconds
        self._ids = itertools.count(1)
        self._child: Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._waiting: dict[int, tuple[Process, asyncio.Future[ImageFinding]]] = {}
        self._idle: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        """The process id of the child, while there is one."""
        return self._child.pid if self._child else None

    async def ask(
        self, kind: Literal["policy", "resolve", "judge"], reference: str = "", secrets: Sequence[str] = ()
    ) -> ImageFinding:
        """One answer; NoAnswerError where the process gives none."""
        child = await self._start()
        number = next(self._ids)
        answer: asyncio.Future[ImageFinding] = asyncio.get_running_loop().create_future()
        self._waiting[number] = child, answer
        try:
            self._write(child, Question(number, kind, reference, tuple(secrets)))
            async with asyncio.timeout(self._answer_seconds):
                return await answer
        except TimeoutError:
            self._end(child)
            raise NoAnswerError(f"{reference or 'the policy'}: the verifier gave no answer in time") from None
        finally:
            self._waiting.pop(number, None)
            if not self._waiting:
                self._idle = asyncio.get_running_loop().call_later(self._idle_seconds, self._end_if_idle)

    async def close(self) -> None:
        """End the child, and wait until it has."""
        if self._idle:
            self._idle.cancel()
        child, reader = self._child, self._reader
        if child:
            self._end(child)
            await child.wait()
        if reader:
            with suppress(asyncio.CancelledError):
                await reader

    async def _start(self) -> Process:
        if self._idle:
            self._idle.cancel()
        async with self._starting:
            if self._child is None:
                try:
                    # A group of its own: a terminal sends Ctrl-C to all of a group, and it is ended by this process.
                    self._child = await asyncio.create_subprocess_exec(
                        *self._command, stdin=PIPE, stdout=PIPE, limit=LONGEST_LINE, process_group=0
                    )
                except OSError as error:
                    raise NoAnswerError(f"the verifier cannot be started: {error.strerror}") from error
                self._write(self._child, self._settings)
                self._reader = asyncio.create_task(self._read(self._child))
            return self._child

    def _write(self, child: Process, message: msgspec.Struct) -> None:
        if child.stdin and not child.stdin.is_closing():  # else its end is noticed by whoever reads
            child.stdin.write(msgspec.json.encode(message) + b"\n")

    async def _read(self, child: Process) -> None:
        """Give each answer to whoever asked; at the end of the child, nobody who waits will be answered."""
        try:
            while child.stdout and (line := await child.stdout.readline()):
                answer = msgspec.json.decode(line, type=ImageFinding)
                _, waiting = self._waiting.get(answer.id, (child, None))
                if waiting and not waiting.done():
                    waiting.set_result(answer)
        except (ValueError, msgspec.DecodeError):  # a line that is too long, or not a message of the verifier
            pass
        self._end(child)
        for asked, waiting in self._waiting.values():
            if asked is child and not waiting.done():
                waiting.set_exception(NoAnswerError("the verifier ended before it could answer"))
        await child.wait()

    def _end_if_idle(self) -> None:
        if self._child and not self._waiting:
            self._end(self._child)

    def _end(self, child: Process) -> None:
        if self._child is child:
            self._child = None
        if child.returncode is None:
            with suppress(ProcessLookupError):
                child.kill()  # it holds nothing that could be lost
