"""HTTP over a unix socket: one connection a call, and every call ends in time."""

import json
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from typing import Any, NamedTuple
from urllib.parse import urlencode

from schedkit.deadlines import TimedReader
from schedkit.errors import BadDataError, NoAnswerError, NoPermissionError, UnavailableError
from schedkit.http1 import Http1Response, format_request

READ_SECONDS = 30.0  # for what reads more than that
CHANGE_SECONDS = 120.0  # for what makes, starts, signals or removes something
_PIECE = 64 * 1024
_MOST = 16 * 1024 * 1024  # of an answer that is read whole


class EngineAnswer(NamedTuple):
    """What came back, read whole."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes


class EngineSocket:
    """A runtime's socket. Each call says by `action` what it is for, for messages: `start container 1234`."""

    def __init__(self, driver: str, path: str) -> None:
        self.driver = driver
        self.path = path

    def call(
        self,
        method: str,
        target: str,
        action: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        seconds: float = READ_SECONDS,
    ) -> EngineAnswer:
        """Ask and read the whole answer, all within `seconds`."""
        with self.open(method, target, action, query=query, body=body, seconds=seconds, whole=True) as (response, _):
            pieces: list[bytes] = []
            size = 0
            while piece := response.read1(_PIECE):
                pieces.append(piece)
                size += len(piece)
                if size > _MOST:
                    raise BadDataError(f"{self.driver} was asked to {action} and answered more than {_MOST} bytes")
            return EngineAnswer(response.status, response.headers, b"".join(pieces))

    @contextmanager
    def open(
        self,
        method: str,
        target: str,
        action: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = READ_SECONDS,
        whole: bool = False,
    ) -> Iterator[tuple[Http1Response, socket.socket]]:
        """Ask, and read the answer as it comes. Leaving hangs up.

        `seconds` bounds the way to the answer's body, and then each silence, or with `whole` all of it; None does not.
        """
        url = f"{target}?{urlencode(query)}" if query else target
        content = None if body is None else json.dumps(body).encode()
        fields = dict(headers or {}) | ({"Content-Type": "application/json"} if content is not None else {})
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(seconds)
                deadline = None if seconds is None else time.monotonic() + seconds
                connection.connect(self.path)
                if deadline is not None:
                    connection.settimeout(max(deadline - time.monotonic(), 0.001))
                connection.sendall(format_request(method, url, fields, content))
                reader = TimedReader(connection, deadline)
                with BufferedReader(reader) as stream:
                    response = Http1Response(stream)
                    if not whole:
                        reader.deadline = None
                        connection.settimeout(seconds)
                    yield response, connection
        except TimeoutError as error:
            raise NoAnswerError(
                f"{self.driver} did not respond within {seconds or 0:g} s when asked to {action}",
                hint=f"is {self.driver} hung? it was asked at {self.path}",
            ) from error
        except PermissionError as error:
            raise NoPermissionError(
                f"no permission to speak to {self.driver} at {self.path}", hint="run it as root, with sudo for example"
            ) from error
        except OSError as error:
            why = str(error) or type(error).__name__
            raise UnavailableError(f"{self.driver} at {self.path} broke off when asked to {action}: {why}") from error

    def parse(self, content: bytes, action: str) -> Any:
        """JSON out of an answer."""
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            said = content[:200].decode(errors="replace")
            raise BadDataError(f"{self.driver} was asked to {action} and sent an invalid response: {said!r}") from error
