"""SchedExts read from a file, refused offline for what the API server would refuse, in the same words."""

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from schedkit.errors import BadDataError
from schedkit.sked.api import patterns, schema
from schedkit.sked.api.documents import parse_documents
from schedkit.sked.api.kinds import KINDS, SCHEDEXT, Kind
from schedkit.sked.api.kubernetes import OBJECT_NAME_LENGTH
from schedkit.sked.api.names import API_VERSION, GROUP
from schedkit.sked.api.schema import Schema
from schedkit.sked.api.types import SchedExt

_METADATA = {
    *("name", "generateName", "namespace", "labels", "annotations", "finalizers", "ownerReferences", "uid"),
    *("resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
    *("managedFields", "selfLink"),
}
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    schema.OBJECT: (dict,),
    schema.ARRAY: (list,),
    schema.STRING: (str,),
    schema.INTEGER: (int,),
    schema.BOOLEAN: (bool,),
    schema.INTEGER_OR_STRING: (int, str),
}
_TYPE_NAMES = {dict: "object", list: "array", str: "string", int: "integer", bool: "boolean", float: "number"}


class ValidationError(NamedTuple):
    """What is wrong in a document, and where."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class InvalidResourceError(BadDataError):
    """A resource that the API server would refuse."""

    reason = "InvalidResource"

    def __init__(self, source: str, errors: tuple[ValidationError, ...]) -> None:
        super().__init__("\n".join(f"{source}: {error}" for error in errors))
        self.errors = errors


class ManifestText(NamedTuple):
    """A text of YAML or JSON, and where it comes from."""

    name: str
    text: str


def parse_resources(sources: Sequence[ManifestText]) -> tuple[SchedExt, ...]:
    """The SchedExts of all sources, at least one; objects of other groups and kinds beside them are left alone."""
    found: dict[tuple[str, str], tuple[SchedExt, str]] = {}
    for source in sources:
        for resource in _parse_source(source):
            key = (resource.metadata.namespace or "default", resource.metadata.name)
            if key in found:
                first = found[key][1]
                told = f"there are two with this name: the other one is in {first}"
                raise _invalid(f"{source.name}: {resource.metadata.name}", told)
            found[key] = (resource, source.name)
    if not found:
        raise _invalid(", ".join(source.name for source in sources), f"there is no {SCHEDEXT.kind} in it")
    return tuple(resource for resource, _ in found.values())


def _parse_source(source: ManifestText) -> Iterator[SchedExt]:
    for document in _flatten(parse_documents(source.text, source.name)):
        if not isinstance(document, dict) or not document.get("kind") or not document.get("apiVersion"):
            raise _invalid(source.name, "an object says what it is by apiVersion and kind")
        if str(document["apiVersion"]).partition("/")[0] != GROUP:
            continue
        if errors := find_errors(document):
            name = document["metadata"].get("name") if isinstance(document.get("metadata"), dict) else None
            raise InvalidResourceError(f"{source.name}: {name}" if name else source.name, tuple(errors))
        if document["kind"] != SCHEDEXT.kind:
            continue
        try:
            yield msgspec.convert(_without_nulls(document), SchedExt)
        except msgspec.ValidationError as error:  # in the metadata, which has no schema here
            raise _invalid(source.name, str(error)) from error


def _invalid(source: str, message: str) -> InvalidResourceError:
    return InvalidResourceError(source, (ValidationError("", message),))


def find_errors(document: Any, kinds: Sequence[Kind] = KINDS) -> list[ValidationError]:
    """Everything that is wrong with a resource; the rules are asked only when its form is right."""
    document = _without_nulls(document)
    kind = next((kind for kind in kinds if kind.kind == document.get("kind")), None)
    if kind is None:
        expected = " or ".join(f'"{kind.kind}"' for kind in kinds)
        return [ValidationError("kind", f"expected {expected}")]
    errors = list(_check_form(kind.schema, document, ""))
    if not errors:
        errors = list(_check_identity(document))
    return errors or list(_check_rules(kind.schema, document, ""))


def _flatten(documents: list[Any]) -> Iterator[Any]:
    for document in documents:
        if isinstance(document, dict) and document.get("kind") == "List":
            yield from document.get("items") or ()
        else:
            yield document


def _without_nulls(value: Any) -> Any:
    """The API server takes a null as an absent field."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _check_identity(document: dict[str, Any]) -> Iterator[ValidationError]:
    if document.get("apiVersion") != API_VERSION:
        yield ValidationError("apiVersion", f'expected "{API_VERSION}"')
    metadata = document.get("metadata", {})
    for field in sorted(metadata.keys() - _METADATA):
        yield ValidationError(f"metadata.{field}", "no such field")
    for field in ("name", "namespace"):
        if not isinstance(metadata.get(field, ""), str):
            yield ValidationError(f"metadata.{field}", "expected a string")
            return
    name = metadata.get("name", "")
    if not name:
        yield ValidationError("metadata.name", "the field is missing")
    elif len(name) > OBJECT_NAME_LENGTH or not patterns.matches(patterns.DNS_SUBDOMAIN, name):
        yield ValidationError("metadata.name", "this cannot be the name of an object")


def _check_form(schema: Schema, value: Any, path: str) -> Iterator[ValidationError]:
    expected = _PYTHON_TYPES[schema.kind]
    if not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
        article = "an" if schema.kind[0] in "aio" else "a"
        yield ValidationError(
            path, f"expected {article} {schema.kind}, found {_TYPE_NAMES.get(type(value), 'something else')}"
        )
        return
    if message := _find_limit_passed(schema.keywords, value):
        yield ValidationError(path, message)
    if isinstance(value, list) and schema.items:
        for index, item in enumerate(value):
            yield from _check_form(schema.items, item, f"{path}[{index}]")
    elif isinstance(value, dict) and schema.values:
        for key, item in value.items():
            yield from _check_form(schema.values, item, f"{path}.{key}")
    elif isinstance(value, dict) and schema.properties:
        yield from _check_fields(schema, value, path)


def _check_fields(schema: Schema, value: dict[Any, Any], path: str) -> Iterator[ValidationError]:
    for key, item in value.items():
        if key in schema.properties:
            yield from _check_form(schema.properties[key], item, _join(path, key))
        else:
            near = difflib.get_close_matches(str(key), schema.properties, 1)
            yield ValidationError(_join(path, key), "no such field" + (f"; is {near[0]} meant?" if near else ""))
    for key in schema.required:
        if key not in value:
            yield ValidationError(_join(path, key), "the field is missing")


def _find_limit_passed(keywords: dict[str, Any], value: Any) -> str | None:
    if "enum" in keywords and value not in keywords["enum"]:
        return f'"{value}" is none of {", ".join(keywords["enum"])}'
    for keyword, unit, kind in (
        ("maxLength", "characters", str),
        ("maxItems", "items", list),
        ("maxProperties", "keys", dict),
    ):
        if isinstance(value, kind) and keyword in keywords and len(value) > keywords[keyword]:
            return f"there are more than {keywords[keyword]} {unit}"
    if isinstance(value, int) and value < keywords.get("minimum", value):
        return f"{value} is below {keywords['minimum']}"
    if isinstance(value, int) and value > keywords.get("maximum", value):
        return f"{value} is above {keywords['maximum']}"
    if isinstance(value, str) and "pattern" in keywords and not re.search(keywords["pattern"], value):
        return f"it does not match {keywords['pattern']}"
    return None


def _check_rules(schema: Schema, value: Any, path: str) -> Iterator[ValidationError]:
    for rule in schema.rules:
        if message := rule.find_fault(value):
            yield ValidationError(_join(path, rule.field) if rule.field else path, message)
    if isinstance(value, list) and schema.items:
        yield from _check_unique(schema.keywords.get("x-kubernetes-list-map-keys", ()), value, path)
        for index, item in enumerate(value):
            yield from _check_rules(schema.items, item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            below = schema.values or schema.properties.get(key)
            if below:
                yield from _check_rules(below, item, _join(path, key))


def _check_unique(keys: Sequence[str], items: list[Any], path: str) -> Iterator[ValidationError]:
    for key in keys:
        seen = set()
        for index, item in enumerate(items):
            if item[key] in seen:
                yield ValidationError(f"{path}[{index}]", f'Duplicate value: {{"{key}":"{item[key]}"}}')
            seen.add(item[key])


def _join(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)
