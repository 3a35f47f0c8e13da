"""The code map is right: what it names is there, and what is there is named."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
NAMED = set(re.findall(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:md|toml|lock|py))`", PAGE))
SHORT = {"errors.py"}  # named in full elsewhere on the page


def test_every_path_that_is_named_is_there() -> None:
    assert len(NAMED) > 30
    assert [path for path in sorted(NAMED - SHORT) if not (ROOT / path).exists()] == []


def test_every_package_and_folder_is_on_the_map() -> None:
    packages = {f"src/schedkit/{path.parent.name}/" for path in (ROOT / "src/schedkit").glob("*/__init__.py")}
    folders = {f"{path.name}/" for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")}
    passing = {"dist/", "build/", "src/"}
    unnamed = {one for one in packages | folders - passing if not any(path.startswith(one) for path in NAMED)}
    assert unnamed == set()


def test_every_make_target_that_is_named_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = set(re.findall(r"(?:`|^)make ([a-z0-9-]+)", PAGE, re.MULTILINE))
    assert {"check", "test", "package"} <= named
    assert {target for target in named if not re.search(rf"^{target}:", makefile, re.MULTILINE)} == set()
