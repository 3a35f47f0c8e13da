"""Python packages of the locked versions, for the Python of the lab's images and machines."""

import platform
import re
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

from lab.schedulers import read_texts
from lab.store import Artefact, Build

PROJECT = Path(__file__).parents[1]
LOCK = PROJECT / "requirements.lock"
SELECT = PROJECT / "images/sked/select_requirements.py"
PYTHON_VERSION = "3.13"  # Debian trixie's
NEWEST_GLIBC = (2, 41)


def _platforms() -> list[str]:
    """The tags of all wheels that run on trixie."""
    machine = platform.machine()
    return [f"manylinux2014_{machine}", *(f"manylinux_2_{minor}_{machine}" for minor in range(17, 1 + NEWEST_GLIBC[1]))]


def _fetch(verb: list[str], names: tuple[str, ...], build: Build) -> None:
    requirements = build.work / "requirements.txt"
    with requirements.open("wb") as output:
        subprocess.run([sys.executable, SELECT, LOCK, *names], stdout=output, check=True)
    options = ["--require-hashes", "--only-binary=:all:", f"--python-version={PYTHON_VERSION}", "--implementation=cp"]
    options += [f"--platform={name}" for name in _platforms()]
    pip = [sys.executable, "-m", "pip", verb[0], "--disable-pip-version-check", "--no-cache-dir"]
    build.run([*pip, *options, "--requirement", requirements, *verb[1:], build.out])


def _artefact(name: str, names: tuple[str, ...], verb: list[str], *, megabytes: int) -> Artefact:
    return Artefact(
        name,
        (PYTHON_VERSION, *names, *verb, *_platforms(), LOCK.read_text(), *read_texts(SELECT)),
        partial(_fetch, verb, names),
        seconds=12,
        adds_mb=megabytes,
        peak_mb=megabytes,
    )


def wheels(name: str, *names: str, megabytes: int) -> Artefact:
    """The wheels of packages and all they need, as files."""
    return _artefact(name, names, ["download", "--dest"], megabytes=megabytes)


def installed(name: str, *names: str, megabytes: int) -> Artefact:
    """Packages and all they need, installed in a folder that can be put on Python's path."""
    return _artefact(name, names, ["install", "--no-compile", "--target"], megabytes=megabytes)


def _direct_dependencies() -> list[str]:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    return [re.split(r"[^\w-]", requirement)[0] for requirement in project["dependencies"]]


# What `pip install schedkit` brings along.
SCHEDCTL = installed("schedctl-packages", *_direct_dependencies(), megabytes=75)
