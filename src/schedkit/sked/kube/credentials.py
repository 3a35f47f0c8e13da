"""Who we are to the API server: tokens that are read again, client certificates, credential plugins."""

import asyncio
import base64
import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

import msgspec

from schedkit.sked.kube.errors import ConfigError
from schedkit.sked.kube.kubeconfig import Exec
from schedkit.sked.kube.logs import redact
from schedkit.sked.kube.objects import utc_now

TOKEN_SECONDS = 60.0  # the kubelet writes a new token long before the old one ends
PLUGIN_SECONDS = 60.0
EARLY_SECONDS = 30.0  # a credential that ends during a request is no use
PLUGIN_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


@dataclass(frozen=True, repr=False)
class CertificatePair:
    """A client certificate and its key, in PEM. It does not show itself."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, repr=False)
class ApiIdentity:
    """What to show with a request. It does not show itself."""

    authorization: str = ""
    certificate: CertificatePair | None = None


class ApiCredentials(Protocol):
    """Something that says who we are, again whenever it is asked."""

    async def fetch(self) -> ApiIdentity:
        """Who we are now."""

    def forget(self, refused: ApiIdentity) -> None:
        """This one was refused: ask again, unless that has been done meanwhile."""


class FixedCredentials:
    """The same identity for as long as the program runs."""

    def __init__(self, identity: ApiIdentity) -> None:
        self._identity = identity

    async def fetch(self) -> ApiIdentity:
        """What was given."""
        return self._identity

    def forget(self, refused: ApiIdentity) -> None:
        """There is nothing else to be had."""


class TokenFile:
    """A token in a file that somebody renews."""

    def __init__(
        self,
        path: Path,
        certificate: CertificatePair | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._certificate = certificate
        self._clock = clock
        self._identity: ApiIdentity | None = None
        self._read_at = 0.0

    async def fetch(self) -> ApiIdentity:
        """The token as it was a moment ago; an unreadable file is forgiven while there is an older token."""
        now = self._clock()
        if self._identity is None or now - self._read_at >= TOKEN_SECONDS:
            try:
                self._identity = ApiIdentity(f"Bearer {read_token(self._path)}", self._certificate)
            except ConfigError:
                if self._identity is None:
                    raise
            self._read_at = now
        return self._identity

    def forget(self, refused: ApiIdentity) -> None:
        """Read the file at the next request, and insist on it."""
        if self._identity is refused:
            self._identity = None


def read_token(path: Path) -> str:
    """The token in a file."""
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"the token file {path} cannot be read: {why}") from error
    if not token:
        raise ConfigError(f"the token file {path} is empty")
    return token


def basic_authorization(username: str, password: str) -> str:
    """The header for a user name and a password."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class _CredentialStatus(msgspec.Struct, rename="camel"):
    expiration_timestamp: datetime | None = None
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""


class _Credential(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _CredentialStatus | None = None


class Plugin:
    """A program that prints an ExecCredential; it is run again when that has expired or was refused."""

    def __init__(
        self,
        settings: Exec,
        environment: Mapping[str, str],
        *,
        cluster: Mapping[str, object] | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        if settings.api_version not in PLUGIN_VERSIONS:
            raise ConfigError(
                f"the credential plugin {settings.command} speaks {settings.api_version!r}",
                hint=f"sked speaks {' and '.join(PLUGIN_VERSIONS)}",
            )
        if settings.interactive_mode == "Always":
            raise ConfigError(f"the credential plugin {settings.command} wants a terminal, and there is none")
        self._settings = settings
        self._environment = environment
        self._cluster = cluster if settings.provide_cluster_info else None
        self._now = now
        self._lock = asyncio.Lock()
        self._identity: ApiIdentity | None = None
        self._expires: datetime | None = None

    async def fetch(self) -> ApiIdentity:
        """What the plugin printed, from memory for as long as it is good; many askers make one run."""
        async with self._lock:
            if self._identity is None or self._expired():
                credential = parse_credential(await self._run(), self._settings)
                self._identity, self._expires = credential
            return self._identity

    def forget(self, refused: ApiIdentity) -> None:
        """Run the plugin at the next request; of many that are refused at once, the first makes it run."""
        if self._identity is refused:
            self._identity = None

    def _expired(self) -> bool:
        return self._expires is not None and (self._expires - self._now()).total_seconds() < EARLY_SECONDS

    async def _run(self) -> bytes:
        name = self._settings.command
        try:
            process = await asyncio.create_subprocess_exec(
                name,
                *(self._settings.args or []),
                env=self._plugin_environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            hint = self._settings.install_hint or f"install {name} or correct the kubeconfig"
            raise ConfigError(f"the credential plugin {name} does not start: {error.strerror}", hint=hint) from error
        try:
            async with asyncio.timeout(PLUGIN_SECONDS):
                output, complaint = await process.communicate()
        except TimeoutError as error:
            raise ConfigError(f"the credential plugin {name} gave no answer in {PLUGIN_SECONDS:.0f} s") from error
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode:
            lines = complaint.decode(errors="replace").strip().splitlines()
            said = f": {redact(lines[-1])[:200]}" if lines else ""
            raise ConfigError(f"the credential plugin {name} failed with status {process.returncode}{said}")
        return output

    def _plugin_environment(self) -> dict[str, str]:
        spec: dict[str, object] = {"interactive": False}
        if self._cluster is not None:
            spec["cluster"] = self._cluster
        asked = {"apiVersion": self._settings.api_version, "kind": "ExecCredential", "spec": spec}
        added = {variable.name: variable.value for variable in self._settings.env or []}
        return {**self._environment, **added, "KUBERNETES_EXEC_INFO": msgspec.json.encode(asked).decode()}


def parse_credential(output: bytes, settings: Exec) -> tuple[ApiIdentity, datetime | None]:
    """Understand what a plugin printed; nothing of it is repeated in an error."""
    name = settings.command
    try:
        credential = msgspec.json.decode(output, type=_Credential)
    except msgspec.DecodeError as error:
        raise ConfigError(f"the credential plugin {name} printed no ExecCredential") from error
    if credential.kind != "ExecCredential" or credential.api_version != settings.api_version:
        raise ConfigError(f"the credential plugin {name} printed another kind or version than {settings.api_version}")
    status = credential.status or _CredentialStatus()
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise ConfigError(f"the credential plugin {name} gave a certificate without its key, or a key alone")
    if not status.token and not status.client_certificate_data:
        raise ConfigError(f"the credential plugin {name} gave neither token nor certificate")
    pair = None
    if status.client_certificate_data:
        pair = CertificatePair(status.client_certificate_data.encode(), status.client_key_data.encode())
    expires = status.expiration_timestamp
    if expires is not None and expires.tzinfo is None:
        raise ConfigError(f"the credential plugin {name} gave an expiry without a time zone")
    return ApiIdentity(f"Bearer {status.token}" if status.token else "", pair), expires
