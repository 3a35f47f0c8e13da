"""What a scheduler wrote last before it ended: fetched once for each end, beside the reconciliations."""

import asyncio
import re
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from schedkit.errors import SchedkitError
from schedkit.kernel.exits import parse_exit
from schedkit.sked.api.types import NodeFailure
from schedkit.sked.controller.failures import Crash, shorten
from schedkit.sked.controller.objects import PODS
from schedkit.sked.kube.client import Client
from schedkit.sked.kube.errors import ApiError, ConnectionLostError
from schedkit.sked.kube.objects import Key

READERS = 8
LINES, BYTES = 20, 1 << 16
LOG_LENGTH = 300
SECONDS = 10.0  # a node that answers at all does so in less
NO_ANSWER = "NoAnswer"
EJECTED_BY_KERNEL = "the kernel ejected it,"

_TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TIME = re.compile(r"^\[?(?:\d{4}[-/]\d\d[-/]\d\d[T ])?\d\d:\d\d:\d\d\S*\s+")
_BEGINS_COMPLAINT = re.compile(r"\W*(?:error|fatal|panic|thread '[^']*' (?:\(\d+\) )?panicked)\b", re.IGNORECASE)
_COMPLAINS = re.compile(r"error|fail|fatal|panic|cannot|could not|unable|ejected|denied|refused|busy", re.IGNORECASE)


def parse_log(log: str) -> str:
    """The lines at the end of a log that say why, as one: the kernel's reason if it ejected the scheduler.

    Else from the last complaint on, else the very last line.
    """
    lines = [_TIME.sub("", _TERMINAL_CODES.sub("", line).strip()) for line in log.splitlines()]
    lines = [line for line in lines if line]
    if thrown_out := parse_exit(lines):
        return shorten(f"{EJECTED_BY_KERNEL} {thrown_out}", LOG_LENGTH)
    for pattern in (_BEGINS_COMPLAINT.match, _COMPLAINS.search):
        if found := [place for place, line in enumerate(lines) if pattern(line)]:
            return shorten(" ".join(lines[found[-1] :]), LOG_LENGTH)
    return shorten(lines[-1], LOG_LENGTH) if lines else ""


class CrashLogs:
    """What the logs of crashed schedulers say, as far as it is known; whoever asked is woken when it is."""

    def __init__(self, client: Client, wake: Callable[[Key], None]) -> None:
        self._client = client
        self._wake = wake
        self._known: dict[str, tuple[int, str]] = {}  # by the pod's uid: after which restart, and what to add
        self._asked: dict[str, int] = {}
        self._waiting: asyncio.Queue[tuple[Key, Crash]] = asyncio.Queue()

    def complete(self, resource: Key, failure: NodeFailure, crash: Crash, before: Sequence[NodeFailure]) -> NodeFailure:
        """A failure with what the scheduler's log says; until that is known, as it was told before, if it was."""
        restarts, said = self._known.get(crash.uid, (-1, ""))
        if restarts == crash.restarts:
            return replace(failure, message=failure.message + said)
        if self._asked.get(crash.uid) != crash.restarts:
            self._asked[crash.uid] = crash.restarts
            self._waiting.put_nowait((resource, crash))
        told = (old for old in before if replace(old, message="") == replace(failure, message=""))
        return next((old for old in told if old.message.startswith(failure.message)), failure)

    def is_reading(self, crash: Crash) -> bool:
        """Whether what the log says of an end is about to be known."""
        return self._asked.get(crash.uid) == crash.restarts

    def forget(self, uid: str) -> None:
        """A pod is gone."""
        self._known.pop(uid, None)
        self._asked.pop(uid, None)

    async def run(self) -> None:
        """Read logs until cancelled; a node that does not respond keeps only others' logs waiting."""
        async with asyncio.TaskGroup() as group:
            for _ in range(READERS):
                group.create_task(self._read())

    async def _read(self) -> None:
        while True:
            resource, crash = await self._waiting.get()
            if self._asked.get(crash.uid) != crash.restarts:
                continue  # gone, or ended once more meanwhile
            said = await self._fetch(crash)
            if self._asked.get(crash.uid) == crash.restarts:
                del self._asked[crash.uid]
                self._known[crash.uid] = crash.restarts, said
                self._wake(resource)

    async def _fetch(self, crash: Crash) -> str:
        query = {"container": crash.container, "previous": "true", "tailLines": str(LINES), "limitBytes": str(BYTES)}
        try:
            log = await self._client.fetch_text(
                PODS,
                crash.pod.name,
                namespace=crash.pod.namespace,
                subresource="log",
                query=query,
                limit_bytes=BYTES,
                seconds=SECONDS,
            )
        except SchedkitError as error:
            return f"; its log could not be read: {_say_why(error)}"
        said = parse_log(log)
        return f": {said}" if said else "; its log says nothing"


def _say_why(error: SchedkitError) -> str:
    """One word that stays the same: addresses and ports in a refusal may not."""
    if isinstance(error, ConnectionLostError) or (isinstance(error, ApiError) and error.code >= 500):
        return NO_ANSWER  # the API server has asked the node
    return (isinstance(error, ApiError) and error.status_reason) or error.reason
