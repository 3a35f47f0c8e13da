"""What a program says can be followed by who installed it: no file that only a clone has."""

import ast
import re
import tomllib
from pathlib import Path

import yaml

from schedkit.pages import REPOSITORY, name_page

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src/schedkit"
GENERATORS = {SOURCES / "schedctl/reference.py", SOURCES / "sked/api/generate.py"}  # run in a clone only


def find_strings(path: Path) -> list[str]:
    """Every string of a module but its docstrings that users never see: those of modules and classes."""
    tree = ast.parse(path.read_text())
    inner = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef) and node.body and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner
    ]


def test_no_message_or_help_names_a_file_of_the_repository() -> None:
    paths = [path for path in SOURCES.rglob("*.py") if path not in GENERATORS]
    named = [
        (path.name, text) for path in paths for text in find_strings(path) if re.search(r"\bdocs/[\w/-]+\.md", text)
    ]
    assert named == []


def test_every_page_that_is_named_is_there() -> None:
    text = "\n".join(path.read_text() for path in SOURCES.rglob("*.py"))
    named = re.findall(r"""name_page\(["']([^"']+)["']\)""", text)
    assert len(named) >= 3
    for page, _, anchor in (one.partition("#") for one in named):
        heads = re.findall("^#+ (.*)$", (ROOT / "docs" / page).read_text(), re.MULTILINE)
        assert not anchor or anchor in {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads}
    assert name_page("faq.md").endswith("/docs/faq.md")


def test_everything_that_names_the_repository_names_the_same() -> None:
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    chart = yaml.safe_load((ROOT / "charts/sked/Chart.yaml").read_text())
    labels = re.findall(r'image\.(?:documentation|source)="([^"]+)"', (ROOT / "images/sked/Containerfile").read_text())
    links = re.findall(r"https://github\.com/schedkit/[^)\s]+", (ROOT / "SECURITY.md").read_text())
    named = [*about.values(), chart["home"], *chart["sources"], *labels, *links]
    assert len(named) >= 8
    assert [url for url in named if not f"{url}/".startswith(f"{REPOSITORY}/")] == []
