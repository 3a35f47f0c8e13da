"""The schema of the resource, read from its types: what the CRD, the reference and offline validation walk over."""

import types
import typing
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import msgspec

from schedkit.sked.api.about import About, ValidationRule
from schedkit.sked.api.kubernetes import SpecModel
from schedkit.sked.kube.objects import ObjectMeta

OBJECT, ARRAY, STRING, INTEGER, BOOLEAN, INTEGER_OR_STRING = (
    "object",
    "array",
    "string",
    "integer",
    "boolean",
    "integer or string",
)
_SCALARS = {str: STRING, int: INTEGER, bool: BOOLEAN}


@dataclass(frozen=True)
class Schema:
    """What a value may be: its kind, what it is made of, and what else must hold of it."""

    kind: str
    sentence: str = ""
    keywords: dict[str, Any] = field(default_factory=dict)
    rules: tuple[ValidationRule, ...] = ()
    properties: dict[str, "Schema"] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    items: "Schema | None" = None  # of an array
    values: "Schema | None" = None  # of an object whose keys are free
    model: type[SpecModel] | None = None  # of an object whose keys are not


def build_schema(annotation: Any) -> Schema:
    """The schema of a type, with what is written about it."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        notes = [note for note in arguments[1:] if isinstance(note, About)]
        return _describe(build_schema(arguments[0]), notes)
    if origin in (typing.Union, types.UnionType):
        kinds = [argument for argument in arguments if argument is not type(None)]
        return Schema(INTEGER_OR_STRING) if set(kinds) == {int, str} else build_schema(kinds[0])
    if origin is tuple:
        return Schema(ARRAY, items=build_schema(arguments[0]))
    if origin is dict:
        return Schema(OBJECT, values=build_schema(arguments[1]))
    if annotation in _SCALARS:
        return Schema(_SCALARS[annotation])
    if annotation is ObjectMeta:
        return Schema(OBJECT)  # what there is in it is Kubernetes' to say
    return _build_model(annotation)


def _describe(schema: Schema, notes: list[About]) -> Schema:
    for note in notes:
        schema = replace(
            schema,
            sentence=note.sentence or schema.sentence,
            keywords=schema.keywords | note.keywords,
            rules=schema.rules + note.rules,
        )
    return schema


def _build_model(model: type[SpecModel]) -> Schema:
    sentence = (model.__doc__ or "").strip()
    hints = typing.get_type_hints(model, include_extras=True)
    fields = msgspec.structs.fields(model)
    properties = {item.encode_name: build_schema(hints[item.name]) for item in fields}
    required = tuple(item.encode_name for item in fields if item.required)
    return Schema(OBJECT, sentence, rules=model.RULES, properties=properties, required=required, model=model)


def render_schema(schema: Schema) -> dict[str, Any]:
    """A schema as the OpenAPI that a CRD holds."""
    openapi: dict[str, Any] = {}
    if schema.sentence:
        openapi["description"] = schema.sentence
    if schema.kind == INTEGER_OR_STRING:
        openapi |= {"anyOf": [{"type": INTEGER}, {"type": STRING}], "x-kubernetes-int-or-string": True}
    else:
        openapi["type"] = schema.kind
    openapi |= schema.keywords
    if schema.items:
        openapi["items"] = render_schema(schema.items)
    if schema.values:
        openapi["additionalProperties"] = render_schema(schema.values)
    if schema.required:
        openapi["required"] = sorted(schema.required)
    if schema.properties:
        openapi["properties"] = {name: render_schema(schema.properties[name]) for name in sorted(schema.properties)}
    if schema.rules:
        openapi["x-kubernetes-validations"] = [_render_rule(rule) for rule in schema.rules]
    return openapi


def _render_rule(rule: ValidationRule) -> dict[str, str]:
    rendered = {"rule": rule.cel}
    if len(rule.sentences) == 1:
        rendered["message"] = rule.sentences[0]  # beside an expression, for when that cannot be evaluated
    if rule.message_cel:
        rendered["messageExpression"] = rule.message_cel
    if rule.field:
        rendered["fieldPath"] = f".{rule.field}"
    return rendered
