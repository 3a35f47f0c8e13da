"""Connections to registries: certificates, proxies and pools, each made when it is first needed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from schedkit.errors import BadDataError, NotFoundError, UsageError
from schedkit.images.settings import RegistrySettings, host_of, is_loopback

if TYPE_CHECKING:
    import ssl

    from urllib3 import PoolManager

CONNECT_SECONDS = 10.0
READ_SECONDS = 30.0
CERTIFICATE_FOLDERS = (Path("/etc/containers/certs.d"), Path("/etc/docker/certs.d"))
POOL_SIZE = 8  # connections kept per host: layers are fetched side by side


class Connections:
    """A pool for each host, with the certificates and the proxy that are right for it."""

    def __init__(
        self,
        settings: RegistrySettings,
        environ: Mapping[str, str],
        connect_seconds: float = CONNECT_SECONDS,
        read_seconds: float = READ_SECONDS,
    ) -> None:
        self._settings = settings
        self._environ = environ
        self._connect_seconds = connect_seconds
        self._read_seconds = read_seconds
        self._pools: dict[tuple[str, str], PoolManager] = {}
        self._lock = Lock()

    def pool(self, scheme: str, authority: str) -> "PoolManager":
        """The pool for a host[:port]."""
        with self._lock:
            if (scheme, authority) not in self._pools:
                self._pools[scheme, authority] = self._make_pool(scheme, authority)
            return self._pools[scheme, authority]

    def close(self) -> None:
        """Close what is open."""
        with self._lock:
            for pool in self._pools.values():
                pool.clear()
            self._pools.clear()

    def _make_pool(self, scheme: str, authority: str) -> "PoolManager":
        import urllib3

        from schedkit.images.timed import POOLS

        timeout = urllib3.Timeout(connect=self._connect_seconds, read=self._read_seconds)
        proxy = find_proxy(scheme, authority, self._environ)
        unverified = authority in self._settings.insecure
        context = self._make_context(authority, unverified=unverified) if scheme == "https" or proxy else None
        if unverified:
            # The user asked for it, by name, and has been told what that means.
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        requirement = "CERT_NONE" if unverified else "CERT_REQUIRED"
        options: dict[str, Any] = {
            "maxsize": POOL_SIZE,
            "timeout": timeout,
            "ssl_context": context,
            "cert_reqs": requirement,
        }
        manager = _make_proxied(proxy, authority, options) if proxy else urllib3.PoolManager(**options)
        manager.pool_classes_by_scheme = POOLS
        return manager

    def _make_context(self, authority: str, *, unverified: bool) -> "ssl.SSLContext":
        import ssl

        context = ssl.create_default_context()  # SSL_CERT_FILE and SSL_CERT_DIR are OpenSSL's own and honoured by it
        if unverified:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            return context
        if self._settings.ca_file:
            _trust(context, Path(self._settings.ca_file))
        for file in find_authorities(authority, CERTIFICATE_FOLDERS):
            _trust(context, file)
        return context


def find_authorities(authority: str, folders: Sequence[Path]) -> list[Path]:
    """The certificate authorities that podman and docker keep for a registry."""
    return [file for folder in folders for file in sorted((folder / authority).glob("*.crt"))]


def _trust(context: "ssl.SSLContext", file: Path) -> None:
    import ssl

    try:
        context.load_verify_locations(cafile=str(file))
    except FileNotFoundError as error:
        raise NotFoundError(f"the file of certificate authorities {file} does not exist") from error
    except ssl.SSLError as error:
        raise BadDataError(
            f"{file} holds no certificate authority", hint="it must be one or more certificates in PEM"
        ) from error


def find_proxy(scheme: str, authority: str, environ: Mapping[str, str]) -> str | None:
    """The proxy for a host as curl and Go understand the environment: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY."""
    names = (f"{scheme}_proxy", f"{scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY")
    proxy = next((environ[name] for name in names if environ.get(name)), None)
    if not proxy or is_loopback(authority):
        return None
    exceptions = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if any(_covers(word.strip().lower(), authority.lower()) for word in exceptions.split(",") if word.strip()):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _make_proxied(proxy: str, authority: str, options: Mapping[str, Any]) -> "PoolManager":
    """A pool whose requests go through a proxy; UsageError if its URL cannot be used."""
    import urllib3

    try:
        if not urllib3.util.parse_url(proxy).host:
            raise ValueError("it has no host")
        return urllib3.ProxyManager(proxy, proxy_headers=_make_proxy_headers(proxy), **options)
    except (ValueError, urllib3.exceptions.HTTPError) as error:  # their words may have the password in them
        raise UsageError(
            f"the proxy for {authority} is not a URL that can be used",
            hint="look at HTTPS_PROXY, HTTP_PROXY and ALL_PROXY: http://USER:PASSWORD@HOST:PORT, "
            "with %XX for special characters",
        ) from error


def _make_proxy_headers(proxy: str) -> dict[str, str]:
    """The user and password in a proxy's URL, which urllib3 does not send by itself, and not in UTF-8."""
    from base64 import b64encode
    from urllib.parse import unquote_to_bytes, urlsplit

    parts = urlsplit(proxy)
    if not parts.username:
        return {}
    login = unquote_to_bytes(parts.username) + b":" + unquote_to_bytes(parts.password or "")
    return {"proxy-authorization": f"Basic {b64encode(login).decode()}"}


def _covers(word: str, authority: str) -> bool:
    """Whether one word of NO_PROXY means this host: `*`, a network, a host[:port], or a domain and all below it."""
    from ipaddress import ip_address, ip_network

    if word in ("*", authority):
        return True
    host = host_of(authority)
    try:
        return ip_address(host) in ip_network(word, strict=False)
    except ValueError:
        domain = word.removeprefix("*").lstrip(".")
        return host == domain or host.endswith(f".{domain}")
