"""Whether what a command prints with `-o json` is what schedkit.schedctl.schema documents."""

from schedkit.schedctl.schema import FIELDS, OPEN


def undocumented(command: str, document: object) -> list[str]:
    """Fields of a command's output that FIELDS does not know."""
    known = FIELDS[command]
    return sorted(path for path in set(paths(document)) - {"version"} if not _is_known(path, known))


def missing(command: str, document: object) -> list[str]:
    """Fields that FIELDS promises and a command's output lacks, where the object they belong to is there."""
    found, objects = set(paths(document)), set(paths(document, only_objects=True)) | {""}
    return sorted(
        path for path in FIELDS[command] if not path.endswith("*") and path not in found and _parent(path) in objects
    )


def paths(value: object, prefix: str = "", *, only_objects: bool = False) -> list[str]:
    """All fields in a document, in the notation of FIELDS; what is unknown has none below it."""
    is_object = isinstance(value, dict) and set(value) != {"unknown"}
    found = [prefix] if prefix and (is_object or not only_objects) else []
    if isinstance(value, dict) and is_object:
        for name, item in value.items():
            found += paths(item, f"{prefix}.{name}" if prefix else name, only_objects=only_objects)
    elif isinstance(value, list):
        for item in value:
            found += paths(item, f"{prefix}[]", only_objects=only_objects)
    return found


def _is_known(path: str, known: dict[str, str]) -> bool:
    if path in known or any(field.startswith((f"{path}.", f"{path}[]")) for field in known):
        return True
    if any(path == f"{name}[]" for name in known):
        return True  # a list of plain values
    free = [*(field[:-1] for field in known if field.endswith(".*")), *(f"{name}." for name in OPEN)]
    return any(path.startswith(prefix) for prefix in free)


def _parent(path: str) -> str:
    return path.rpartition(".")[0]
