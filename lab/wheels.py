"""Python packages of the locked versions, for the Python of the lab's images and machines."""

import platform
import re
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path
from typing import NamedTuple

from lab.schedulers import read_texts
from lab.store import Artefact, Build

PROJECT = Path(__file__).parents[1]
LOCK = PROJECT / "requirements.lock"
SELECT = PROJECT / "images/sked/select_requirements.py"


class Target(NamedTuple):
    """Which wheels run there."""

    python: str
    newest_glibc: tuple[int, int]
    machine: str = platform.machine()

    @property
    def platforms(self) -> list[str]:
        """The tags of all wheels that run there."""
        minors = range(17, 1 + self.newest_glibc[1])
        return [f"manylinux2014_{self.machine}", *(f"manylinux_2_{minor}_{self.machine}" for minor in minors)]


TRIXIE = Target("3.13", (2, 41))


def _fetch(verb: list[str], names: tuple[str, ...], target: Target, build: Build) -> None:
    requirements = build.work / "requirements.txt"
    with requirements.open("wb") as output:
        subprocess.run([sys.executable, SELECT, LOCK, *names], stdout=output, check=True)
    options = ["--require-hashes", "--only-binary=:all:", f"--python-version={target.python}", "--implementation=cp"]
    options += [f"--platform={name}" for name in target.platforms]
    pip = [sys.executable, "-m", "pip", verb[0], "--disable-pip-version-check", "--no-cache-dir"]
    build.run([*pip, *options, "--requirement", requirements, *verb[1:], build.out])


def _artefact(name: str, names: tuple[str, ...], verb: list[str], target: Target, *, megabytes: int) -> Artefact:
    return Artefact(
        name,
        (target.python, *names, *verb, *target.platforms, LOCK.read_text(), *read_texts(SELECT)),
        partial(_fetch, verb, names, target),
        seconds=12,
        adds_mb=megabytes,
        peak_mb=megabytes,
    )


def wheels(name: str, *names: str, megabytes: int, target: Target = TRIXIE) -> Artefact:
    """The wheels of packages and all they need, as files."""
    return _artefact(name, names, ["download", "--dest"], target, megabytes=megabytes)


def installed(name: str, *names: str, megabytes: int, target: Target = TRIXIE) -> Artefact:
    """Packages and all they need, installed in a folder that can be put on Python's path."""
    return _artefact(name, names, ["install", "--no-compile", "--target"], target, megabytes=megabytes)


def direct_dependencies(*extras: str) -> list[str]:
    """The names in pyproject.toml, with those of extras."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(one for extra in extras for one in project["optional-dependencies"][extra])]
    return list(dict.fromkeys(re.split(r"[^\w-]", requirement)[0] for requirement in wanted))


# What `pip install schedkit` brings along.
SCHEDCTL = installed("schedctl-packages", *direct_dependencies(), megabytes=75)
