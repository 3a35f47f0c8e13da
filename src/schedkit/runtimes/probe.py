"""Does a runtime respond at a socket? All are asked at once; `socket` is imported only if there is one to ask."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from schedkit.errors import NoAnswerError, NoPermissionError, SchedkitError, UnavailableError
from schedkit.runtimes.view import ask_all, ignore

if TYPE_CHECKING:
    import socket

_PING = b"GET /_ping HTTP/1.1\r\nHost: localhost\r\n\r\n"
# What opens every HTTP/2 connection: the preface and an empty SETTINGS frame. A server answers with its own SETTINGS.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_FRAME_HEADER = 9
_SETTINGS = 4
_MOST = 16 * 1024
_PAUSE_SECONDS = 0.05  # until a queue of connections that is full is tried again


class Answered(NamedTuple):
    """A runtime responds; `api` is the version of the API that an engine offers."""

    api: str = ""


class Failed(NamedTuple):
    """None does: why, as which error where this one is needed; `absent` if there is no socket at all."""

    why: str
    error: type[SchedkitError] = UnavailableError
    absent: bool = False


Outcome = Answered | Failed
ABSENT = Failed("no such socket", absent=True)


def probe(
    sockets: Mapping[str, str], seconds: float, notice: Callable[[list[str]], None] = ignore
) -> dict[str, Outcome]:
    """Ask all drivers at their sockets; together they take no longer than `seconds`.

    `notice` is told, once, who has been waited for for a while.
    """
    there = {driver: path for driver, path in sockets.items() if not _is_absent(path)}
    outcomes = ask_all(there, lambda driver: _ask(driver, there[driver], seconds), notice) if there else {}
    return {driver: outcomes[driver] if driver in there else ABSENT for driver in sockets}


def _is_absent(path: str) -> bool:
    """Only what is known not to be there; a folder that may not be searched is for the asking to complain of."""
    try:
        Path(path).stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _ask(driver: str, path: str, seconds: float) -> Outcome:
    deadline = time.monotonic() + seconds
    try:
        with _connect(path, deadline) as connection:
            return (
                _ask_containerd(connection, deadline)
                if driver == "containerd"
                else _ask_engine(driver, connection, deadline)
            )
    except FileNotFoundError:
        return ABSENT
    except PermissionError:
        return Failed("permission denied", NoPermissionError)
    except ConnectionRefusedError:
        return Failed("connection refused")
    except TimeoutError:
        return Failed(f"no response within {seconds:g} s", NoAnswerError)
    except OSError as error:
        return Failed(error.strerror or str(error))


def _connect(path: str, deadline: float) -> "socket.socket":
    import socket

    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        while True:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                connection.connect(path)
            except BlockingIOError:  # more wait to be accepted than there is room for: it is there, and busy
                if time.monotonic() >= deadline:
                    raise TimeoutError from None
                time.sleep(_PAUSE_SECONDS)
            else:
                return connection
    except BaseException:
        connection.close()
        raise


def _ask_engine(driver: str, connection: "socket.socket", deadline: float) -> Outcome:
    connection.sendall(_PING)
    said = b""
    while b"\r\n\r\n" not in said and (piece := _receive(connection, deadline, said)):
        said += piece
    head, *lines = said.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    if not head.startswith("HTTP/1."):
        return Failed("not a container engine")
    if " 200" not in head:
        return Failed(f"it responds {head!r}")
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    # Where podman stands in for docker, both sockets lead to it; its containers must not be counted twice.
    behind = "podman" if "libpod-api-version" in fields else "docker"
    if behind != driver:
        return Failed(f"{behind} responds there", absent=True)
    return Answered(fields.get("api-version", ""))


def _ask_containerd(connection: "socket.socket", deadline: float) -> Outcome:
    connection.sendall(_PREFACE)
    said = b""
    while len(said) < _FRAME_HEADER and (piece := _receive(connection, deadline, said)):
        said += piece
    if len(said) < _FRAME_HEADER or said[3] != _SETTINGS:
        return Failed("not containerd")
    return Answered()


def _receive(connection: "socket.socket", deadline: float, before: bytes) -> bytes:
    left = deadline - time.monotonic()
    if left <= 0 or len(before) > _MOST:
        raise TimeoutError
    connection.settimeout(left)
    return connection.recv(_MOST)
