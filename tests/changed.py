"""Which tests a change asks for: what each test file needs is read from its imports, and from the names in its strings.

A name in a string is a module (`"from schedkit.sked.cli import main"`) or a path of the tree (`"config/crd"`).
"""

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Packages of the tree and where they are.
PACKAGES = {"schedkit": "src/schedkit"} | {name: name for name in ("bench", "catalog", "lab", "tests", "website")}
DOTTED = re.compile(rf"\b(?:{'|'.join(PACKAGES)})(?:\.\w+)+\.?")
PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*")
CODE = ("src", "lab", "tests")  # found by imports, not by paths
ROOTS = ("ROOT", "REPOSITORY", "PROJECT")  # what modules call the folder of the tree
# Under every test that is not a unit test. What only shows or measures is under none.
EVERYWHERE = ("lab/", "tests/conftest.py", "pyproject.toml", "requirements.lock")
NOWHERE = ("lab/__main__.py", "lab/demo.py", "lab/demo_cluster.py", "lab/pages.py", "lab/stage.py")


def find_modules(root: Path, name: str) -> set[str]:
    """The files of a dotted name: the module's own, those of the packages around it; `a.b.` is all of a package."""
    package, *rest = name.rstrip(".").split(".")
    if package not in PACKAGES:
        return set()
    folder = root / PACKAGES[package]
    found = {folder / "__init__.py"}
    for number, part in enumerate(rest):
        found |= {folder / f"{part}.py", folder / part / "__init__.py"}
        folder /= part
        if name.endswith(".") and number == len(rest) - 1:
            found |= set(folder.glob("*.py"))
    return {str(path.relative_to(root)) for path in found if path.is_file()}


@cache
def read_needs(root: Path, file: str) -> frozenset[str]:
    """The files and folders that a module names itself."""
    needs: set[str] = set()
    tree = ast.parse((root / file).read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                needs |= find_modules(root, alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                needs |= find_modules(root, f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            for name in DOTTED.findall(node.value):
                needs |= find_modules(root, name)
            if "/" in node.value:
                needs |= find_path(root, node.value)
        elif isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant) and starts_at_root(node):
            needs |= find_path(root, str(node.right.value))
    return frozenset(needs - {file})


def starts_at_root(node: ast.expr) -> bool:
    """Whether a path begins with the tree's folder: `ROOT / "config"`, and not `folder / "config"`."""
    while isinstance(node, ast.BinOp):
        node = node.left
    return isinstance(node, ast.Name) and node.id in ROOTS


def find_path(root: Path, text: str) -> set[str]:
    """A file or folder of the tree, if that is what a text names; `config/*.yaml` is its folder."""
    text = text.partition("*")[0].rstrip("/")
    if not PATH.fullmatch(text) or text.partition("/")[0] in CODE or ".." in text:
        return set()
    return {text} if (root / text).exists() else set()


def find_all_needs(root: Path, test: str) -> set[str]:
    """Everything that a test file needs, itself and the conftest.py of its folders included."""
    left = [test, *(f"{folder}/conftest.py" for folder in map(str, Path(test).parents) if folder.startswith("tests/"))]
    needs: set[str] = set()
    while left:
        file = left.pop()
        if file in needs or not (root / file).exists():
            continue
        needs.add(file)
        if file.endswith(".py"):
            named = read_needs(root, file)
            # Not from one module of the lab to the next: a test needs what it asks of the product, not all there is.
            left += (path for path in named if not (file.startswith("lab/") and path.startswith("lab/")))
    return needs


def choose(root: Path, changed: Iterable[str], tests: Iterable[str]) -> dict[str, list[str]]:
    """The test files that need something of what changed, and what."""
    matter = [path for path in changed if path not in NOWHERE]
    everywhere = [path for path in matter if path.startswith(EVERYWHERE)]
    chosen = {}
    for test in tests:
        needs = find_all_needs(root, test)
        why = [path for path in matter if path in needs or any(path.startswith(f"{need}/") for need in needs)]
        if found := sorted({*everywhere, *why}):
            chosen[test] = found
    return chosen


def read_changes(root: Path, base: str) -> list[str]:
    """What differs from where this branch left the base, committed or not."""

    def git(*words: str) -> list[str]:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"error: git {words[0]}: {done.stderr.strip()}\nhint: name another revision with BASE=…")
        return done.stdout.splitlines()

    (start,) = git("merge-base", base, "HEAD")
    return sorted({*git("diff", "--name-only", start), *git("ls-files", "--others", "--exclude-standard")})


def find_base(root: Path) -> str:
    """The main branch of the clone's origin, else the local one."""
    for name in ("origin/main", "main"):
        words = ["git", "-C", str(root), "rev-parse", "--verify", "--quiet", name]
        if subprocess.run(words, capture_output=True, check=False).returncode == 0:
            return name
    sys.exit("error: there is no branch main\nhint: name a revision with BASE=…")


def explain(chosen: Mapping[str, list[str]], total: int, base: str) -> str:
    """What was chosen and why, for people."""
    lines = [f"since {base}: {len(chosen)} of {total} files of integration and end-to-end tests need what changed"]
    under_all = sorted({path for why in chosen.values() for path in why if path.startswith(EVERYWHERE)})
    if under_all:
        lines.append(f"  all of them need {_count(under_all)}")
    for test, why in chosen.items():
        if own := [path for path in why if path not in under_all]:
            lines.append(f"  {test} needs {_count(own)}")
    return "\n".join(lines)


def _count(paths: list[str]) -> str:
    return f"{paths[0]} and {len(paths) - 1} more" if len(paths) > 1 else paths[0]


def main() -> None:
    """Print the chosen files on stdout, and why on stderr."""
    parser = argparse.ArgumentParser(description="Choose the integration and end-to-end tests that a change asks for.")
    parser.add_argument("--base", default="", help="revision to compare with (default: origin/main, else main)")
    base = parser.parse_args().base or find_base(ROOT)
    tests = sorted(
        str(path.relative_to(ROOT))
        for kind in ("integration", "e2e")
        for path in (ROOT / "tests" / kind).rglob("test_*.py")
    )
    chosen = choose(ROOT, read_changes(ROOT, base), tests)
    print(explain(chosen, len(tests), base), file=sys.stderr)
    print("\n".join(chosen))


if __name__ == "__main__":
    main()
