"""Where to listen, as the flags of both programs say it."""

import errno
import socket
from typing import NamedTuple

from schedkit.errors import UsageError


class Address(NamedTuple):
    """Where to listen; an empty host is every address there is."""

    host: str
    port: int


def parse_address(text: str) -> Address | None:
    """An address as controller-runtime's flags take it: `:8081`, `host:8081`, `[::1]:8081`; `0` is none at all."""
    if text in ("", "0"):
        return None
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"{text!r} is not an address to listen on", hint="write :8081, host:8081, or 0 for none")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def listen(address: Address) -> socket.socket:
    """A socket on an address; on every one, of both kinds, where the host has both."""
    if address.host:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        return socket.create_server((address.host, address.port), family=family)
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", address.port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:  # version 6 is there, and switched off
                raise
    return socket.create_server(("", address.port))
