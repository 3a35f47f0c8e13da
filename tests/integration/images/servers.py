"""Servers of these tests: ones that are told what to answer, one that gives tokens, one that cuts connections."""

import base64
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from lab.pki import Pair, make_authority, make_certificate, write_pair


@dataclass
class Request:
    """What came in, and the way to answer."""

    handler: BaseHTTPRequestHandler

    @property
    def path(self) -> str:
        return self.handler.path

    @property
    def headers(self) -> Mapping[str, str]:
        return self.handler.headers  # type: ignore[return-value]

    def answer(self, status: int = 200, body: bytes = b"", **headers: str) -> None:
        self.begin(status, **{"Content_Length": str(len(body))} | headers)
        self.write(body)

    def begin(self, status: int, **headers: str) -> None:
        self.handler.send_response(status)
        for name, value in headers.items():
            self.handler.send_header(name.replace("_", "-"), value)
        self.handler.end_headers()

    def write(self, body: bytes) -> None:
        self.handler.wfile.write(body)
        self.handler.wfile.flush()

    def hang_up(self) -> None:
        self.handler.close_connection = True
        self.handler.connection.shutdown(socket.SHUT_RDWR)


Answer = Callable[[Request], None]


@dataclass
class Server:
    """A server that is told its lines: by path, and 404 for the rest."""

    address: str = ""
    answers: dict[str, Answer] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    connections: int = 0

    @property
    def paths(self) -> list[str]:
        """What was asked for, without the first look at what the server speaks."""
        return [path for path, _ in self.requests if path != "/v2/"]

    def says(self, path: str, body: bytes, status: int = 200, **headers: str) -> None:
        self.answers[path] = lambda request: request.answer(status, body, **headers)


@contextmanager
def serve(tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """A server on a free port of loopback, with TLS if it is said how."""
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else each answer waits 40 ms for an acknowledgement

        def setup(self) -> None:
            super().setup()
            server.connections += 1

        def do_GET(self) -> None:
            server.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            if length := int(self.headers.get("Content-Length", 0)):
                body = self.rfile.read(length).decode()
                server.requests[-1][1]["body"] = body
            answer = server.answers.get(self.path) or server.answers.get(urlsplit(self.path).path)
            try:
                (answer or (lambda request: request.answer(404, b'{"errors": []}')))(Request(self))
            except (ConnectionError, TimeoutError):
                self.close_connection = True  # the client left, as it may

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    class Threads(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass  # a client that hangs up is part of these tests

    with Threads(("127.0.0.1", 0), Handler) as http:
        if tls:
            http.socket = tls.wrap_socket(http.socket, server_side=True)
        server.address = f"127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()


def make_tls(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """TLS for servers on loopback, and the file of the authority that clients must know."""
    authority = make_authority("tests")
    write_pair(folder, "server", make_certificate(authority, "server", hosts=["127.0.0.1", "localhost"]))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    (folder / "ca.crt").write_text(authority.certificate)
    return context, folder / "ca.crt"


@contextmanager
def cutting_proxy(address: str, cuts: list[int]) -> Iterator[str]:
    """A relay to a server that ends connection after connection when that many bytes have come back through it."""
    host, _, port = address.rpartition(":")
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def relay(client: socket.socket, limit: int | None) -> None:
        with client, socket.create_connection((host, int(port))) as server:
            sender = threading.Thread(target=copy, args=(client, server, None))
            sender.start()
            copy(server, client, limit)
            sender.join()

    def copy(source: socket.socket, target: socket.socket, limit: int | None) -> None:
        with suppress(OSError):
            while data := source.recv(65536 if limit is None else min(65536, limit)):
                target.sendall(data)
                if limit is not None and (limit := limit - len(data)) <= 0:
                    break
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        while True:
            try:
                client = listener.accept()[0]
            except OSError:
                return
            threads.append(threading.Thread(target=relay, args=(client, cuts.pop(0) if cuts else None)))
            threads[-1].start()

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        acceptor.join()
        for thread in threads:
            thread.join()


@dataclass
class TokenServer:
    """Gives tokens as docker's specification says, signed by a key that the registry knows."""

    server: Server
    authority: Pair
    key: Pair
    issuer: str = "lab-issuer"
    service: str = "lab-registry"
    login: tuple[str, str] | None = None  # anybody may pull if there is none
    lifetime: int = 300
    scopes: list[str] = field(default_factory=list)

    @property
    def realm(self) -> str:
        return f"http://{self.server.address}/token"

    @property
    def settings(self) -> dict[str, dict[str, object]]:
        """For docker-registry, with token.crt among its files."""
        token = {
            "realm": self.realm,
            "service": self.service,
            "issuer": self.issuer,
            "rootcertbundle": "/config/token.crt",
        }
        return {"auth": {"token": token}}

    def answer(self, request: Request) -> None:
        query = parse_qs(urlsplit(request.path).query)
        (scope,), (service,) = query["scope"], query["service"]
        self.scopes.append(scope)
        if self.login:
            expected = base64.b64encode(":".join(self.login).encode()).decode()
            if request.headers.get("Authorization") != f"Basic {expected}":
                request.answer(401, b'{"errors": [{"code": "UNAUTHORIZED", "message": "who are you?"}]}')
                return
        kind, name, actions = scope.split(":")
        access: list[dict[str, object]] = [{"type": kind, "name": name, "actions": actions.split(",")}]
        token = self.sign(service, access)
        request.answer(200, json.dumps({"token": token, "expires_in": self.lifetime}).encode())

    def sign(self, audience: str, access: list[dict[str, object]]) -> str:
        certificate = x509.load_pem_x509_certificate(self.key.certificate.encode())
        chain = [base64.b64encode(certificate.public_bytes(serialization.Encoding.DER)).decode()]
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "sub": "",
            "aud": audience,
            "exp": now + self.lifetime,
            "nbf": now - 60,
            "iat": now,
            "jti": str(time.monotonic_ns()),
            "access": access,
        }
        text = ".".join(
            _base64(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ES256", "x5c": chain}, claims)
        )
        private = serialization.load_pem_private_key(self.key.key.encode(), password=None)
        assert isinstance(private, ec.EllipticCurvePrivateKey)
        r, s = decode_dss_signature(private.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{text}.{_base64(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
