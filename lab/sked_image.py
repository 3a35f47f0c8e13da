"""The operator's image, built in the lab: its wheels, fetched once, and the build with them."""

import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lab import images
from lab.schedulers import read_texts
from lab.store import Artefact, Build, Store

PROJECT = Path(__file__).parents[1]
SOURCES = PROJECT / "images/sked"
LOCK = PROJECT / "requirements.lock"
PYTHON_VERSION = "3.13"  # of the base image
NEWEST_GLIBC = (2, 41)
TAG = "sked:dev"


def _platforms() -> list[str]:
    """The tags of all wheels that run on the base image."""
    machine = platform.machine()
    return [f"manylinux2014_{machine}", *(f"manylinux_2_{minor}_{machine}" for minor in range(17, 1 + NEWEST_GLIBC[1]))]


def _fetch_wheels(build: Build) -> None:
    requirements = build.work / "requirements.txt"
    with requirements.open("wb") as output:
        subprocess.run([sys.executable, SOURCES / "select_requirements.py", LOCK], stdout=output, check=True)
    options = ["--require-hashes", "--only-binary=:all:", f"--python-version={PYTHON_VERSION}"]
    options += [f"--platform={name}" for name in _platforms()]
    pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-cache-dir"]
    build.run([*pip, *options, "--requirement", requirements, "--dest", build.out])


# The wheels of everything that the operator imports, of the locked versions.
WHEELS = Artefact(
    "sked-wheels",
    (PYTHON_VERSION, *_platforms(), LOCK.read_text(), *read_texts(SOURCES / "select_requirements.py")),
    _fetch_wheels,
    adds_mb=10,
    peak_mb=10,
)


def build_sked(store: Store, registry: str, *, tag: str = TAG) -> str:
    """Build the operator's image from this tree, push it to a registry on loopback and return its digest."""
    store.ensure(WHEELS)
    (store.root / "run").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="image-sked-", dir=store.root / "run") as name:
        context = Path(name)
        shutil.copy(LOCK, context)
        for folder in ("images/sked", "src/schedkit"):
            shutil.copytree(PROJECT / folder, context / folder, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(store.path(WHEELS), context / "images/sked/wheels", dirs_exist_ok=True)
        base = {"BASE": f"{images.BASES}/python"}
        return images.build(store, SOURCES / "Containerfile", context, tag, registry=registry, build_args=base)
