"""Many selectors at once: finding those that overlap with one, without asking every one."""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from schedkit.sked.api.selectors import Key, Selector, Term

Name = TypeVar("Name", bound=Hashable)


class SelectorIndex(Generic[Name]):
    """Selectors by name. Terms are kept under a value that they require of a label, where they require one."""

    def __init__(self) -> None:
        self._selectors: dict[Name, Selector] = {}
        self._by_value: dict[Key, dict[str, dict[Name, None]]] = {}  # dicts as sets that keep their order
        self._elsewhere: dict[Name, None] = {}

    def put(self, name: Name, selector: Selector) -> None:
        """Add a selector, or replace the one of that name."""
        self.remove(name)
        self._selectors[name] = selector
        for key, value in _find_places(selector):
            self._by_value.setdefault(key, {}).setdefault(value, {})[name] = None
        if any(_find_anchor(term) is None for term in selector.terms):
            self._elsewhere[name] = None

    def remove(self, name: Name) -> None:
        """Forget a selector, if there is one of that name."""
        selector = self._selectors.pop(name, None)
        self._elsewhere.pop(name, None)
        for key, value in _find_places(selector) if selector else ():
            names = self._by_value[key].get(value, {})
            names.pop(name, None)
            if not names:
                self._by_value[key].pop(value, None)

    def find_intersecting(self, selector: Selector) -> list[Name]:
        """The names of those selectors that can share a node with this one, in no order."""
        found: dict[Name, None] = {}
        for term in selector.terms:
            for name in self._find_candidates(term):
                if name not in found and any(not term.is_disjoint(other) for other in self._selectors[name].terms):
                    found[name] = None
        return list(found)

    def _find_candidates(self, term: Term) -> Iterator[Name]:
        yield from self._elsewhere
        for key, by_value in self._by_value.items():
            values = term.by_key.get(key)
            asked = by_value if values is None or values.only is None else values.only
            for value in asked:
                yield from by_value.get(value, ())


def _find_anchor(term: Term) -> Key | None:
    """The requirement of a term that names the fewest values which the label must have one of."""
    listed = [(len(values.only), key) for key, values in term.requirements if values.only and not values.absent]
    return min(listed)[1] if listed else None


def _find_places(selector: Selector) -> Iterator[tuple[Key, str]]:
    for term in selector.terms:
        key = _find_anchor(term)
        if key is not None:
            yield from ((key, value) for value in term.by_key[key].only or ())
