"""The check for words that we left behind finds them where users read, and nowhere else."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def check(path: Path) -> str:
    """What the check says of a file."""
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/check-words", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == (1 if done.stderr else 0)
    return done.stderr


def test_old_words_are_found_with_what_to_write_instead(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Fine.\nIt was thrown out, and fetched anew.\nAnewer and recommended are other words.\n")
    assert check(page).splitlines() == [
        f"error: {page}:2: 'anew': write again",
        f"error: {page}:2: 'thrown out': write ejected",
    ]


def test_of_python_strings_and_comments_are_read(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('torn = 1\nb = 2  # torn\n"""A\ntorn file."""\nprint(f"no container of ours {value}")\n')
    assert [line.split(": ")[1].rpartition(":")[2] for line in check(module).splitlines()] == ["2", "4", "5"]


def test_what_is_there_is_fine(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("There is no folder. The kernel ejected it. It does not respond.\n")
    assert check(page) == ""
