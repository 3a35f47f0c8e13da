"""Docker's HTTP API, in the version that an engine serves; what fails is told in the engine's words."""

import socket
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from schedkit.errors import BadDataError, SchedkitError
from schedkit.http1 import Http1Response
from schedkit.runtimes.engine_answers import parse_failure, parse_message
from schedkit.runtimes.unix_http import CHANGE_SECONDS, READ_SECONDS, EngineAnswer, EngineSocket

# The newest version of the API whose meanings we know. Docker 29 serves none older; older servers say so in their ping.
_NEWEST = (1, 44)


class EngineApi:
    """The API of one engine. Each call says by `action` what it is for, as the socket's do."""

    def __init__(self, engine: EngineSocket, version: str = "") -> None:
        """`version` is what the engine's ping told, if somebody has asked already."""
        self.driver = engine.driver
        self.path = engine.path
        self.parse = engine.parse
        self._socket = engine
        self._prefix = _choose_prefix(version) if version else ""

    def call(
        self,
        method: str,
        target: str,
        action: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        seconds: float | None = None,
    ) -> EngineAnswer:
        """Ask and read the whole answer."""
        seconds = READ_SECONDS if seconds is None else seconds
        return self._socket.call(method, self._find_prefix() + target, action, query=query, body=body, seconds=seconds)

    def open(
        self,
        method: str,
        target: str,
        action: str,
        *,
        query: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
        seconds: float | None = READ_SECONDS,
    ) -> AbstractContextManager[tuple[Http1Response, socket.socket]]:
        """Ask, and read the answer as it comes."""
        target = self._find_prefix() + target
        return self._socket.open(method, target, action, query=query, headers=headers, seconds=seconds)

    def fetch_json(
        self, target: str, action: str, query: Mapping[str, str] | None = None, seconds: float | None = None
    ) -> Any:
        """Ask for a document."""
        answer = self.call("GET", target, action, query=query, seconds=seconds)
        if answer.status != 200:
            raise self.failure(answer, action)
        return self.parse(answer.body, action)

    def change(
        self, method: str, target: str, action: str, *, fine: tuple[int, ...], query: Mapping[str, str] | None = None
    ) -> None:
        """Have something done whose answer is a status alone."""
        answer = self.call(method, target, action, query=query, seconds=CHANGE_SECONDS)
        if answer.status not in fine:
            raise self.failure(answer, action)

    def ping(self) -> EngineAnswer:
        """Ask what it is, which no version of the API is needed for."""
        action = "say which version it is"
        answer = self._socket.call("GET", "/_ping", action)
        if answer.status != 200:
            raise self.failure(answer, action)
        return answer

    def failure(self, answer: EngineAnswer, action: str) -> SchedkitError:
        """What an answer that is not the wanted one says, as an error."""
        return parse_failure(self.driver, answer.status, parse_message(answer.body), action)

    def invalid(self, action: str) -> BadDataError:
        """The error for an answer without what it must have."""
        return BadDataError(f"{self.driver} was asked to {action} and sent an invalid response")

    def _find_prefix(self) -> str:
        if not self._prefix:
            self._prefix = _choose_prefix(self.ping().headers.get("api-version", ""))
        return self._prefix


def _choose_prefix(version: str) -> str:
    """The older of what the server serves and what we know; a server that does not tell gets ours."""
    try:
        major, minor = (int(number) for number in version.split("."))
    except ValueError:
        major, minor = _NEWEST
    major, minor = min((major, minor), _NEWEST)
    return f"/v{major}.{minor}"
