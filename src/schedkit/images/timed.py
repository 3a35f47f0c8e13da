"""urllib3's connections, with a time for the whole of connecting, of a head, and of each piece of a body.

Its own timeouts are for each address of a host, and for each byte that comes: whoever drips is never late.
"""

import http.client
import io
import socket
import time
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, LocationParseError, NameResolutionError, NewConnectionError
from urllib3.util.connection import allowed_gai_family, create_connection

from schedkit.deadlines import TimedReader


class TimedResponse(http.client.HTTPResponse):
    """A head that must be there within the socket's timeout, and a body whose pieces have the time they are given."""

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        seconds = sock.gettimeout()
        self._reader = TimedReader(sock, None if seconds is None else time.monotonic() + seconds)
        self.fp.close()
        self.fp = io.BufferedReader(self._reader)

    def allow(self, seconds: float) -> None:
        """Have so much time, from now on, for what is read next."""
        self._reader.deadline = time.monotonic() + seconds


class _Timed(HTTPConnection):
    """Connects to one of a host's addresses within one timeout for all of them, divided among those not yet tried."""

    response_class = TimedResponse

    def _new_conn(self) -> socket.socket:
        host, seconds = self._dns_host, self.timeout
        deadline = time.monotonic() + seconds if isinstance(seconds, int | float) else None
        try:
            found = socket.getaddrinfo(host, self.port, allowed_gai_family(), socket.SOCK_STREAM)
        except socket.gaierror as error:
            raise NameResolutionError(self.host, self, error) from error
        except UnicodeError as error:
            raise LocationParseError(f"{host!r}, label empty or too long") from error
        failure: OSError = OSError("it has no address")
        for number, (*_, address) in enumerate(found):
            left = None if deadline is None else (deadline - time.monotonic()) / (len(found) - number)
            if left is not None and left <= 0:
                break
            try:
                there = str(address[0]), self.port
                return create_connection(there, left, self.source_address, self.socket_options)
            except OSError as error:
                failure = error
        if isinstance(failure, TimeoutError):
            raise ConnectTimeoutError(self, f"Connection to {host} timed out") from failure
        raise NewConnectionError(self, f"Failed to establish a new connection: {failure}") from failure


class _TimedSecure(_Timed, HTTPSConnection):
    """The same, with TLS."""


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Timed


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _TimedSecure


POOLS: dict[str, type[HTTPConnectionPool]] = {"http": _Pool, "https": _SecurePool}
