"""The values that requirements leave to one label of a node: a set that can be met, narrowed and turned around."""

import re
from dataclasses import dataclass, replace

MOST = 2**63 - 1  # Kubernetes compares 64-bit integers
LABEL_LENGTH = 63

IN, NOT_IN, EXISTS, DOES_NOT_EXIST, GREATER, LESS = "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"
Requirement = tuple[str, tuple[str, ...]]  # an operator and its values, in Kubernetes' words


@dataclass(frozen=True)
class Values:
    """Which values a label may have, and whether it may be absent.

    `only` lists the values, or is None for all but those in `never`. With `above` or `below` these are whole numbers
    between the two, both excluded.
    """

    absent: bool = True
    only: frozenset[str] | None = None
    never: frozenset[str] = frozenset()
    above: int | None = None
    below: int | None = None

    @property
    def numeric(self) -> bool:
        return self.above is not None or self.below is not None

    def allows(self, value: str | None) -> bool:
        """Whether a node with this value, or None when it has no such label, is among them."""
        if value is None:
            return self.absent
        if self.only is not None:
            return value in self.only
        return value not in self.never and self._between(value)

    def is_empty(self) -> bool:
        """Whether no value is left that a label can have."""
        if self.absent or self.only:
            return False
        return self.only is not None or (self.numeric and not self._has_number())

    def meet(self, other: "Values") -> "Values":
        """What both leave."""
        absent = self.absent and other.absent
        if self.only is not None or other.only is not None:
            listed = (self.only or frozenset()) | (other.only or frozenset())
            both = frozenset(value for value in listed if self.allows(value) and other.allows(value))
            return Values(absent, both)
        above = max((bound for bound in (self.above, other.above) if bound is not None), default=None)
        below = min((bound for bound in (self.below, other.below) if bound is not None), default=None)
        met = Values(absent, None, frozenset(), above, below)
        # Only what would be left without it needs to be excluded.
        return replace(met, never=frozenset(value for value in self.never | other.never if met.allows(value)))

    def is_disjoint(self, other: "Values") -> bool:
        """Whether nothing is left by both."""
        if self.only is not None and other.only is not None:
            return not (self.absent and other.absent) and self.only.isdisjoint(other.only)
        return self.meet(other).is_empty()

    def within(self, other: "Values") -> bool:
        """Whether the other surely leaves all of these."""
        if self.absent and not other.absent:
            return False
        if self.only is not None:
            return all(other.allows(value) for value in self.only)
        return (
            other.only is None
            and (other.above is None or (self.above is not None and self.above >= other.above))
            and (other.below is None or (self.below is not None and self.below <= other.below))
            and not any(self.allows(value) for value in other.never)
        )

    def negate(self) -> tuple["Values", ...]:
        """Sets that hold together what this one leaves out.

        Kubernetes has no word for "a value that is not a number": with numeric bounds, such values are in neither.
        """
        if self.only is not None:  # then either the label must be absent or it must have one of the values
            return (Values(never=self.only) if self.only else Values(absent=False),)
        rest = [] if self.absent else [Values(only=frozenset())]
        if self.above is not None:
            rest.append(Values(absent=False, below=self.above + 1))
        if self.below is not None:
            rest.append(Values(absent=False, above=self.below - 1))
        if self.never:
            rest.append(Values(absent=False, only=self.never))
        return tuple(values for values in rest if not values.is_empty())

    def to_requirements(self) -> tuple[Requirement, ...]:
        """The same in Kubernetes' words, all of which must hold."""
        if self.only is not None:
            return ((IN, tuple(sorted(self.only))),) if self.only else ((DOES_NOT_EXIST, ()),)
        requirements: list[Requirement] = []
        if self.above is not None:
            requirements.append((GREATER, (str(self.above),)))
        if self.below is not None:
            requirements.append((LESS, (str(self.below),)))
        if not self.absent and not requirements:
            requirements.append((EXISTS, ()))
        if self.never:
            requirements.append((NOT_IN, tuple(sorted(self.never))))
        return tuple(requirements)

    def _between(self, value: str) -> bool:
        if not self.numeric:
            return True
        number = parse_number(value)
        return (
            number is not None
            and (self.above is None or number > self.above)
            and (self.below is None or number < self.below)
        )

    def _has_number(self) -> bool:
        # A label's value has no sign, but it may have leading zeros: 7, 07 and 007 are three values.
        first = 0 if self.above is None else max(self.above + 1, 0)
        last = MOST if self.below is None else min(self.below - 1, MOST)
        texts = (
            str(number).zfill(width)
            for number in range(first, last + 1)
            for width in range(len(str(number)), LABEL_LENGTH + 1)
        )
        return any(text not in self.never for text in texts)


def parse_number(text: str) -> int | None:
    """The integer that Kubernetes reads in a label's value, or None."""
    if not re.fullmatch(r"[+-]?[0-9]{1,63}", text):
        return None
    number = int(text)
    return number if -MOST - 1 <= number <= MOST else None


def parse_requirement(operator: str, values: tuple[str, ...]) -> Values | None:
    """What one requirement leaves, or None when Kubernetes would refuse it."""
    if operator in (IN, NOT_IN):
        listed = frozenset(values)
        if not listed:
            return None
        return Values(absent=False, only=listed) if operator == IN else Values(never=listed)
    if operator in (EXISTS, DOES_NOT_EXIST) and not values:
        return Values(absent=False) if operator == EXISTS else Values(only=frozenset())
    if operator in (GREATER, LESS) and len(values) == 1 and (bound := parse_number(values[0])) is not None:
        return Values(absent=False, above=bound) if operator == GREATER else Values(absent=False, below=bound)
    return None
