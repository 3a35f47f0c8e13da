"""The pieces every Kubernetes object is made of, cut down to the fields that are used."""

from datetime import UTC, datetime
from typing import NamedTuple, Protocol

import msgspec


# gc=False: what is decoded from JSON holds no cycles, and the collector need not walk thousands of cached objects.
class Model(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Base of our projections: Python's names here, Kubernetes' names on the wire, defaults not sent."""


class OwnerReference(Model, frozen=True):
    """Who an object belongs to, and goes with."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Model, frozen=True):
    """Who an object is. Timestamps stay text: in RFC 3339 and UTC, as Kubernetes writes them, they sort as they are."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    deletion_timestamp: str | None = None
    creation_timestamp: str | None = None

    @property
    def key(self) -> "Key":
        return Key(self.namespace, self.name)

    @property
    def controller(self) -> OwnerReference | None:
        """The one owner that manages this object."""
        for owner in self.owner_references:  # asked for all the time: a generator would take three times as long
            if owner.controller:
                return owner
        return None


class ListMeta(Model, frozen=True):
    """Where a list stands: its version, and how to fetch the rest."""

    resource_version: str = ""
    continue_token: str = msgspec.field(name="continue", default="")


class Key(NamedTuple):
    """An object's name within its resource; the namespace is empty where there is none."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class HasMetadata(Protocol):
    """Any projection of an object."""

    @property
    def metadata(self) -> ObjectMeta: ...


class Object(Model, frozen=True):
    """An object of which only the identity matters."""

    metadata: ObjectMeta = ObjectMeta()


class Applied(Model, frozen=True):
    """What server-side apply takes at least: which object. What is to be owned of it comes besides."""

    api_version: str
    kind: str
    metadata: ObjectMeta


class ObjectReference(Model, frozen=True):
    """Points at an object of any kind."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


def utc_now() -> datetime:
    """The time of day, aware of its zone."""
    return datetime.now(UTC)


def format_time(time: datetime) -> str:
    """A time as metav1.Time writes it: whole seconds."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(time: datetime) -> str:
    """A time as metav1.MicroTime writes it: six digits after the point, always."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
