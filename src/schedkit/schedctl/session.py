"""One invocation: its settings, and the ways to the machine, the runtimes, the catalog and the registry."""

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from schedkit.errors import NotFoundError, UsageError, needs_root
from schedkit.host.machine import Machine
from schedkit.runtimes.known import RESPONSE_SECONDS
from schedkit.schedctl.output import Output, make_output
from schedkit.schedctl.progress import Terminal
from schedkit.schedctl.settings import AUTO, Flags, Settings, read_settings

if TYPE_CHECKING:
    from schedkit.host.model import Host, Observed
    from schedkit.images.catalog import Catalog
    from schedkit.images.image import Image
    from schedkit.images.reference import Reference
    from schedkit.images.registry import Registry
    from schedkit.images.settings import RegistrySettings
    from schedkit.runtimes.view import Runtimes


class ResolvedName(NamedTuple):
    """What a name on the command line means."""

    reference: "Reference"
    scheduler: str  # for people, and for matching the kernel's ops name


class Session:
    """Opens things when they are first asked for, and gives them back at the end."""

    def __init__(self, settings: Settings, progress: Terminal, output: Output) -> None:
        self.settings = settings
        self.progress = progress
        self.output = output
        self.machine = Machine()
        self.patience = RESPONSE_SECONDS  # for runtimes that are there and slow
        self._runtimes: Runtimes | None = None
        self._catalog: Catalog | None = None
        self._registry: Registry | None = None

    @property
    def runtimes(self) -> "Runtimes":
        """All container runtimes, asked once; the user's choice is only where new containers go."""
        if self._runtimes is None:
            from schedkit.runtimes.drivers import find_runtimes

            driver = None if self.settings.driver == AUTO else self.settings.driver
            self._runtimes = find_runtimes(
                driver, self.settings.sockets, notice=self.progress.step, seconds=self.patience
            )
            for one in self._runtimes.hidden:
                self.progress.detail(f"{one.driver} does not respond at {one.socket}: {one.why}")
        return self._runtimes

    @property
    def host(self) -> "Host":
        """What the verbs of the lifecycle work with."""
        from schedkit.host.model import Host

        return Host(self.machine, self.runtimes, self.progress)

    def observe(self) -> "Observed":
        """Look at the kernel and all runtimes, those that did not respond before included: for commands that last."""
        from schedkit.host.managed import observe

        if self._runtimes is not None:
            self._runtimes.close()
            self._runtimes = None
        return observe(self.machine, self.runtimes)

    def require_root(self, command: str) -> None:
        """What changes the kernel's scheduler needs root, and says so before this machine is asked anything."""
        if os.geteuid() != 0:
            raise needs_root(f"schedctl {command}")

    @property
    def catalog(self) -> "Catalog":
        """All sources, read once."""
        if self._catalog is None:
            from schedkit.images.catalog import load_catalog

            self._catalog = load_catalog(
                self.settings.catalogs, self.settings.cache, self.registry_settings, offline=self.settings.offline
            )
            for warning in self._catalog.warnings:
                self.progress.warn(warning)
        return self._catalog

    @property
    def registry_settings(self) -> "RegistrySettings":
        """What the user says about registries."""
        from schedkit.images.settings import RegistrySettings

        settings = self.settings
        return RegistrySettings(settings.insecure_registries, settings.mirrors, settings.ca_file)

    @property
    def registry(self) -> "Registry":
        """The client for all registries."""
        if self._registry is None:
            from schedkit.images.registry import Registry

            self._registry = Registry(self.registry_settings)
        return self._registry

    def check_known(self, name: str) -> None:
        """Refuse a name that is in no catalog, without asking the network: what is misspelt is said before the rest."""
        if _is_in_full(name):
            return
        if self._catalog is None:
            from schedkit.images.catalog import load_catalog

            local = load_catalog(self.settings.catalogs, self.settings.cache, self.registry_settings, offline=True)
            if local.warnings:
                return  # a catalog has to be fetched first, and may have the name
            self._catalog = local
        self._catalog.find(name)

    def find(self, name: str, version: str | None = None) -> ResolvedName:
        """A catalog name or an image reference, with another tag if the user wants one."""
        from schedkit.images.reference import is_digest, parse_reference

        check_name(name, version)
        reference = parse_reference(name) if _is_in_full(name) else self.catalog.find(name)
        entry = None if _is_in_full(name) else self.catalog.find_entry(name)
        scheduler = entry.name if entry else reference.path.rpartition("/")[2]
        if version:
            digest, tag = (version, None) if is_digest(version) else (None, version)
            reference = reference._replace(tag=tag, digest=digest)
        return ResolvedName(reference, scheduler)

    def fetch_image(self, named: ResolvedName) -> "Image":
        """Resolve to digests; where the tag does not exist, say how to see those that do."""
        if self.settings.offline:
            return self._recall_image(named.reference)
        self.progress.detail(f"asking {named.reference.registry} for {named.reference}")
        try:
            return self.registry.fetch_image(named.reference)
        except NotFoundError as error:
            if other := _add_v(named.reference):
                with suppress(NotFoundError):
                    return self.registry.fetch_image(other)
            if not error.hint:
                raise NotFoundError(
                    error.message, hint=f"`schedctl versions {named.reference.repository}` lists its versions"
                ) from error
            raise

    def _recall_image(self, reference: "Reference") -> "Image":
        from schedkit.schedctl.verification import read_trust_policy
        from schedkit.trust.errors import UnverifiedError
        from schedkit.trust.verdicts import read_image

        image = read_image(self.settings.cache, self.registry, reference, read_trust_policy(self.settings).hash)
        if image is None:
            raise UnverifiedError(
                f"{reference} was not verified here before with this policy, and --offline forbids asking its registry",
                hint=f"with network: schedctl verify {reference}",
            )
        return image

    def close(self) -> None:
        """Give connections back, and the terminal."""
        self.progress.close()
        if self._runtimes is not None:
            self._runtimes.close()
        if self._registry is not None:
            self._registry.close()


def _is_in_full(name: str) -> bool:
    """Whether it has a slash, as nothing in a catalog has: none has to be read, nor fetched, for it."""
    return "/" in name


def _add_v(reference: "Reference") -> "Reference | None":
    """`1.1.0` as `v1.1.0`, as the tags of the catalog's images are written; None for any other tag."""
    number = reference.tag is not None and reference.digest is None and reference.tag[0].isdigit()
    return reference._replace(tag=f"v{reference.tag}") if number and "." in (reference.tag or "") else None


def check_name(name: str, version: str | None) -> None:
    """What is wrong with a name and a version whatever catalogs say: a name with a slash is in none of them."""
    from schedkit.images.reference import is_digest, is_tag, parse_reference

    if not name.strip():
        raise UsageError("the scheduler's name is empty", hint="`schedctl list` shows all names")
    if version is not None and not is_tag(version) and not is_digest(version):
        raise UsageError(
            f"{version[:200]!r} is not a version", hint="--version takes a tag, or a digest as sha256:… in full"
        )
    if "/" in name:
        parse_reference(name)


def open_session(flags: Flags, *, json: bool = False) -> Session:
    """Make a session from the command line, the environment and the configuration files of this process."""
    _check_registries(flags.insecure_registries)
    settings = read_settings(flags, os.environ)
    return Session(settings, Terminal(sys.stderr, verbose=settings.verbose), make_output(json=json))


def _check_registries(names: tuple[str, ...]) -> None:
    """One that is written as a URL would be found for no image, and silently so."""
    if not names:
        return
    from schedkit.images.reference import is_registry

    for name in names:
        if not is_registry(name):
            raise UsageError(
                f"--insecure-registry: {name[:200]!r} is not a registry",
                hint="HOST[:PORT], without http:// and without a path",
            )
