"""An engine that says what a test wants. What real ones say is tests/integration/runtimes' to know."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from urllib.parse import parse_qs, urlsplit

from schedkit.images.oci import Credentials, Descriptor, Source

DIGEST = "sha256:" + "d" * 64
MANIFEST = "sha256:" + "e" * 64
CONFIG = "sha256:" + "c" * 64
LAYERS = (
    Descriptor("application/vnd.oci.image.layer.v1.tar+gzip", "sha256:" + "a" * 64, 100),
    Descriptor("application/vnd.oci.image.layer.v1.tar+gzip", "sha256:" + "b" * 64, 300),
)
INSPECTED: dict[str, object] = {
    "Id": "c0ffee",
    "Name": "/idle",
    "Image": "sha256:" + "c" * 64,
    "Created": "2026-11-15T13:58:10.25Z",
    "Config": {
        "Image": f"ghcr.io/schedkit/scx_idle@{DIGEST}",
        "Labels": {"provider": "schedkit", "org.schedkit.manifest": DIGEST},
        "Tty": False,
    },
    "State": {
        "Status": "running",
        "Pid": 740,
        "ExitCode": 0,
        "StartedAt": "2026-11-15T13:58:11.518198016Z",
        "FinishedAt": "0001-01-01T00:00:00Z",
    },
}


class Request(BaseHTTPRequestHandler):
    """One request, and what a test answers it with."""

    protocol_version = "HTTP/1.1"
    server: "_Server"

    def handle_any(self) -> None:
        split = urlsplit(self.path)
        self.query = {name: values[0] for name, values in parse_qs(split.query, keep_blank_values=True).items()}
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.close_connection = True
        self.server.fake.requests.append(self)
        self.server.fake.answer(self, f"{self.command} {split.path}")

    do_GET = do_POST = do_DELETE = handle_any

    def say(self, status: int, body: object = None, **headers: str) -> None:
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def version_string(self) -> str:
        return self.server.fake.banner

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *arguments: object) -> None:
        pass


class _Server(ThreadingUnixStreamServer):
    daemon_threads = True
    fake: "FakeEngine"

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # whoever asked has hung up, which is what some tests are about


Reply = Callable[[Request], None]


class FakeEngine:
    """Answers `METHOD /path` (without the version's prefix) as told, and remembers what it was asked."""

    def __init__(self, path: Path, driver: str, api: str) -> None:
        self.socket = str(path)
        self.replies: dict[str, Reply] = {}
        self.requests: list[Request] = []
        self.released = threading.Event()  # ends the silences
        libpod = {"Libpod_Api_Version": "5.4.2"} if driver == "podman" else {}
        self.banner = "Libpod/5.4.2 (linux)" if driver == "podman" else "Docker/26.1.5+dfsg1 (linux)"
        self.replies["GET /_ping"] = lambda request: request.say(200, b"OK", Api_Version=api, **libpod)

    def on(self, what: str, status: int, body: object = None) -> None:
        self.replies[what] = lambda request: request.say(status, body)

    def has_image(self, id: str = CONFIG, repository: str = "ghcr.io/schedkit/scx_idle") -> None:
        """Have FakeContent's manifest here; `id` is what the engine calls that image."""
        self.on(f"GET /images/{repository}@{MANIFEST}/json", 200, {"Id": id})

    def pulls(self, target: str = "/images/create", body: bytes = b"", id: str = CONFIG) -> None:
        """Have a pull leave FakeContent's manifest here."""

        def pull(request: Request) -> None:
            self.has_image(id, request.query.get("fromImage") or request.query["reference"].partition("@")[0])
            request.say(200, body)

        self.replies[f"POST {target}"] = pull

    def hang_on(self, what: str) -> None:
        def hang(_: Request) -> None:
            self.released.wait(30)

        self.replies[what] = hang

    def answer(self, request: Request, what: str) -> None:
        method, _, path = what.partition(" ")
        bare = "/" + path.lstrip("/").partition("/")[2] if path.startswith("/v1.") else path
        reply = self.replies.get(f"{method} {bare}")
        if reply:
            reply(request)
        else:
            request.say(404, {"message": "no such thing"})


@contextmanager
def run_fake_engine(path: Path, driver: str, api: str = "1.41") -> Iterator[FakeEngine]:
    fake = FakeEngine(path, driver, api)
    server = _Server(str(path), Request)
    server.fake = fake
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield fake
    finally:
        fake.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def ignore_progress(done: int, total: int) -> None:
    pass


class FakeContent:
    """An image as engines need it: they fetch the bytes for themselves."""

    reference = "ghcr.io/schedkit/scx_idle:v1"
    repository = "ghcr.io/schedkit/scx_idle"
    digest = DIGEST
    manifest = Descriptor("application/vnd.oci.image.manifest.v1+json", MANIFEST, 10)
    manifests: tuple[tuple[Descriptor, bytes], ...] = ()
    config = Descriptor("application/vnd.oci.image.config.v1+json", CONFIG, 10)
    layers = LAYERS

    def __init__(
        self, credentials: Credentials | None = None, *, insecure: bool = False, mirrors: Sequence[Source] = ()
    ) -> None:
        self.sources = [*mirrors, Source(self.repository, credentials, insecure)]

    def fetch_blob(self, blob: Descriptor, *, checked: bool = True) -> Iterator[bytes]:
        raise AssertionError("an engine pulls for itself")
