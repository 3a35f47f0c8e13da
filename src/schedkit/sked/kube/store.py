"""What an informer knows, found by name or by an index."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Generic, TypeVar, cast

import msgspec

from schedkit.sked.kube.objects import HasMetadata, Key, ObjectMeta

Item = TypeVar("Item", bound=HasMetadata)
Group = TypeVar("Group", bound=Hashable)
Member = TypeVar("Member", bound=Hashable)
Index = Callable[[Item], Iterable[str]]
MOST_PARTS = 4096  # that a store knows at a time
NO_ENTRIES: dict[str, Any] = {}  # of all that have none
UNIQUE = ("uid", "resource_version")  # of metadata: no two objects have the same


class Groups(Generic[Group, Member]):
    """Sets that keep their order. Most have one member, which is held without a set: that would take 250 bytes more."""

    def __init__(self) -> None:
        self._groups: dict[Group, Member | dict[Member, None]] = {}

    def find(self, group: Group) -> Collection[Member]:
        """The members of a group."""
        found = self._groups.get(group)
        if found is None:
            return ()
        return cast(Collection[Member], found.keys() if type(found) is dict else (found,))

    def count(self, group: Group) -> int:
        """How many members a group has."""
        found = self._groups.get(group)
        if found is None:
            return 0
        return len(found) if type(found) is dict else 1

    def add(self, group: Group, member: Member) -> None:
        """Add a member to a group."""
        found = self._groups.setdefault(group, member)
        if type(found) is dict:
            found[member] = None
        elif found != member:
            self._groups[group] = {cast(Member, found): None, member: None}

    def remove(self, group: Group, member: Member) -> None:
        """Remove a member from a group, if it is there."""
        found = self._groups.get(group)
        if type(found) is dict:
            found.pop(member, None)
            if len(found) == 1:
                (self._groups[group],) = found
        elif found == member:
            del self._groups[group]


class Store(Generic[Item]):
    """Objects by key, and by whatever the index functions say of them. Only its informer writes to it."""

    def __init__(self, indexes: Mapping[str, Index[Item]] | None = None) -> None:
        self._items: dict[Key, Item] = {}
        self._interner = Interner()
        self._functions = dict(indexes or {})
        self._indexes: dict[str, Groups[str, Key]] = {name: Groups() for name in self._functions}

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items.values())

    def all_keys(self) -> Iterable[Key]:
        """The keys of all objects."""
        return self._items.keys()

    def get(self, namespace: str, name: str) -> Item | None:
        """One object, as it was last seen."""
        return self._items.get(cast(Key, (namespace, name)))  # which is equal, and made in half the time

    def find(self, index: str, value: str) -> list[Item]:
        """The objects for which an index function gives this value."""
        return [self._items[key] for key in self._indexes[index].find(value)]

    def count(self, index: str, value: str) -> int:
        """How many these are, without looking at each."""
        return self._indexes[index].count(value)

    def put(self, item: Item) -> Item | None:
        """Store an object and give the one that was there."""
        key = item.metadata.key
        old = self._items.get(key)
        self._interner.share(item, old)
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
            before = tuple(function(old)) if old is not None else ()
            after = tuple(function(new)) if new is not None else ()
            if before == after:  # as with most changes
                continue
            index = self._indexes[name]
            for value in set(before).difference(after):
                index.remove(value, key)
            for value in set(after).difference(before):
                index.add(value, key)


def by_controller(item: HasMetadata) -> Iterable[str]:
    """An index function: the uid of the owner that manages the object."""
    owner = item.metadata.controller
    return (owner.uid,) if owner else ()


class Interner:
    """Lets equal parts of many objects be one: thousands of them say the same.

    Not `sys.intern`, which is for strings alone, and in some versions of Python keeps them forever.
    """

    def __init__(self, most: int = MOST_PARTS) -> None:
        self._most = most
        self._known: dict[Hashable, Hashable] = {}

    def known(self) -> Collection[Hashable]:
        """What it would share at the moment."""
        return self._known.keys()

    def share(self, item: HasMetadata, before: HasMetadata | None = None) -> None:
        """Replace strings and tuples of an object that nobody has seen yet: frozen is for those who read.

        What is as it was in the version before, mostly nearly all of it, is taken from there.
        """
        if len(self._known) > self._most:
            self._known.clear()  # of names that come and go; what is common is soon back
        if isinstance(item, msgspec.Struct):
            self._share(item, before)

    def _share(self, struct: msgspec.Struct, before: object = None) -> None:
        known, put = self._known, msgspec.structs.force_setattr
        unique = UNIQUE if type(struct) is ObjectMeta else ()
        old = before if type(before) is type(struct) else None
        for name in struct.__struct_fields__:
            value = getattr(struct, name)
            was = getattr(old, name) if old is not None else None
            kind: Any = type(value)
            if was == value:
                put(struct, name, was)
            elif kind is str or _holds_numbers(kind):
                if name not in unique:
                    put(struct, name, known.setdefault(value, value))
            elif kind is dict:
                if not value:
                    put(struct, name, NO_ENTRIES)
                value.update({key: known.setdefault(one, one) for key, one in value.items() if type(one) is str})
            elif kind is tuple and value:
                for inner in value:
                    if isinstance(inner, msgspec.Struct):
                        self._share(inner)
                try:
                    put(struct, name, known.setdefault(value, value))
                except TypeError:  # one that holds a dictionary, as containers do, is looked up by what it says
                    put(struct, name, known.setdefault((type(struct), name, msgspec.json.encode(value)), value))
            elif isinstance(value, msgspec.Struct):
                self._share(value, was)


@cache
def _holds_numbers(kind: type) -> bool:
    """Whether a type is a struct of numbers only, as counts are, of which thousands say the same."""
    if not issubclass(kind, msgspec.Struct):
        return False
    types = (getattr(field.type, "__origin__", field.type) for field in msgspec.structs.fields(kind))  # of Annotated
    return all(found in (int, bool) for found in types)


def same_projection(old: HasMetadata, new: HasMetadata) -> bool:
    """Whether two versions of an object differ in nothing that we look at."""
    replace = msgspec.structs.replace
    if replace(old.metadata, resource_version="") != replace(new.metadata, resource_version=""):
        return False
    if not isinstance(old, msgspec.Struct) or not isinstance(new, msgspec.Struct):
        return False
    others = (name for name in old.__struct_fields__ if name != "metadata")
    return all(getattr(old, name) == getattr(new, name) for name in others)
