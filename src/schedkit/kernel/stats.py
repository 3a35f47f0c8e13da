"""The statistics that many schedulers serve (scx_stats), from their socket."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from schedkit.kernel.files import explain
from schedkit.unknown import Unknown

if TYPE_CHECKING:
    import socket

_REQUEST = b'{"req":"stats","args":{"target":"top"}}\n'
_LONGEST_ANSWER = 1 << 20


def fetch_stats(root: Path = Path("/"), *, timeout: float = 0.5) -> Mapping[str, object] | Unknown | None:
    """One answer of the scheduler that is attached; None when nobody serves any."""
    import socket

    path = root / "var/run/scx/root/stats"
    end = time.monotonic() + timeout
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.settimeout(timeout)
        try:
            _connect(server, path)
            server.sendall(_REQUEST)
            answer = _receive_line(server, path, end)
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            return None  # refused: its socket outlived the scheduler
        except TimeoutError:
            return Unknown(f"{path}: no answer within {timeout:g} s")
        except OSError as error:
            return Unknown(explain(path, error))
    return answer if isinstance(answer, Unknown) else parse_answer(answer, path)


def parse_answer(answer: bytes, path: Path) -> Mapping[str, object] | Unknown:
    """Parse `{"errno":0,"args":{"resp":{…}}}`."""
    import json

    try:
        message = json.loads(answer)
    except (ValueError, RecursionError):
        return Unknown(f"{path}: the answer is not JSON")
    arguments = message.get("args") if isinstance(message, dict) else None
    if not isinstance(arguments, dict):
        return Unknown(f"{path}: the answer is not one of scx_stats")
    if message.get("errno") != 0:
        return Unknown(f"{path}: the scheduler says {str(arguments.get('resp'))[:80]!r}")
    statistics = arguments.get("resp")
    return statistics if isinstance(statistics, dict) else Unknown(f"{path}: the answer holds no statistics")


def _connect(server: "socket.socket", path: Path) -> None:
    """A socket's name may have 107 bytes; a descriptor of its folder makes any name short."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        server.connect(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def _receive_line(server: "socket.socket", path: Path, end: float) -> bytes | Unknown:
    answer = b""
    while b"\n" not in answer:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        server.settimeout(left)
        part = server.recv(65536)
        if not part:
            return Unknown(f"{path}: the scheduler hung up")
        answer += part
        if len(answer) > _LONGEST_ANSWER:
            return Unknown(f"{path}: the answer is longer than {_LONGEST_ANSWER} bytes")
    return answer
