"""Proxies, as the environment names them."""

from collections.abc import Mapping
from typing import NamedTuple

from schedkit.errors import UsageError
from schedkit.images.settings import host_of, is_loopback


class Proxy(NamedTuple):
    """One proxy."""

    scheme: str  # http, or https for TLS to the proxy itself
    host: str
    port: int
    login: str  # for Proxy-Authorization, from the user and password in its URL; empty without

    @property
    def headers(self) -> dict[str, str]:
        return {"Proxy-Authorization": self.login} if self.login else {}


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


def parse_proxy(url: str, authority: str) -> Proxy:
    """A proxy from its URL; UsageError if it cannot be used."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        usual = {"http": 80, "https": 443}[parts.scheme]
        if not parts.hostname:
            raise ValueError("it has no host")
        return Proxy(parts.scheme, parts.hostname, parts.port or usual, _make_login(parts.username, parts.password))
    except (ValueError, KeyError) as error:  # their words may have the password in them
        raise UsageError(
            f"the proxy for {authority} is not a URL that can be used",
            hint="look at HTTPS_PROXY, HTTP_PROXY and ALL_PROXY: http://USER:PASSWORD@HOST:PORT, "
            "with %XX for special characters",
        ) from error


def _make_login(username: str | None, password: str | None) -> str:
    from base64 import b64encode
    from urllib.parse import unquote_to_bytes

    if not username:
        return ""
    login = unquote_to_bytes(username) + b":" + unquote_to_bytes(password or "")
    return f"Basic {b64encode(login).decode()}"


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
