"""What the user says about registries, and which hosts may be spoken to without TLS."""

from collections.abc import Mapping, Sequence
from typing import Final


class RegistrySettings:
    """What the user says about registries; TLS is verified everywhere else."""

    def __init__(
        self,
        insecure: frozenset[str] = frozenset(),
        mirrors: Mapping[str, Sequence[str]] = {},
        ca_file: str | None = None,
    ) -> None:
        from schedkit.images.reference import normalize_registry

        # host[:port] for which plain HTTP or any certificate will do; loopback always may
        self.insecure: Final = frozenset(map(normalize_registry, insecure))
        # registry → where to look before it, in order
        self.mirrors: Final = {normalize_registry(name): places for name, places in mirrors.items()}
        self.ca_file: Final = ca_file  # beside the system's

    def list_repositories(self, registry: str, path: str) -> list[tuple[str, str]]:
        """Where to look for a repository, as registry and path: its mirrors in order, and at last itself."""
        from schedkit.images.reference import normalize_registry

        places = []
        for mirror in self.mirrors.get(registry, ()):
            host, _, prefix = mirror.strip("/").partition("/")
            places.append((normalize_registry(host), f"{prefix}/{path}" if prefix else path))
        return [*places, (registry, path)]

    def may_be_plain(self, authority: str) -> bool:
        """Whether plain HTTP to this host[:port] is allowed."""
        return authority in self.insecure or is_loopback(authority)


DEFAULTS = RegistrySettings()


def host_of(authority: str) -> str:
    """The host of host[:port], an IPv6 address without its brackets."""
    if authority.startswith("["):
        return authority[1:].partition("]")[0]
    return authority.partition(":")[0]


def is_loopback(authority: str) -> bool:
    """Whether this host[:port] is this very machine."""
    from ipaddress import ip_address

    host = host_of(authority)
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def find_addresses(authority: str) -> list[str]:
    """The addresses of the host of host[:port]; none if its name cannot be resolved."""
    import socket

    try:
        found = socket.getaddrinfo(host_of(authority), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [str(address[0]) for *_, address in found]
