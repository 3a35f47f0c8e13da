"""Connections to registries: the way to each host, with its certificates and its proxy, and those that are open."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from weakref import finalize

from schedkit.errors import BadDataError, NotFoundError
from schedkit.images.dialing import RegistryConnection, Route, open_connection
from schedkit.images.proxies import find_proxy, parse_proxy
from schedkit.images.settings import RegistrySettings

if TYPE_CHECKING:
    from ssl import SSLContext

CONNECT_SECONDS = 10.0
READ_SECONDS = 30.0
CERTIFICATE_FOLDERS = (Path("/etc/containers/certs.d"), Path("/etc/docker/certs.d"))
MOST_IDLE = 8  # connections kept per host: layers are fetched side by side


class Connections:
    """What is open to hosts, each connection for one request at a time; threads may share it."""

    def __init__(self, settings: RegistrySettings, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._environ = environ
        self._routes: dict[tuple[str, str], Route] = {}
        self._contexts: dict[tuple[Path, ...], SSLContext] = {}  # by what they trust beside the system's authorities
        self._idle: dict[Route, list[RegistryConnection]] = {}
        self._lock = Lock()
        finalize(self, _close_all, self._idle)  # a client that nobody closes takes them along

    def take(self, scheme: str, authority: str, seconds: float) -> RegistryConnection:
        """A connection to a host[:port]: one that was given back, or a new one within so many seconds."""
        route = self.find_route(scheme, authority)
        while True:
            with self._lock:
                idle = self._idle.get(route)
                connection = idle.pop() if idle else None
            if connection is None:
                return open_connection(route, seconds)
            if connection.is_quiet():
                return connection
            connection.close()

    def give_back(self, connection: RegistryConnection) -> None:
        """Keep a connection for the next request; its last answer has been read to its end."""
        with self._lock:
            idle = self._idle.setdefault(connection.route, [])
            if len(idle) < MOST_IDLE:
                idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close what is open."""
        with self._lock:
            _close_all(self._idle)

    def find_route(self, scheme: str, authority: str) -> Route:
        """The way to a host[:port]; errors where certificates or the proxy cannot be used."""
        with self._lock:
            if (scheme, authority) not in self._routes:
                self._routes[scheme, authority] = self._make_route(scheme, authority)
            return self._routes[scheme, authority]

    def _make_route(self, scheme: str, authority: str) -> Route:
        from urllib.parse import urlsplit

        shown = _to_ascii(authority)
        there = urlsplit(f"{scheme}://{shown}")
        port = there.port or (443 if scheme == "https" else 80)
        url = find_proxy(scheme, authority, self._environ)
        proxy = parse_proxy(url, authority) if url else None
        tls = self._make_context(authority) if scheme == "https" else None
        proxy_tls = self._trust(()) if proxy and proxy.scheme == "https" else None
        return Route(scheme, shown, there.hostname or "", port, tls, proxy, proxy_tls)

    def _make_context(self, authority: str) -> "SSLContext":
        if authority not in self._settings.insecure:
            return self._trust(find_authorities(authority, CERTIFICATE_FOLDERS))
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # the user asked for it, by name, and has been told what that means
        return context

    def _trust(self, files: Sequence[Path]) -> "SSLContext":
        """Whoever the system trusts, the user, and these files: hosts share it, as the system's take long to load."""
        import ssl

        named = [Path(self._settings.ca_file)] if self._settings.ca_file else []
        key = (*named, *files)
        if key not in self._contexts:
            context = ssl.create_default_context()  # SSL_CERT_FILE and SSL_CERT_DIR are honoured by OpenSSL itself
            for file in key:
                _load(context, file)
            self._contexts[key] = context
        return self._contexts[key]


def _close_all(idle: dict[Route, list[RegistryConnection]]) -> None:
    for connections in idle.values():
        for connection in connections:
            connection.close()
    idle.clear()


def find_authorities(authority: str, folders: Sequence[Path]) -> list[Path]:
    """The certificate authorities that podman and docker keep for a registry."""
    return [file for folder in folders for file in sorted((folder / authority).glob("*.crt"))]


def _to_ascii(authority: str) -> str:
    """As it is sent in Host: with international names encoded."""
    try:
        return authority if authority.isascii() else authority.encode("idna").decode()
    except UnicodeError:
        return authority  # nor can it be resolved, which is told then


def _load(context: "SSLContext", file: Path) -> None:
    import ssl

    try:
        context.load_verify_locations(cafile=str(file))
    except FileNotFoundError as error:
        raise NotFoundError(f"the file of certificate authorities {file} does not exist") from error
    except ssl.SSLError as error:
        raise BadDataError(
            f"{file} holds no certificate authority", hint="it must be one or more certificates in PEM"
        ) from error
