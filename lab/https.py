"""HTTPS with client certificates to the lab's own servers, one connection for many requests."""

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.waiting import NotYetError

REQUEST_SECONDS = 30.0


@dataclass(frozen=True)
class Answer:
    """What a server said."""

    status: int
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")


class Connection:
    """An open connection to one server."""

    def __init__(self, connection: http.client.HTTPSConnection) -> None:
        self._connection = connection

    def request(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Answer:
        """Send a request, its body as JSON; a server that does not respond is one that is not there yet."""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            self._connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            response = self._connection.getresponse()
            return Answer(response.status, response.read())
        except (OSError, http.client.HTTPException) as error:
            raise NotYetError(f"port {self._connection.port} does not respond: {error}") from error


@contextmanager
def connect(port: int, context: ssl.SSLContext, *, timeout: float = REQUEST_SECONDS) -> Iterator[Connection]:
    """A connection to a server on this host's loopback."""
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=timeout, context=context)
    try:
        yield Connection(connection)
    finally:
        connection.close()


def make_context(pki: Path, authority: str, client: str) -> ssl.SSLContext:
    """Trust one authority and present one certificate, both by their names in a folder."""
    context = ssl.create_default_context(cafile=str(pki / f"{authority}.crt"))
    context.load_cert_chain(pki / f"{client}.crt", pki / f"{client}.key")
    return context
