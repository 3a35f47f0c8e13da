"""One invocation: its settings, and the ways to the machine, the runtimes, the catalog and the registry."""

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from schedkit.errors import NotFoundError, UnavailableError
from schedkit.host.model import Machine
from schedkit.runtimes.drivers import DRIVERS, PATIENT_SECONDS, Silent, find_runtimes, open_runtime
from schedkit.schedctl.output import Output, make_output
from schedkit.schedctl.settings import AUTO, Flags, Settings, read_settings
from schedkit.schedctl.talk import Terminal

if TYPE_CHECKING:
    from schedkit.images.catalog import Catalog
    from schedkit.images.image import Image
    from schedkit.images.reference import Reference
    from schedkit.images.registry import Registry
    from schedkit.images.settings import RegistrySettings
    from schedkit.runtimes.model import Runtime


class Named(NamedTuple):
    """What a name on the command line means."""

    reference: "Reference"
    scheduler: str  # for people, and for matching the kernel's ops name


class Session:
    """Opens things when they are first asked for, and gives them back at the end."""

    def __init__(self, settings: Settings, talk: Terminal, output: Output) -> None:
        self.settings = settings
        self.talk = talk
        self.output = output
        self.machine = Machine()
        self._runtimes: list[Runtime] = []
        self._catalog: Catalog | None = None
        self._registry: Registry | None = None

    def find_runtimes(self, *, patiently: bool = False) -> tuple[list["Runtime"], list[Silent]]:
        """All that answer, or the one that the user chose, and those that do not.

        One that listens and is slow to answer, as systemd may have to start it first, is waited for only `patiently`.
        """
        if self.settings.socket:
            chosen = open_runtime(self.settings.driver, self.settings.socket)
            self._runtimes.append(chosen)
            return [chosen], []
        drivers = DRIVERS if self.settings.driver == AUTO else [self.settings.driver]
        patiently = patiently or self.settings.driver != AUTO
        runtimes, silent = find_runtimes(drivers, PATIENT_SECONDS if patiently else self.settings.patience)
        self._runtimes.extend(runtimes)
        for one in silent:
            if not one.absent:
                self.talk.detail(f"{one.driver} does not answer at {one.socket}: {one.why}")
        return runtimes, silent

    def require_runtimes(self) -> list["Runtime"]:
        """At least one: what acts on containers needs somebody to ask."""
        runtimes, silent = self.find_runtimes()
        if not runtimes and any(not one.absent for one in silent):
            runtimes, silent = self.find_runtimes(patiently=True)
        if not runtimes:
            raise _nobody_answers(silent)
        return runtimes

    def open_runtime(self) -> tuple["Runtime", list["Runtime"]]:
        """The one that new containers are made in, and all those in which there may be some already."""
        if self.settings.driver == AUTO:
            runtimes = self.require_runtimes()
            self.talk.detail(f"driver: {runtimes[0].driver} ({runtimes[0].socket})")
            return runtimes[0], runtimes
        chosen = open_runtime(self.settings.driver, self.settings.socket)
        self._runtimes.append(chosen)
        others = [] if self.settings.socket else [one for one in find_runtimes()[0] if one.driver != chosen.driver]
        self._runtimes.extend(others)
        return chosen, [chosen, *others]

    @property
    def catalog(self) -> "Catalog":
        """All sources, read once."""
        if self._catalog is None:
            from schedkit.images.catalog import load_catalog

            self._catalog = load_catalog(
                self.settings.catalogs, self.settings.cache, self.registry_settings, offline=self.settings.offline
            )
            for warning in self._catalog.warnings:
                self.talk.warn(warning)
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

    def find(self, name: str, version: str | None = None) -> Named:
        """A catalog name or an image reference, with another tag if the user wants one."""
        from dataclasses import replace

        reference = self.catalog.find(name)
        word = name.partition("@")[0].partition(":")[0]  # a catalog name may carry a tag or a digest
        scheduler = word if word in self.catalog.entries else reference.path.rpartition("/")[2]
        if version:
            digest, tag = (version, None) if version.startswith(("sha256:", "sha512:")) else (None, version)
            reference = replace(reference, tag=tag, digest=digest)
        return Named(reference, scheduler)

    def fetch_image(self, named: Named) -> "Image":
        """Resolve to digests; where the tag does not exist, say how to see those that do."""
        if self.settings.offline:
            return self._recall_image(named.reference)
        try:
            return self.registry.fetch_image(named.reference)
        except NotFoundError as error:
            if not error.hint:
                raise NotFoundError(
                    error.message, hint=f"'schedctl versions {named.reference.repository}' lists what there is"
                ) from error
            raise

    def _recall_image(self, reference: "Reference") -> "Image":
        from schedkit.trust.errors import UnverifiedError
        from schedkit.trust.verdicts import read_image

        image = read_image(self.settings.cache, self.registry, reference)
        if image is None:
            raise UnverifiedError(
                f"{reference} was not verified here before, and --offline forbids asking its registry",
                hint=f"with network: schedctl verify {reference}",
            )
        return image

    def close(self) -> None:
        """Give connections back, and the terminal."""
        self.talk.close()
        for runtime in self._runtimes:
            runtime.close()
        if self._registry is not None:
            self._registry.close()


def open_session(flags: Flags, *, json: bool = False) -> Session:
    """From the command line, the environment and the configuration files of this process."""
    settings = read_settings(flags, os.environ)
    return Session(settings, Terminal(sys.stderr, verbose=settings.verbose), make_output(json=json))


def _nobody_answers(silent: list[Silent]) -> UnavailableError:
    why = "; ".join(f"{one.driver}: {one.why}" for one in silent)
    return UnavailableError(
        f"no container runtime answers ({why})",
        hint="start one, for example: systemctl start podman.socket; 'schedctl doctor' looks further",
    )
