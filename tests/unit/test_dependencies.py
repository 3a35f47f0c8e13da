"""What the package imports is what pyproject.toml declares: not what some other package happens to bring along."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/schedkit"


def find_imports(path: Path) -> set[str]:
    """The first words of all modules that a file imports, wherever it does."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"schedkit", "_typeshed"}  # the last is for type checkers only


def parse_names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^A-Za-z0-9_.-]", one)[0].lower() for one in requirements}


@pytest.mark.parametrize("extra", [None, "sked"])
def test_what_is_imported_is_declared(extra: str | None) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = parse_names(project["dependencies"])
    if extra:
        declared |= parse_names(project["optional-dependencies"][extra])
    distributions = packages_distributions()
    files = [path for path in SOURCE.rglob("*.py") if ("sked" in path.relative_to(SOURCE).parts) == bool(extra)]
    imported = {name: path for path in files for name in find_imports(path)}
    assert imported
    undeclared = {
        name: str(path.relative_to(ROOT))
        for name, path in imported.items()
        if not declared & {one.lower() for one in distributions.get(name, [])}
    }
    assert undeclared == {}
