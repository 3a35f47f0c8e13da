"""YAML as Kubernetes reads it: no dates, no numbers to the base of 60, and no key twice."""

import re
from collections.abc import Hashable
from typing import Any

import yaml

from schedkit.errors import BadDataError

_OWN = {
    "int": (r"[-+]?(?:0|[1-9][0-9]*|0[0-7]+|0x[0-9a-fA-F]+)", "-+0123456789"),
    "float": (r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?", "-+0123456789."),
}
_DROPPED = {f"tag:yaml.org,2002:{kind}" for kind in (*_OWN, "timestamp")}


class InvalidDocumentError(BadDataError):
    """A text that is neither YAML nor JSON."""

    reason = "InvalidDocument"


class _Loader(yaml.SafeLoader):
    """The safe loader, with Kubernetes' idea of values."""

    yaml_implicit_resolvers = {
        first: [resolver for resolver in resolvers if resolver[0] not in _DROPPED]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """A mapping, if none of its keys is given twice."""
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(problem=f'"{twice}" is given twice', problem_mark=node.start_mark)
        return super().construct_mapping(node, deep)


for _kind, (_pattern, _first) in _OWN.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(f"(?:{_pattern})$"), list(_first))


def parse_documents(text: str, source: str) -> list[Any]:
    """The documents of a YAML or JSON text; `source` says in errors where it came from."""
    try:
        documents = list(yaml.load_all(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}, line {mark.line + 1}" if mark else source
        raise InvalidDocumentError(f"{where}: this is not YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise InvalidDocumentError(f"{source}: this is not YAML: {error}") from error
    except RecursionError as error:
        raise InvalidDocumentError(f"{source}: nested too deeply") from error
    return [document for document in documents if document is not None]
