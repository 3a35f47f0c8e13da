"""Which nodes a selector means, found by a label that it demands."""

from collections.abc import Iterator

from schedkit.sked.api.selectors import Selector, Term
from schedkit.sked.controller.objects import Node
from schedkit.sked.kube.store import Store


class Places:
    """The nodes by the values of those labels that somebody has asked for; few of a cluster's many labels are."""

    def __init__(self, nodes: Store[Node]) -> None:
        self._nodes = nodes
        self._by_label: dict[str, dict[str, set[str]]] = {}

    def see(self, old: Node | None, new: Node | None) -> None:
        """Take in a change of a node."""
        for label, by_value in self._by_label.items():
            if old and label in old.metadata.labels:
                by_value[old.metadata.labels[label]].discard(old.metadata.name)
            if new and label in new.metadata.labels:
                by_value.setdefault(new.metadata.labels[label], set()).add(new.metadata.name)

    def find(self, selector: Selector) -> Iterator[Node]:
        """The nodes that a selector selects; one may come twice."""
        for term in selector.terms:
            for node in self._candidates(term):
                if term.matches(node.metadata.labels, node.metadata.name):
                    yield node

    def _candidates(self, term: Term) -> Iterator[Node]:
        for key, values in term.requirements:
            if values.only is not None and not values.absent and not key.is_field:
                by_value = self._group(key.name)
                names = sorted(name for value in values.only for name in by_value.get(value, ()))
                yield from (node for name in names if (node := self._nodes.get("", name)))
                return
        yield from self._nodes

    def _group(self, label: str) -> dict[str, set[str]]:
        if label not in self._by_label:
            by_value: dict[str, set[str]] = {}
            for node in self._nodes:
                if label in node.metadata.labels:
                    by_value.setdefault(node.metadata.labels[label], set()).add(node.metadata.name)
            self._by_label[label] = by_value
        return self._by_label[label]
