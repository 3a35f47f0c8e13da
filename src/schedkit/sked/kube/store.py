"""What an informer knows, found by name or by an index."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

import msgspec

from schedkit.sked.kube.objects import HasMetadata, Key, ObjectMeta

Item = TypeVar("Item", bound=HasMetadata)
Index = Callable[[Item], Iterable[str]]


class Store(Generic[Item]):
    """Objects by key, and by whatever the index functions say of them. Only its informer writes to it."""

    def __init__(self, indexes: Mapping[str, Index[Item]] | None = None) -> None:
        self._items: dict[Key, Item] = {}
        self._functions = dict(indexes or {})
        self._indexes: dict[str, dict[str, dict[Key, None]]] = {name: {} for name in self._functions}

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items.values())

    def all_keys(self) -> Iterable[Key]:
        """The keys of all objects."""
        return self._items.keys()

    def get(self, namespace: str, name: str) -> Item | None:
        """One object, as it was last seen."""
        return self._items.get(Key(namespace, name))

    def find(self, index: str, value: str) -> list[Item]:
        """The objects for which an index function gives this value."""
        return [self._items[key] for key in self._indexes[index].get(value, ())]

    def put(self, item: Item) -> Item | None:
        """Store an object and give the one that was there."""
        share_strings(item.metadata)
        key = item.metadata.key
        old = self._items.get(key)
        self._items[key] = item
        self._index(key, old, item)
        return old

    def remove(self, key: Key) -> Item | None:
        """Forget an object and give it."""
        old = self._items.pop(key, None)
        if old is not None:
            self._index(key, old, None)
        return old

    def _index(self, key: Key, old: Item | None, new: Item | None) -> None:
        for name, function in self._functions.items():
            before = set(function(old)) if old is not None else set()
            after = set(function(new)) if new is not None else set()
            entries = self._indexes[name]
            for value in before - after:
                entries[value].pop(key, None)
                if not entries[value]:
                    del entries[value]
            for value in after - before:
                entries.setdefault(value, {})[key] = None


def by_controller(item: HasMetadata) -> Iterable[str]:
    """An index function: the uid of the owner that manages the object."""
    owner = item.metadata.controller
    return (owner.uid,) if owner else ()


def share_strings(metadata: ObjectMeta) -> None:
    """Let equal namespaces, labels' values and owners' kinds be one string: thousands of objects say the same."""
    intern = sys.intern
    # Frozen is for those who read; nobody has seen this object yet.
    set_attribute = msgspec.structs.force_setattr
    set_attribute(metadata, "namespace", intern(metadata.namespace))
    for name, value in metadata.labels.items():
        metadata.labels[name] = intern(value)
    for owner in metadata.owner_references:
        set_attribute(owner, "kind", intern(owner.kind))
        set_attribute(owner, "api_version", intern(owner.api_version))


def same_projection(old: HasMetadata, new: HasMetadata) -> bool:
    """Whether two versions of an object differ in nothing that we look at."""
    replace = msgspec.structs.replace
    if replace(old.metadata, resource_version="") != replace(new.metadata, resource_version=""):
        return False
    if not isinstance(old, msgspec.Struct) or not isinstance(new, msgspec.Struct):
        return False
    others = (name for name in old.__struct_fields__ if name != "metadata")
    return all(getattr(old, name) == getattr(new, name) for name in others)
