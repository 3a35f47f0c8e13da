"""A public class name means one thing: whoever searches for it finds one place."""

import ast
from collections import Counter
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src/schedkit"
# Kubernetes' own names, for its objects as the operator reads them.
KEPT = {"Container", "ContainerState"}


def test_no_two_public_classes_have_the_same_name() -> None:
    names: Counter[str] = Counter()
    for path in SOURCES.rglob("*.py"):
        names.update(node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef))
    twice = {name for name, count in names.items() if count > 1 and not name.startswith("_")}
    assert sorted(twice - KEPT) == [], "defined twice: rename one of them"
