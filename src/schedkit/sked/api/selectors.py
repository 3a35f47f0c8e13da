"""Which nodes a pod's nodeSelector and required node affinity select, judged as Kubernetes judges it."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from schedkit.errors import SchedkitError
from schedkit.sked.api.kubernetes import NODE_NAME_FIELD, Affinity, NodeSelectorTerm

IN, NOT_IN, EXISTS, DOES_NOT_EXIST, GREATER, LESS = "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"
MOST = 2**63 - 1  # Kubernetes compares 64-bit integers


class InvalidSelectorError(SchedkitError):
    """A selector that Kubernetes would refuse."""

    reason = "InvalidSelector"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One thing asked of a label of a node, or of its name."""

    key: str
    operator: str
    values: Collection[str] = ()  # see _collect
    bound: int = 0  # what Gt and Lt compare with
    is_field: bool = False

    def allows(self, value: str | None) -> bool:
        """Whether a node with this value, or None when it has no such label, meets it."""
        if self.operator == IN:
            return value in self.values
        if self.operator == NOT_IN:
            return value not in self.values
        if self.operator == EXISTS:
            return value is not None
        if self.operator == DOES_NOT_EXIST:
            return value is None
        number = parse_number(value) if value is not None else None
        if number is None:
            return False
        return number > self.bound if self.operator == GREATER else number < self.bound


@dataclass(frozen=True, slots=True)
class Term:
    """Requirements that a node must meet all of; without any, every node does."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Whether a node meets it."""
        return all(
            requirement.allows(node_name if requirement.is_field else labels.get(requirement.key))
            for requirement in self.requirements
        )

    @property
    def anchor(self) -> Requirement | None:
        """The requirement that names the fewest values of which a node must have one: what to look the term up by."""
        listed = [requirement for requirement in self.requirements if requirement.operator == IN]
        return min(listed, key=lambda requirement: len(requirement.values), default=None)


@dataclass(frozen=True, slots=True)
class Selector:
    """Terms of which a node must meet one; without any, no node does."""

    terms: tuple[Term, ...]

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Whether a node is selected."""
        return any(term.matches(labels, node_name) for term in self.terms)

    @property
    def labels(self) -> frozenset[str]:
        """The keys of all labels that it looks at."""
        return frozenset(
            requirement.key for term in self.terms for requirement in term.requirements if not requirement.is_field
        )


def parse_selector(node_selector: Mapping[str, str] | None, affinity: Affinity | None) -> Selector:
    """The nodes that a pod's nodeSelector and required node affinity select together."""
    base = tuple(Requirement(key, IN, (value,)) for key, value in (node_selector or {}).items())
    node_affinity = affinity.node_affinity if affinity else None
    required = node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None
    if required is None:
        return Selector((Term(base),))
    # A term without requirements selects nothing, says Kubernetes.
    given = (term for term in required.node_selector_terms if term.match_expressions or term.match_fields)
    return Selector(tuple(Term((*base, *_parse_term(term))) for term in given))


def parse_number(text: str) -> int | None:
    """The integer that Kubernetes reads in a label's value, or None."""
    if not re.fullmatch(r"[+-]?[0-9]{1,63}", text):
        return None
    number = int(text)
    return number if -MOST - 1 <= number <= MOST else None


def _parse_term(term: NodeSelectorTerm) -> Iterator[Requirement]:
    for expression in term.match_expressions:
        requirement = _parse_requirement(expression.key, expression.operator, expression.values)
        if requirement is None:
            raise InvalidSelectorError(
                f'the requirement on label "{expression.key}" is not valid: '
                f"{expression.operator} {list(expression.values)}"
            )
        yield requirement
    for field in term.match_fields:
        if field.key != NODE_NAME_FIELD or field.operator not in (IN, NOT_IN) or len(field.values) != 1:
            raise InvalidSelectorError(
                f'the requirement on field "{field.key}" is not valid: {field.operator} {list(field.values)}',
                hint=f"matchFields compares {NODE_NAME_FIELD} with one value, by In or NotIn",
            )
        yield Requirement(field.key, field.operator, _collect(field.values), is_field=True)


def _parse_requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement | None:
    """One requirement, or None when Kubernetes would refuse it."""
    if operator in (IN, NOT_IN):
        return Requirement(key, operator, _collect(values)) if values else None
    if operator in (EXISTS, DOES_NOT_EXIST):
        return None if values else Requirement(key, operator)
    if operator in (GREATER, LESS) and len(values) == 1 and (bound := parse_number(values[0])) is not None:
        return Requirement(key, operator, bound=bound)
    return None


def _collect(values: Iterable[str]) -> Collection[str]:
    """Values as a set; the one value of nearly every requirement as a tuple, which takes a quarter of the memory."""
    found = frozenset(values)
    return tuple(found) if len(found) == 1 else found
