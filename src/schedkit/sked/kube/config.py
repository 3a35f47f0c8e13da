"""The way to the API server: from kubeconfig files, or from within a cluster."""

import base64
import ssl
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from schedkit.sked.kube.credentials import (
    ApiCredentials,
    ApiIdentity,
    CertificatePair,
    FixedCredentials,
    Plugin,
    TokenFile,
    basic_authorization,
    read_token,
)
from schedkit.sked.kube.errors import ConfigError
from schedkit.sked.kube.kubeconfig import Chosen, Cluster, KubeconfigUser, choose_context, read_kubeconfig, read_pem

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class Access:
    """All it takes to talk to one API server."""

    server: str
    credentials: ApiCredentials = field(repr=False)
    authority: bytes | None = field(default=None, repr=False)  # PEM; without it, what the system trusts
    namespace: str = "default"
    tls_server_name: str = ""
    verify: bool = True
    proxy: str = field(default="", repr=False)  # it may hold a password
    impersonation: tuple[tuple[str, str], ...] = ()


def read_access(
    environment: Mapping[str, str],
    *,
    kubeconfig: Path | None = None,
    context: str = "",
    service_account: Path = SERVICE_ACCOUNT,
) -> Access:
    """Find the way as kubectl and controller-runtime do: the given file, $KUBECONFIG, the cluster, ~/.kube/config.

    `context` is used in place of the current one; only a kubeconfig has any.
    """
    if kubeconfig is not None:
        paths, must_exist = [kubeconfig], True
    elif environment.get("KUBECONFIG"):
        paths, must_exist = [Path(part) for part in environment["KUBECONFIG"].split(":") if part], False
    elif environment.get("KUBERNETES_SERVICE_HOST") and not context:
        return read_service_account(environment, service_account)
    else:
        paths, must_exist = [Path(environment.get("HOME", "/")) / ".kube" / "config"], False
    if not must_exist and not any(path.exists() for path in paths):
        hint = "set KUBECONFIG, or run in a pod with a service account"
        raise ConfigError(f"there is no kubeconfig: {', '.join(map(str, paths))} not found", hint=hint)
    config = read_kubeconfig(paths, must_exist=must_exist)
    return make_access(choose_context(config, context), environment)


def read_service_account(environment: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> Access:
    """The way from within a pod."""
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    read_token(folder / "token")  # better now than at the first request
    try:
        authority = (folder / "ca.crt").read_bytes()
        namespace = (folder / "namespace").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        hint = "the pod needs automountServiceAccountToken"
        raise ConfigError(f"the service account in {folder} cannot be read", hint=hint) from error
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Access(
        server=server,
        credentials=TokenFile(folder / "token"),
        authority=authority,
        namespace=namespace or "default",
        proxy=choose_proxy(server, environment),
    )


def make_access(chosen: Chosen, environment: Mapping[str, str]) -> Access:
    """Read what a context points at: authority, certificates, token."""
    cluster = chosen.cluster
    parts = urlsplit(cluster.server)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"the kubeconfig's server {cluster.server!r} is not an http(s) address")
    return Access(
        server=cluster.server.rstrip("/"),
        credentials=_make_credentials(chosen.user, cluster, environment),
        authority=read_pem(cluster.certificate_authority, cluster.certificate_authority_data, "certificate authority"),
        namespace=chosen.context.namespace or "default",
        tls_server_name=cluster.tls_server_name or "",
        verify=not cluster.insecure_skip_tls_verify,
        proxy=_check_proxy(cluster.proxy_url) if cluster.proxy_url else choose_proxy(cluster.server, environment),
        impersonation=_impersonation(chosen.user),
    )


def make_ssl_context(access: Access) -> ssl.SSLContext:
    """Verify the server against its authority; not verifying takes a kubeconfig that says so."""
    try:
        context = ssl.create_default_context(cadata=access.authority.decode("ascii") if access.authority else None)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError("the certificate authority is not a PEM certificate") from error
    # On by default from Python 3.13 on. It refuses authorities without key identifiers, as EKS and some of GKE's
    # clusters have them; client-go does not check this.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not access.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def choose_proxy(server: str, environment: Mapping[str, str]) -> str:
    """The proxy that the environment asks for, if any; never for this host itself."""
    parts = urlsplit(server)
    host = parts.hostname or ""
    proxies = {scheme: _variable(environment, f"{scheme}_proxy") for scheme in ("http", "https", "no")}
    if host == "localhost" or host.startswith("127.") or host == "::1":
        return ""
    if urllib.request.proxy_bypass_environment(host, {"no": proxies["no"]}):  # type: ignore[attr-defined]
        return ""
    return _check_proxy(proxies[parts.scheme]) if proxies.get(parts.scheme) else ""


def _variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name) or environment.get(name.upper()) or ""


def _check_proxy(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        scheme = parts.scheme or "no scheme"
        raise ConfigError(f"the proxy's address has {scheme}", hint="proxies are http:// or https://")
    return url


def _make_credentials(user: KubeconfigUser, cluster: Cluster, environment: Mapping[str, str]) -> ApiCredentials:
    if user.auth_provider is not None:
        raise ConfigError("the kubeconfig's user has an auth-provider", hint="Kubernetes removed them; use exec")
    pair = _read_pair(user)
    if user.exec is not None:
        return Plugin(user.exec, environment, cluster=_describe(cluster))
    if user.token:
        return FixedCredentials(ApiIdentity(f"Bearer {user.token}", pair))
    if user.token_file:
        return TokenFile(Path(user.token_file), pair)
    if user.username:
        return FixedCredentials(ApiIdentity(basic_authorization(user.username, user.password or ""), pair))
    return FixedCredentials(ApiIdentity("", pair))


def _read_pair(user: KubeconfigUser) -> CertificatePair | None:
    certificate = read_pem(user.client_certificate, user.client_certificate_data, "client certificate")
    key = read_pem(user.client_key, user.client_key_data, "client key")
    if (certificate is None) != (key is None):
        raise ConfigError("the kubeconfig's user has a client certificate without its key, or a key alone")
    return CertificatePair(certificate, key) if certificate is not None and key is not None else None


def _describe(cluster: Cluster) -> dict[str, object]:
    """The cluster as a credential plugin is told of it."""
    authority = read_pem(cluster.certificate_authority, cluster.certificate_authority_data, "certificate authority")
    told: dict[str, object] = {"server": cluster.server, "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify}
    if authority is not None:
        told["certificate-authority-data"] = base64.b64encode(authority).decode()
    if cluster.tls_server_name:
        told["tls-server-name"] = cluster.tls_server_name
    if cluster.proxy_url:
        told["proxy-url"] = cluster.proxy_url
    return told


def _impersonation(user: KubeconfigUser) -> tuple[tuple[str, str], ...]:
    # Left out silently, it would give more rights than were asked for.
    if user.impersonate_extra or ((user.impersonate_uid or user.impersonate_groups) and not user.impersonate):
        raise ConfigError("the kubeconfig's user impersonates in a way that is not supported", hint="use as, as-groups")
    headers = [("Impersonate-User", user.impersonate or ""), ("Impersonate-Uid", user.impersonate_uid or "")]
    headers += [("Impersonate-Group", group) for group in user.impersonate_groups or []]
    return tuple((name, value) for name, value in headers if value)
