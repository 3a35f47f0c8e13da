"""`schedctl metrics`: what the kernel's slot is doing, for Prometheus."""

from contextlib import suppress
from typing import TYPE_CHECKING

import click

from schedkit.errors import UnavailableError, UsageError
from schedkit.schedctl.options import Command, pass_session
from schedkit.schedctl.session import Session

if TYPE_CHECKING:
    from http.server import ThreadingHTTPServer
    from pathlib import Path

SECONDS = 10  # for one request: who is slower is dropped


@click.command(
    cls=Command,
    short_help="Print the kernel's scheduler metrics, for Prometheus.",
    epilog="""
    schedctl metrics
    schedctl metrics --listen 127.0.0.1:9440
    schedctl metrics >/var/lib/prometheus/node-exporter/sched_ext.prom
    """,
)
@click.option(
    "--listen",
    metavar="[ADDRESS]:PORT",
    help="Serve the metrics at /metrics until Ctrl-C; :PORT alone listens on all addresses.",
)
@pass_session
def command(session: Session, listen: str | None) -> None:
    """Print the state of the kernel's slot as OpenMetrics text, with the same names as sked's agents use.

    With --listen, the metrics are served over plain HTTP to everyone who can reach that address.
    """
    root = session.machine.root
    if listen is None:
        session.output.write(read_metrics(root))
        return
    server = make_server(listen, root)
    session.progress.step(f"serving http://{'localhost' if listen.startswith(':') else ''}{listen}/metrics")
    with server:
        server.serve_forever()


def read_metrics(root: "Path") -> str:
    """One look at the kernel."""
    from schedkit.kernel.files import read_text
    from schedkit.kernel.metrics import describe_slot, render_metrics
    from schedkit.kernel.state import read_state

    release = read_text(root / "proc/sys/kernel/osrelease")
    return render_metrics(describe_slot(read_state(root), release=release if isinstance(release, str) else ""))


def make_server(listen: str, root: "Path") -> "ThreadingHTTPServer":
    """A server that answers one path, and looks at the kernel each time."""
    import socket
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    from schedkit.kernel.metrics import CONTENT_TYPE

    class Handler(BaseHTTPRequestHandler):
        timeout = SECONDS

        def do_GET(self) -> None:
            found = self.path.partition("?")[0] == "/metrics"
            body = read_metrics(root).encode() if found else b"/metrics is all there is\n"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", CONTENT_TYPE if found else "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Who asked is not told."""

    host, colon, port = listen.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise UsageError(f"--listen {listen}: not an address and a port", hint="for example 127.0.0.1:9440, or :9440")
    host = host.strip("[]")

    class DualServer(ThreadingHTTPServer):
        address_family = socket.AF_INET6

        def server_bind(self) -> None:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            super().server_bind()

    if not host and socket.has_dualstack_ipv6():
        with suppress(OSError):  # IPv6 is there, and may be switched off; other errors are those of IPv4, too
            return DualServer(("", int(port)), Handler)
    try:
        return ThreadingHTTPServer((host, int(port)), Handler)
    except OSError as error:
        raise UnavailableError(f"cannot listen on {listen}: {error.strerror or error}") from error
