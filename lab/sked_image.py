"""The operator's image, built in the lab with wheels that were fetched once; and its base, which versions share."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from lab import images, paths
from lab.rooms import TOOLS
from lab.schedulers import read_texts
from lab.store import Artefact, Build, Store
from lab.wheels import LOCK, PROJECT, wheels

SOURCES = PROJECT / "images/sked"
TAG = "sked:dev"
_PYTHON = {"BASE": f"{images.BASES}/python"}


# The wheels of everything that the operator imports, of the locked versions.
PACKAGES = ("aiohttp", "click", "cryptography", "msgspec", "pyyaml", "rfc3161-client", "tuf")
WHEELS = wheels("sked-wheels", *PACKAGES, megabytes=25)


class Platform(NamedTuple):
    """For what the image is built, and with what."""

    name: str = ""  # this host's
    wheels: Artefact = WHEELS
    base: Artefact = images.PYTHON  # its bases/python
    qemu: Artefact | None = None


THIS_HOST = Platform()


def build_sked(
    store: Store,
    registry: str,
    *others: str,
    tag: str = TAG,
    build_args: Mapping[str, str] | None = None,
    platform: Platform = THIS_HOST,
) -> str:
    """Build the operator's image from this tree, push it to registries on loopback and return its digest."""
    store.ensure(platform.wheels)
    with _context(store, platform.wheels, "images/sked", "src/schedkit") as context:
        return images.build(
            store,
            SOURCES / "Containerfile",
            context,
            tag,
            registry=registry,
            others=others,
            build_args=_PYTHON | dict(build_args or {}),
            bases={"python": platform.base},
            platform=platform.name,
            qemu=platform.qemu,
        )


@contextmanager
def _context(store: Store, wheels: Artefact, *folders: str) -> Iterator[Path]:
    """A folder with what the image is made of."""
    (store.root / "run").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="image-sked-", dir=store.root / "run") as name:
        context = Path(name)
        shutil.copy(LOCK, context)
        for folder in folders:
            shutil.copytree(PROJECT / folder, context / folder, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(store.path(wheels), context / "images/sked/wheels", dirs_exist_ok=True)
        yield context


def _build_base(work: Build) -> None:
    python = {"python": work.need(images.PYTHON) / "bases/python"}
    with _context(work.store, WHEELS, "images/sked") as context:
        images.build_base(
            work,
            "sked",
            context,
            containerfile=SOURCES / "Containerfile",
            bases=python,
            build_args=_PYTHON,
            target="base",
        )


# bases/sked: Python and the packages, the lower layer of the operator's image.
BASE = Artefact(
    "image-sked-base",
    (
        LOCK.read_text(),
        *read_texts(*(SOURCES / name for name in ("Containerfile", "assemble.py", "select_requirements.py"))),
        *read_texts(paths.RECIPES / "images.sh"),
    ),
    _build_base,
    needs=(TOOLS, images.PYTHON, WHEELS),
    seconds=20,
    adds_mb=35,
    peak_mb=700,
)
