"""kubeconfig files: several merged into one, and the one context of them that is used."""

import base64
import binascii
from collections.abc import Iterable
from pathlib import Path

import msgspec

from schedkit.sked.kube.errors import ConfigError


class _File(msgspec.Struct, frozen=True, rename="kebab"):
    """Parts of a kubeconfig; members that we do not know are other programs' business."""


class Cluster(_File, frozen=True):
    """Where an API server is and how to know it."""

    server: str = ""
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    tls_server_name: str | None = None
    insecure_skip_tls_verify: bool = False
    proxy_url: str | None = None


class ExecVariable(msgspec.Struct, frozen=True):
    """One variable for a plugin's environment."""

    name: str
    value: str


class Exec(msgspec.Struct, frozen=True, rename="camel"):
    """A program that prints credentials."""

    command: str
    api_version: str
    args: list[str] | None = None
    env: list[ExecVariable] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"


class KubeconfigUser(_File, frozen=True):
    """Who to be."""

    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(name="tokenFile", default=None)
    username: str | None = None
    password: str | None = None
    exec: Exec | None = None
    auth_provider: dict[str, object] | None = None
    impersonate: str | None = msgspec.field(name="as", default=None)
    impersonate_uid: str | None = msgspec.field(name="as-uid", default=None)
    impersonate_groups: list[str] | None = msgspec.field(name="as-groups", default=None)
    impersonate_extra: dict[str, list[str]] | None = msgspec.field(name="as-user-extra", default=None)


class Context(_File, frozen=True):
    """A user in a cluster."""

    cluster: str = ""
    user: str = ""
    namespace: str | None = None


class NamedCluster(_File, frozen=True):
    """A cluster under its name."""

    name: str
    cluster: Cluster


class NamedUser(_File, frozen=True):
    """A user under its name."""

    name: str
    user: KubeconfigUser | None = None


class NamedContext(_File, frozen=True):
    """A context under its name."""

    name: str
    context: Context


class KubeConfig(_File, frozen=True):
    """One file, or several merged."""

    clusters: list[NamedCluster] | None = None
    users: list[NamedUser] | None = None
    contexts: list[NamedContext] | None = None
    current_context: str = ""


class Chosen(msgspec.Struct, frozen=True):
    """The parts that one context names."""

    context: Context
    cluster: Cluster
    user: KubeconfigUser


def read_kubeconfig(paths: Iterable[Path], *, must_exist: bool) -> KubeConfig:
    """Merge files as kubectl does: the first that names a thing wins; absent ones are passed over unless required."""
    merged = KubeConfig()
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            if must_exist:
                raise ConfigError(f"kubeconfig {path} does not exist") from error
            continue
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise ConfigError(f"kubeconfig {path} cannot be read: {why}") from error
        merged = _merge(merged, _with_absolute_paths(parse_kubeconfig(text, str(path)), path.absolute().parent))
    return merged


def parse_kubeconfig(text: str, origin: str) -> KubeConfig:
    """Understand one file's text. Errors name lines and fields, never values: these may be secrets."""
    import yaml  # in a cluster there is no kubeconfig, and the import costs more than all the rest

    try:
        document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  # both are safe
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        raise ConfigError(f"kubeconfig {origin} is not YAML{where}", hint="was it cut off or edited?") from None
    except ValueError:  # an impossible date, say
        raise ConfigError(f"kubeconfig {origin} is not YAML that can be understood") from None
    if document is None:
        return KubeConfig()
    try:
        return msgspec.convert(document, KubeConfig)
    except msgspec.ValidationError as error:
        raise ConfigError(f"kubeconfig {origin} is not understood: {error}") from None


def choose_context(config: KubeConfig, context: str = "") -> Chosen:
    """The context of that name, or the current one, with what it names."""
    name = context or config.current_context
    if not name:
        hint = "choose one with `kubectl config use-context`"
        raise ConfigError("the kubeconfig names no current context", hint=hint)
    contexts = {entry.name: entry.context for entry in config.contexts or []}
    clusters = {entry.name: entry.cluster for entry in config.clusters or []}
    users = {entry.name: entry.user or KubeconfigUser() for entry in config.users or []}
    if name not in contexts:
        known = ", ".join(sorted(contexts)) or "none"
        raise ConfigError(f"the kubeconfig has no context {name!r}", hint=f"there are: {known}")
    found = contexts[name]
    if found.cluster not in clusters:
        raise ConfigError(f"context {name!r} names the cluster {found.cluster!r}, which the kubeconfig does not have")
    if found.user and found.user not in users:
        raise ConfigError(f"context {name!r} names the user {found.user!r}, which the kubeconfig does not have")
    return Chosen(found, clusters[found.cluster], users.get(found.user, KubeconfigUser()))


def read_pem(path: str | None, data: str | None, what: str) -> bytes | None:
    """What a kubeconfig gives as a file or as base64; the data wins, as with kubectl."""
    if data:
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error as error:
            raise ConfigError(f"the {what} in the kubeconfig is not base64") from error
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"the {what} {path} cannot be read: {error.strerror}") from error


def _merge(first: KubeConfig, second: KubeConfig) -> KubeConfig:
    cluster_names = {entry.name for entry in first.clusters or []}
    user_names = {entry.name for entry in first.users or []}
    context_names = {entry.name for entry in first.contexts or []}
    return KubeConfig(
        clusters=(first.clusters or []) + [e for e in second.clusters or [] if e.name not in cluster_names],
        users=(first.users or []) + [e for e in second.users or [] if e.name not in user_names],
        contexts=(first.contexts or []) + [e for e in second.contexts or [] if e.name not in context_names],
        current_context=first.current_context or second.current_context,
    )


def _with_absolute_paths(config: KubeConfig, folder: Path) -> KubeConfig:
    """Paths in a kubeconfig are meant from where the file is."""
    replace = msgspec.structs.replace

    def absolute(path: str | None) -> str | None:
        return str(folder / path) if path else None

    clusters = [
        replace(
            entry, cluster=replace(entry.cluster, certificate_authority=absolute(entry.cluster.certificate_authority))
        )
        for entry in config.clusters or []
    ]
    users = []
    for entry in config.users or []:
        user = entry.user or KubeconfigUser()
        plugin = user.exec
        if plugin and "/" in plugin.command:
            plugin = replace(plugin, command=str(folder / plugin.command))
        user = replace(
            user,
            client_certificate=absolute(user.client_certificate),
            client_key=absolute(user.client_key),
            token_file=absolute(user.token_file),
            exec=plugin,
        )
        users.append(replace(entry, user=user))
    return replace(config, clusters=clusters, users=users)
