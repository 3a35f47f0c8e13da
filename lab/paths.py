"""Where the lab keeps what it makes."""

import os
from pathlib import Path

FILES = Path(__file__).parent / "files"  # configuration that goes into the lab's machines
RECIPES = Path(__file__).parent / "recipes"  # scripts that run in rooms


def lab_dir() -> Path:
    """The one cache folder: SCHEDKIT_LAB_DIR, or a folder in the user's cache."""
    if chosen := os.environ.get("SCHEDKIT_LAB_DIR"):
        return Path(chosen).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "schedkit" / "lab"
