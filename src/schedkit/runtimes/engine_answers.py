"""What podman and docker say, in our words."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from schedkit.errors import NoPermissionError, NoSpaceError, NotFoundError, SchedkitError, UnavailableError
from schedkit.runtimes.container import Container, ContainerState
from schedkit.runtimes.labels import MIN_KERNEL, PREFIX, Label, drop_own
from schedkit.runtimes.local_image import LocalImage
from schedkit.unknown import Unknown

Value = TypeVar("Value")

_STATES = {
    "created": ContainerState.CREATED,
    "configured": ContainerState.CREATED,
    "initialized": ContainerState.CREATED,
    "running": ContainerState.RUNNING,
    "restarting": ContainerState.RUNNING,
    "stopping": ContainerState.RUNNING,
    "paused": ContainerState.PAUSED,
    "stopped": ContainerState.EXITED,
    "exited": ContainerState.EXITED,
    "removing": ContainerState.EXITED,
    "dead": ContainerState.EXITED,
}

# Engines pass on what a registry or the network said, in words only.
_DENIED = ("unauthorized", "authentication required", "denied", "no basic auth", "invalid username")
_MISSING = ("manifest unknown", "name unknown", "not found", "no such image")
_TLS = ("x509", "certificate", "tls: ", "http response to https client")
_UNREACHABLE = (
    "connection refused",
    "connection reset",
    "deadline exceeded",
    "no such host",
    "server misbehaving",
    "timeout",
    "unexpected eof",
    "unreachable",
)
_LEAVING = ("shutting down", "transport is closing", "error while dialing")  # the engine, or the containerd below it
_INSECURE_HINTS = {
    "podman": "put its authority into /etc/containers/certs.d/{registry}/ca.crt, or allow it with --insecure-registry",
    "docker": "docker decides this for itself: put the registry's authority into /etc/docker/certs.d/{registry}/ca.crt,"
    ' or the registry into "insecure-registries" of /etc/docker/daemon.json',
}


def parse_container(driver: str, told: Mapping[str, Any]) -> Container:
    """A container out of the engine's inspection of it.

    KeyError, TypeError, ValueError or AttributeError if that is no such thing.
    """
    state, config = told["State"], told["Config"]
    where = _STATES.get(state["Status"]) or Unknown(f"{driver} calls it {state['Status']!r}")
    ended = where == ContainerState.EXITED
    alive = where in {ContainerState.RUNNING, ContainerState.PAUSED}
    labels = parse_labels(told)
    return Container(
        driver=driver,
        id=_take(told["Id"], str),
        name=_take(told["Name"], str).removeprefix("/"),
        image=labels.get(Label.IMAGE) or _take(config["Image"], str),
        state=where,
        labels=labels,
        pid=_take(state["Pid"], int) or None if alive else None,
        exit_code=_take(state["ExitCode"], int) if ended else None,
        started=_parse_time(state["StartedAt"]),
        finished=_parse_time(state["FinishedAt"]) if ended else None,
    )


def parse_labels(told: Mapping[str, Any]) -> dict[str, str]:
    """A container's labels, those of schedkit only if we wrote them: engines mix in whatever the image has."""
    labels = {name: _take(value, str) for name, value in (told["Config"].get("Labels") or {}).items()}
    said = {name: value for name, value in labels.items() if value or not name.startswith(PREFIX)}
    return said if is_marked(told) else drop_own(said)


def is_marked(told: Mapping[str, Any]) -> bool:
    """Whether its labels name the digest of the very image that it was made of, which no image can know of itself."""
    manifest = (told["Config"].get("Labels") or {}).get(Label.MANIFEST)
    return bool(manifest) and str(told["Config"]["Image"]).endswith(f"@{manifest}")


def parse_digests(images: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Every digest under which the listed images are known."""
    digests = {name.partition("@")[2] for image in images for name in image.get("RepoDigests") or ()}
    digests |= {image.get("Digest") or "" for image in images}  # podman's: the manifest's, even without a name
    return frozenset(digests - {""})


def parse_image_id(told: Mapping[str, Any]) -> str:
    """An image's id as a digest; KeyError, TypeError or AttributeError if this is no inspection of an image."""
    id: str = told["Id"]
    return id if id.startswith("sha256:") else f"sha256:{id}"  # older podmans leave the algorithm out


def parse_repositories(images: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Every repository out of which the listed images are, without tag or digest."""
    names = [name for image in images for name in (*(image.get("RepoTags") or ()), *(image.get("RepoDigests") or ()))]
    # A colon after the last slash begins a tag; one before it, a port.
    bare = (name.partition("@")[0] for name in names)
    return frozenset(name if ":" not in name.rpartition("/")[2] else name.rpartition(":")[0] for name in bare)


def parse_images(driver: str, images: Iterable[Mapping[str, Any]]) -> list[LocalImage]:
    """All that are listed; KeyError, TypeError or AttributeError if this is no list of images."""
    found = []
    for image in images:
        names = (*(image.get("RepoTags") or ()), *(image.get("RepoDigests") or ()))
        kept = tuple(dict.fromkeys(name for name in names if "<none>" not in name))
        scheduler = MIN_KERNEL in (image.get("Labels") or {})
        found.append(LocalImage(driver, parse_image_id(image), kept, int(image["Size"]), scheduler))
    return found


def parse_insecure(told: Mapping[str, Any], registry: str, addresses: Iterable[str]) -> bool:
    """Whether docker's own configuration lets it do without TLS, or a certificate it knows, at this registry.

    It goes by the name with its port, and else by the network that one of the host's addresses is in.
    """
    from ipaddress import ip_address, ip_network

    config = told["RegistryConfig"]
    index = (config.get("IndexConfigs") or {}).get(registry)
    if index is not None:
        return not index["Secure"]
    networks = [ip_network(text) for text in config.get("InsecureRegistryCIDRs") or ()]
    return any(ip_address(address) in network for address in addresses for network in networks)


def parse_message(body: bytes) -> str:
    """What an engine says about a failure."""
    try:
        return str(json.loads(body)["message"])
    except (ValueError, RecursionError, KeyError, TypeError):
        return body.decode(errors="replace").strip() or "it does not say why"


def parse_failure(driver: str, status: int, message: str, action: str) -> SchedkitError:
    """The error that a refusal of the engine is."""
    text = f"{driver} could not {action}: {message}"
    if "no space left" in message:
        return NoSpaceError(text)
    if status == 404 or "no such container" in message.lower():
        return NotFoundError(text)
    if status in {401, 403}:
        return NoPermissionError(text)
    # 500 is what engines say of most that goes wrong, also of a container that can never start.
    if status in {502, 503, 504} or (status == 500 and _says(message, _LEAVING)):
        return UnavailableError(text)
    return SchedkitError(text)


def parse_pull_failure(driver: str, message: str, reference: str) -> SchedkitError:
    """The error that a failed pull is; engines tell causes apart in words only."""
    registry = reference.partition("/")[0]
    text = f"{driver} could not pull {reference}: {message}"
    if "no space left" in message:
        return NoSpaceError(text, hint=f"{driver} system prune removes what is not used")
    if _says(message, _TLS):
        return UnavailableError(text, hint=_INSECURE_HINTS[driver].format(registry=registry))
    if _says(message, _DENIED):
        return NoPermissionError(text, hint=f"log in: {driver} login {registry}")
    if _says(message, _MISSING):
        return NotFoundError(text)
    if _says(message, _UNREACHABLE):
        return UnavailableError(text)
    return SchedkitError(text)


def _take(value: object, kind: type[Value]) -> Value:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is not {kind.__name__}")
    return value


def _says(message: str, words: Iterable[str]) -> bool:
    said = message.lower()
    return any(word in said for word in words)


def _parse_time(text: str) -> datetime | None:
    """RFC 3339; Go's zero time stands for never."""
    moment = datetime.fromisoformat(text)
    return moment if moment.year > 1 else None
