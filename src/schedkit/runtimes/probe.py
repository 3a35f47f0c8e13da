"""Does anybody answer at a socket? All are asked at once; not even `socket` is imported before there is one to ask."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from schedkit.errors import NoAnswerError, NoPermissionError, SchedkitError, UnavailableError

if TYPE_CHECKING:
    import socket

_PING = b"GET /_ping HTTP/1.1\r\nHost: localhost\r\n\r\n"
# What opens every HTTP/2 connection: the preface and an empty SETTINGS frame. A server answers with its own SETTINGS.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_FRAME_HEADER = 9
_SETTINGS = 4
_MOST = 16 * 1024


class Answered(NamedTuple):
    """Somebody is there; `api` is the version of the API that an engine offers."""

    api: str = ""


class Failed(NamedTuple):
    """Nobody answers: why, as which error where this one is needed; `absent` if there is no socket at all."""

    why: str
    error: type[SchedkitError] = UnavailableError
    absent: bool = False


Outcome = Answered | Failed
_ABSENT = Failed("there is no such socket", absent=True)


def probe(sockets: Mapping[str, str], seconds: float) -> dict[str, Outcome]:
    """Ask all drivers at their sockets; together they take no longer than `seconds`."""
    there = {driver: path for driver, path in sockets.items() if not _is_absent(path)}
    outcomes = _ask_all(there, seconds) if there else {}
    return {driver: outcomes[driver] if driver in there else _ABSENT for driver in sockets}


def _is_absent(path: str) -> bool:
    """Only what is known not to be there; a folder that may not be searched is for the asking to complain of."""
    try:
        Path(path).stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _ask_all(sockets: Mapping[str, str], seconds: float) -> dict[str, Outcome]:
    import threading

    outcomes: dict[str, Outcome] = {}

    def ask(driver: str, path: str) -> None:
        outcomes[driver] = _ask(driver, path, seconds)

    threads = [threading.Thread(target=ask, args=item, daemon=True) for item in sockets.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def _ask(driver: str, path: str, seconds: float) -> Outcome:
    import socket

    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(seconds)
            connection.connect(path)
            deadline = time.monotonic() + seconds
            return (
                _ask_containerd(connection, deadline)
                if driver == "containerd"
                else _ask_engine(driver, connection, deadline)
            )
    except FileNotFoundError:
        return _ABSENT
    except PermissionError:
        return Failed("no permission", NoPermissionError)
    except ConnectionRefusedError:
        return Failed("nobody listens at it")
    except (TimeoutError, BlockingIOError):  # the latter when more wait to be accepted than there is room for
        return Failed(f"no answer within {seconds * 1000:.0f} ms", NoAnswerError)
    except OSError as error:
        return Failed(error.strerror or str(error))


def _ask_engine(driver: str, connection: "socket.socket", deadline: float) -> Outcome:
    connection.sendall(_PING)
    said = b""
    while b"\r\n\r\n" not in said and (piece := _receive(connection, deadline, said)):
        said += piece
    head, *lines = said.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    if not head.startswith("HTTP/1."):
        return Failed("what answers is no container engine")
    if " 200" not in head:
        return Failed(f"it answers {head!r}")
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    # Where podman stands in for docker, both sockets lead to it; its containers must not be counted twice.
    behind = "podman" if "libpod-api-version" in fields else "docker"
    if behind != driver:
        return Failed(f"it is {behind} that answers there", absent=True)
    return Answered(fields.get("api-version", ""))


def _ask_containerd(connection: "socket.socket", deadline: float) -> Outcome:
    connection.sendall(_PREFACE)
    said = b""
    while len(said) < _FRAME_HEADER and (piece := _receive(connection, deadline, said)):
        said += piece
    if len(said) < _FRAME_HEADER or said[3] != _SETTINGS:
        return Failed("what answers is not containerd")
    return Answered()


def _receive(connection: "socket.socket", deadline: float, before: bytes) -> bytes:
    left = deadline - time.monotonic()
    if left <= 0 or len(before) > _MOST:
        raise TimeoutError
    connection.settimeout(left)
    return connection.recv(_MOST)
