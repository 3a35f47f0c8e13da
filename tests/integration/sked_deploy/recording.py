"""A proxy before the API server that notes which rights each request takes."""

import http.client
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

from lab.cluster import Cluster

Right = tuple[str, str, str]  # verb, group, resource with its subresource
VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}
PATH = re.compile(r"/(?:api/v1|apis/([^/]+)/[^/]+)(?:/namespaces/[^/]+(?=/.))?/([^/]+)(?:/([^/]+))?(?:/([^/]+))?")


def parse_right(method: str, target: str) -> Right | None:
    """What RBAC makes of a request; nothing of one that is for no resource."""
    parts = urlsplit(target)
    found = PATH.fullmatch(parts.path)
    if found is None:
        return None
    group, resource, name, part = found.groups()
    reading = "watch" if parse_qs(parts.query).get("watch") == ["true"] else "get" if name else "list"
    return VERBS.get(method, reading), group or "", f"{resource}/{part}" if part else resource


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    port: ClassVar[int]
    context: ClassVar[ssl.SSLContext]
    rights: ClassVar[set[Right]]

    def _forward(self) -> None:
        if right := parse_right(self.command, self.path):
            self.rights.add(right)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        skipped = ("host", "connection", "accept-encoding")
        headers = {name: value for name, value in self.headers.items() if name.lower() not in skipped}
        upstream = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context)
        try:
            upstream.request(self.command, self.path, body or None, headers)
            answer = upstream.getresponse()
            self.send_response(answer.status)
            for name in ("Content-Type", "Retry-After", "Audit-Id", "Warning"):
                if value := answer.headers.get(name):
                    self.send_header(name, value)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            while part := answer.read1(65536):  # a watch goes on for minutes: each part as it comes
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True  # whoever asked is gone, or the server is: the other end sees it
        finally:
            upstream.close()

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _forward

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def record_rights(cluster: Cluster, rights: set[Right]) -> Iterator[str]:
    """The address of a proxy before the cluster's API server, which adds what each request takes."""
    context = ssl.create_default_context(cafile=str(cluster.plane.pki / "ca.crt"))
    handler = type("Handler", (_Handler,), {"port": cluster.api_port, "context": context, "rights": rights})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
