"""What a field says about itself: the sentence, limits and rules that the CRD and the reference are made of."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from schedkit.sked.api.patterns import cel_matches, matches

Value = Mapping[str, Any]


@dataclass(frozen=True)
class ValidationRule:
    """One thing that must hold of a value: in CEL for the API server, and the same in Python for offline use."""

    cel: str
    find_fault: Callable[[Any], str | None]  # the sentence that refuses a value, or None when it is fine
    sentences: tuple[str, ...]  # those it may be, where a name is told after a colon without the name
    message_cel: str = ""  # which of them, or with which name, when it is not always the same
    field: str = ""  # whose fault it is, when it is one field's of the value that is looked at


class Fault(NamedTuple):
    """A way in which a value can be wrong: when it is, in CEL and in Python, and the sentence that says so."""

    cel: str
    is_at_fault: Callable[[Any], bool]
    sentence: str


def none_of(*faults: Fault, field: str = "") -> ValidationRule:
    """The rule that a value has none of these faults; the first one that it has is told."""

    def find_fault(value: Any) -> str | None:
        return next((fault.sentence for fault in faults if fault.is_at_fault(value)), None)

    if len(faults) == 1:
        return ValidationRule(f"!({faults[0].cel})", find_fault, (faults[0].sentence,), field=field)
    told = quote(faults[-1].sentence)
    for fault in reversed(faults[:-1]):
        told = f"({fault.cel}) ? {quote(fault.sentence)} : {told}"
    cel = f"!({' || '.join(f'({fault.cel})' for fault in faults)})"
    return ValidationRule(cel, find_fault, tuple(fault.sentence for fault in faults), told, field)


def quote(text: str) -> str:
    """A text as a literal of CEL."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def fits(pattern: str, sentence: str) -> ValidationRule:
    """A text fits a pattern."""
    return ValidationRule(
        cel_matches("self", pattern), lambda text: None if matches(pattern, text) else sentence, (sentence,)
    )


def each_key(cel: str, check: Callable[[Value, str], bool], sentence: str) -> ValidationRule:
    """A check holds of every `key` of a map; the sentence names one of which it does not."""

    def find_fault(value: Value) -> str | None:
        return next((f"{sentence}: {key}" for key in value if not check(value, key)), None)

    told = f"{quote(sentence + ': ')} + self.filter(key, !({cel}))[0]"
    return ValidationRule(f"self.all(key, {cel})", find_fault, (sentence,), told)


def unique_names(sentence: str) -> ValidationRule:
    """No two items of a list have the same name; which one they have is told by the list's being a map."""

    def find_fault(value: Sequence[Value]) -> str | None:
        return sentence if len({item["name"] for item in value}) < len(value) else None

    return ValidationRule("self.all(item, self.exists_one(other, other.name == item.name))", find_fault, (sentence,))


@dataclass(frozen=True, eq=False)  # compared by identity: typing wants what stands in Annotated to be hashable
class About:
    """What stands beside a type in `Annotated`: a sentence for people, OpenAPI keywords, and rules."""

    sentence: str
    rules: tuple[ValidationRule, ...] = ()
    keywords: dict[str, Any] = field(default_factory=dict)


def about(sentence: str, *rules: ValidationRule, **keywords: Any) -> About:
    """Describe a field; the keywords are OpenAPI's, and `list_key`, `list_type` and `map_type` Kubernetes'."""
    if key := keywords.pop("list_key", None):
        keywords |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    if kind := keywords.pop("list_type", None):
        keywords |= {"x-kubernetes-list-type": kind}
    if kind := keywords.pop("map_type", None):
        keywords |= {"x-kubernetes-map-type": kind}
    return About(sentence, rules, keywords)
