"""The algebra of node selectors: which nodes two of them share, and the selector of one's nodes without the other's."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from schedkit.errors import SchedkitError
from schedkit.sked.api.kubernetes import (
    NODE_NAME_FIELD,
    Affinity,
    NodeFieldRequirement,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from schedkit.sked.api.label_values import EXISTS, IN, NOT_IN, Requirement, Values, parse_requirement

MOST_TERMS = 64  # more than that, and nobody can read the DaemonSet any more


class InvalidSelectorError(SchedkitError):
    """A selector that Kubernetes would refuse."""

    reason = "InvalidSelector"


class SelectorTooComplexError(SchedkitError):
    """What one selector leaves of another takes too many terms to say."""

    reason = "SelectorTooComplex"


class Key(NamedTuple):
    """What a requirement is about: a label of the node, or its name."""

    is_field: bool
    name: str


NODE_NAME = Key(True, NODE_NAME_FIELD)


@dataclass(frozen=True)
class Term:
    """Requirements that a node must meet all of, at most one set of values for a key; without any, every node does."""

    requirements: tuple[tuple[Key, Values], ...] = ()

    @classmethod
    def of(cls, requirements: Iterable[tuple[Key, Values]]) -> "Term":
        """The term of these requirements, of which several may be about the same key."""
        met: dict[Key, Values] = {}
        for key, values in requirements:
            met[key] = met.get(key, _all_values(key)).meet(values)
        return cls(tuple(sorted((key, values) for key, values in met.items() if values != _all_values(key))))

    @cached_property
    def by_key(self) -> dict[Key, Values]:
        """The requirements, to look one up."""
        return dict(self.requirements)

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Whether a node meets it."""
        return all(
            values.allows(node_name if key == NODE_NAME else labels.get(key.name)) for key, values in self.requirements
        )

    def is_empty(self) -> bool:
        """Whether no node can meet it."""
        return any(values.is_empty() for _, values in self.requirements)

    def meet(self, other: "Term") -> "Term":
        """The term of both."""
        return Term.of(self.requirements + other.requirements)

    def is_disjoint(self, other: "Term") -> bool:
        """Whether no node can meet both, told without making the term of both: it is asked of every pair there is."""
        theirs = other.by_key
        return any(key in theirs and values.is_disjoint(theirs[key]) for key, values in self.requirements)

    def within(self, other: "Term") -> bool:
        """Whether every node that meets this one surely meets the other."""
        return all(self.by_key.get(key, _all_values(key)).within(values) for key, values in other.requirements)

    def negate(self) -> tuple["Term", ...]:
        """Terms of which those nodes meet one that do not meet this."""
        return tuple(Term.of([(key, rest)]) for key, values in self.requirements for rest in _negate(key, values))

    def sort_key(self) -> list[tuple[Key, tuple[Requirement, ...]]]:
        """An order of terms that is the same in every process."""
        return [(key, values.to_requirements()) for key, values in self.requirements]


@dataclass(frozen=True)
class Selector:
    """Terms of which a node must meet one; without any, no node does."""

    terms: tuple[Term, ...]

    @classmethod
    def of(cls, terms: Iterable[Term]) -> "Selector":
        """The selector of these terms, in an order of its own and without those that add nothing."""
        kept: list[Term] = []
        for term in sorted({term for term in terms if not term.is_empty()}, key=Term.sort_key):
            if not any(term.within(other) for other in kept):
                kept = [other for other in kept if not other.within(term)] + [term]
        return cls(tuple(kept))

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Whether a node is selected."""
        return any(term.matches(labels, node_name) for term in self.terms)

    def to_node_selector(self) -> NodeSelector | None:
        """The required node affinity that selects the same nodes, or None when every node is selected."""
        if not self.terms:
            raise InvalidSelectorError("Kubernetes cannot express a selector of no node")
        if self == EVERY_NODE:
            return None
        return NodeSelector(node_selector_terms=tuple(_render_term(term) for term in self.terms))


EVERY_NODE = Selector((Term(),))
NO_NODE = Selector(())


def parse_selector(node_selector: Mapping[str, str] | None, affinity: Affinity | None) -> Selector:
    """The nodes that a pod's nodeSelector and required node affinity select together."""
    base = Term.of((Key(False, key), Values(False, frozenset([value]))) for key, value in (node_selector or {}).items())
    node_affinity = affinity.node_affinity if affinity else None
    required = node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None
    if required is None:
        return Selector.of([base])
    # A term without requirements selects nothing, says Kubernetes.
    given = [term for term in required.node_selector_terms if term.match_expressions or term.match_fields]
    return Selector.of(base.meet(_parse_term(term)) for term in given)


def intersects(one: Selector, other: Selector) -> bool:
    """Whether there can be a node that both select."""
    return any(not a.is_disjoint(b) for a in one.terms for b in other.terms)


def exclude(one: Selector, other: Selector) -> Selector | None:
    """The selector of the nodes that `one` selects and `other` does not, or None when there are none.

    Where `other` compares numbers, nodes whose label is not a number are left out too, which is on the safe side.
    """
    left = one
    for term in other.terms:
        rest: list[Term] = []
        for own in left.terms:
            if own.is_disjoint(term):
                rest.append(own)
            else:
                rest.extend(own.meet(alternative) for alternative in term.negate())
        left = Selector.of(rest)
        if len(left.terms) > MOST_TERMS:
            raise SelectorTooComplexError(
                f"what the other selector leaves takes more than {MOST_TERMS} node selector terms",
                hint="select the nodes by one label that says who they are for",
            )
    return left if left.terms else None


def _all_values(key: Key) -> Values:
    return Values(absent=not key.is_field)


def _negate(key: Key, values: Values) -> Iterable[Values]:
    if key.is_field and values.never:  # Kubernetes compares a name with one value at a time
        return [Values(False, frozenset([name])) for name in sorted(values.never)]
    return values.negate()


def _parse_term(term: NodeSelectorTerm) -> Term:
    requirements = []
    for expression in term.match_expressions:
        values = parse_requirement(expression.operator, expression.values)
        if values is None:
            raise InvalidSelectorError(
                f'the requirement on label "{expression.key}" is not valid: '
                f"{expression.operator} {list(expression.values)}"
            )
        requirements.append((Key(False, expression.key), values))
    for field in term.match_fields:
        values = parse_requirement(field.operator, field.values)
        valid = field.key == NODE_NAME_FIELD and field.operator in (IN, NOT_IN) and len(field.values) == 1
        if values is None or not valid:
            raise InvalidSelectorError(
                f'the requirement on field "{field.key}" is not valid: {field.operator} {list(field.values)}',
                hint=f"matchFields compares {NODE_NAME_FIELD} with one value, by In or NotIn",
            )
        requirements.append((NODE_NAME, values))
    return Term.of(requirements)


def _render_term(term: Term) -> NodeSelectorTerm:
    expressions, fields = [], []
    for key, values in term.requirements:
        for operator, listed in values.to_requirements():
            if not key.is_field:
                expressions.append(NodeSelectorRequirement(key=key.name, operator=operator, values=listed))
            elif operator != EXISTS:  # every node has a name
                fields += [NodeFieldRequirement(key=key.name, operator=operator, values=(name,)) for name in listed]
    return NodeSelectorTerm(match_expressions=tuple(expressions), match_fields=tuple(fields))
