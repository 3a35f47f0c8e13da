"""The catalog's recipes: one for each name, current, and complete."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = sorted(json.loads((ROOT / "catalog/manifest.json").read_text()))
LABELS = [f"org.opencontainers.image.{name}" for name in ("title", "description", "documentation", "source", "version")]


def test_containerfiles_are_current() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "catalog", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stderr, done.returncode) == ("", 0)


@pytest.mark.parametrize("name", NAMES)
def test_each_image_says_what_it_is(name: str) -> None:
    text = (ROOT / "catalog" / name / "Containerfile").read_text()
    for label in (*LABELS, "org.schedkit.scheduler.kernel.min-version"):
        assert f'{label}="' in text
    assert f'title="{name}"' in text
    assert "@" not in text.replace(f"{name}@${{VERSION}}", "")
