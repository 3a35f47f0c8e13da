"""The operator's image, really built: what is in it, what is not, and that it runs with nothing else around it."""

import gzip
import io
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab import images
from lab.sked_image import TAG, build_sked
from lab.store import Store
from lab.wheels import LOCK
from schedkit import __version__
from tests.integration.test_images import fetch, fetch_config, fetch_manifest

LARGEST_BYTES = 32_000_000  # to pull


@dataclass(frozen=True)
class Built:
    """An image from a registry: its settings, its files, and its size there."""

    config: dict[str, Any]
    root: Path
    size: int


@pytest.fixture(scope="module")
def built(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    root = tmp_path_factory.mktemp("root")
    with images.Registry(store, tmp_path_factory.mktemp("registry")) as registry:
        build_sked(store, registry.address)
        name, tag = TAG.split(":")
        layers: Any = fetch_manifest(registry.address, name, tag)["layers"]
        for layer in layers:
            _, blob = fetch(registry.address, f"/v2/{name}/blobs/{layer['digest']}")
            with tarfile.open(fileobj=io.BytesIO(gzip.decompress(blob))) as archive:
                archive.extractall(root, filter="tar")
        root.chmod(0o755)
        config = fetch_config(registry.address, name, tag)
        yield Built(config, root, sum(layer["size"] for layer in layers))


def run(built: Built, *words: str) -> str:
    """Run a program of the image in its root, as its user, with its environment and without the host's."""
    enter = [shutil.which("chroot") or "chroot", "--userspec", built.config["User"], str(built.root)]
    environment = dict(variable.split("=", 1) for variable in built.config["Env"])
    return subprocess.run([*enter, *words], env=environment, capture_output=True, text=True, check=True).stdout


def test_image_runs_the_manager_as_nobody(built: Built) -> None:
    assert built.config["User"] == "65532:65532"
    assert built.config["Entrypoint"] == ["/manager"]
    assert "Usage: sked manager" in run(built, "/manager", "--help")
    assert run(built, "/usr/bin/sked", "--version") == f"sked {__version__}\n"


def test_image_is_labelled(built: Built) -> None:
    labels = {name.removeprefix("org.opencontainers.image."): text for name, text in built.config["Labels"].items()}
    assert {"title", "description", "documentation", "source", "version", "revision", "licenses"} <= labels.keys()
    assert (labels["title"], labels["licenses"]) == ("sked", "Apache-2.0")


def test_image_is_small_and_holds_no_tools(built: Built) -> None:
    unpacked = sum(path.lstat().st_size for path in built.root.rglob("*"))
    print(f"image: {built.size} bytes to pull, {unpacked} bytes unpacked")
    assert built.size < LARGEST_BYTES
    names = {path.name for path in built.root.rglob("*")}
    assert not names & {"sh", "bash", "dash", "pip", "ensurepip", "apt", "dpkg", "gcc", "ld", "perl", "site-packages"}


def test_image_holds_what_is_locked(built: Built) -> None:
    locked = dict(re.findall(r"^(\S+)==(\S+)", LOCK.read_text(), re.MULTILINE))
    folders = [path.name.removesuffix(".dist-info") for path in (built.root / "opt/sked").glob("*.dist-info")]
    installed = {name.replace("_", "-").lower(): version for name, version in (name.split("-", 1) for name in folders)}
    assert installed.items() <= locked.items()
    assert {"aiohttp", "click", "cryptography", "msgspec", "pyyaml"} <= installed.keys()
    assert not installed.keys() & {"mypy", "pytest", "ruff", "uv"}


def test_everything_is_compiled_and_nothing_is_written(built: Built) -> None:
    sources = [path for path in built.root.rglob("*.py") if "__pycache__" not in path.parts]
    assert len(sources) > 500
    assert [
        path for path in sources if not list((path.parent / "__pycache__").glob(f"{path.stem}.cpython-*.pyc"))
    ] == []
    before = {path: path.lstat().st_mtime_ns for path in built.root.rglob("*")}
    code = (
        "import sys; sys.path.insert(0, '/opt/sked'); import schedkit.sked.controller.operator, yaml, cryptography.x509"
    )
    python = (built.root / "manager").read_text().splitlines()[0].removeprefix("#!").split()
    run(built, *python, "-c", code)
    assert {path: path.lstat().st_mtime_ns for path in built.root.rglob("*")} == before
