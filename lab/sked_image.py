"""The operator's image, built in the lab: its wheels, fetched once, and the build with them."""

import shutil
import tempfile
from pathlib import Path

from lab import images
from lab.store import Store
from lab.wheels import LOCK, PROJECT, wheels

SOURCES = PROJECT / "images/sked"
TAG = "sked:dev"


# The wheels of everything that the operator imports, of the locked versions.
WHEELS = wheels("sked-wheels", "aiohttp", "click", "cryptography", "msgspec", "pyyaml", megabytes=10)


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
