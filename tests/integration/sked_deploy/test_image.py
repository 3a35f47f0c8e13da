"""The operator's image, really built by docker-build, docker-push and docker-buildx: what is in it, and that it runs.

Built with buildah, and word for word with a stand-in for other tools.
"""

import gzip
import io
import re
import resource
import shlex
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab import images, rooms
from lab.sked_image import WHEELS
from lab.store import Store
from lab.wheels import LOCK
from schedkit import __version__
from tests.integration.sked_deploy.tools import ROOT, Clone
from tests.integration.test_images import fetch, fetch_config, fetch_json, fetch_manifest

INDEX = "application/vnd.oci.image.index.v1+json"
BASE = f"localhost/{images.BASES}/python"
OPTIONS = f"--file images/sked/Containerfile --build-arg VERSION={__version__} --build-arg REVISION=unknown"
IMAGE = "registry.example.com/sked:v1"
LARGEST_BYTES = 36_000_000  # to pull


def write_program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def source(clone: Clone, store: Store) -> Clone:
    """The clone, with all that an image is made of, wheels included: nothing is asked of a network."""
    store.ensure(WHEELS)
    shutil.copy(ROOT / "requirements.lock", clone.folder)
    for name in ("images/sked", "src/schedkit"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, clone.folder / name, ignore=ignored, dirs_exist_ok=True)
    shutil.copytree(store.path(WHEELS), clone.folder / "images/sked/wheels", dirs_exist_ok=True)
    return clone


@dataclass(frozen=True)
class Workshop:
    """A container tool, and a registry that it can push to."""

    tool: Path
    registry: str

    def make(self, source: Clone, target: str, tag: str, *more: str) -> str:
        """Run a target; the image it was given."""
        image = f"{self.registry}/{tag}"
        source.make(None, target, f"IMG={image}", f"CONTAINER_TOOL={self.tool}", f"BASE={BASE}", *more, seconds=900)
        return image


@pytest.fixture(scope="module")
def workshop(source: Clone, store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    """A buildah in a room of the lab, since neither docker nor podman runs on every host that tests run on."""
    store.ensure(rooms.TOOLS, images.PYTHON)
    folder = tmp_path_factory.mktemp("workshop")
    storage = tmp_path_factory.mktemp("storage")
    with images.Registry(store, tmp_path_factory.mktemp("registry")) as registry:
        # Limits stay as they are: raising them, as buildah would, is not every root's to do.
        known = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
        limits = [f"{name}={':'.join(map(str, resource.getrlimit(number)))}" for name, number in known.items()]
        (folder / "containers.conf").write_text(
            f'[containers]\nnetns = "host"\ndefault_ulimits = {limits}\n[engine]\nhelper_binaries_dir = ["/settings"]\n'
        )
        (folder / "registries.conf").write_text(f'[[registry]]\nlocation = "{registry.address}"\ninsecure = true\n')
        write_program(folder / "netavark", "exit 1")  # buildah wants to find it, and never calls it
        binds = {folder: "/settings", storage: "/var/lib/containers", source.folder: "/clone"}
        binds[store.path(images.PYTHON) / "bases/python"] = "/python"
        settings = {
            "STORAGE_DRIVER": "vfs",
            "BUILDAH_ISOLATION": "chroot",
            "BUILDAH_LAYERS": "true",  # as docker and podman do: what has not changed is not built again
            "TMPDIR": "/var/lib/containers",
            "CONTAINERS_CONF_OVERRIDE": "/settings/containers.conf",
            "CONTAINERS_REGISTRIES_CONF": "/settings/registries.conf",
        }

        def program(name: str) -> Path:
            words = rooms.enter(store.path(rooms.TOOLS), ["env", "--chdir=/clone", name], binds=binds, env=settings)
            line = [*words[:-1], words[-1] + ' "$@"', name]
            # For an index, and only for that, buildah does not look into registries.conf.
            insecure = 'case "$*" in "manifest push "*) shift 2; set -- manifest push --tls-verify=false "$@" ;; esac'
            return write_program(folder / name, f'{insecure}\nexec {shlex.join(line)} "$@"')

        copy = [str(program("skopeo")), "copy", "--quiet", "oci:/python", f"containers-storage:{BASE}:latest"]
        subprocess.run(copy, check=True, capture_output=True)
        yield Workshop(program("buildah"), registry.address)


@dataclass(frozen=True)
class Built:
    """An image from a registry: its settings, its files, and its size there."""

    config: dict[str, Any]
    root: Path
    size: int


@pytest.fixture(scope="module")
def built(workshop: Workshop, source: Clone, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The image, built and pushed by the make targets."""
    workshop.make(source, "docker-build", "sked:v1")
    workshop.make(source, "docker-push", "sked:v1")
    root = tmp_path_factory.mktemp("root")
    layers: Any = fetch_manifest(workshop.registry, "sked", "v1")["layers"]
    for layer in layers:
        _, blob = fetch(workshop.registry, f"/v2/sked/blobs/{layer['digest']}")
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(blob))) as archive:
            archive.extractall(root, filter="tar")
    root.chmod(0o755)
    return Built(fetch_config(workshop.registry, "sked", "v1"), root, sum(layer["size"] for layer in layers))


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
    assert run(built, "/usr/bin/sked-wait") == "", "nothing is attached to the kernel of this host"


def test_image_is_labelled(built: Built) -> None:
    labels = {name.removeprefix("org.opencontainers.image."): text for name, text in built.config["Labels"].items()}
    assert {"title", "description", "documentation", "source", "version", "revision", "licenses"} <= labels.keys()
    assert (labels["title"], labels["licenses"], labels["version"]) == ("sked", "Apache-2.0", __version__)


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
    assert {"aiohttp", "click", "cryptography", "msgspec", "pyyaml", "tuf", "urllib3"} <= installed.keys()
    assert not installed.keys() & {"mypy", "pydantic", "pytest", "ruff", "uv"}


def test_image_can_verify_images(built: Built) -> None:
    """What the verifier imports is there, and the copy of the public trusted root from which TUF starts."""
    code = (
        "import sys; sys.path.insert(0, '/opt/sked'); import rfc3161_client, schedkit.sked.verifier.child;"
        "from schedkit.trust import roots, tuf_update;"
        "print(len(roots.read_embedded(roots.PUBLIC, 'root.json')))"
    )
    python = (built.root / "manager").read_text().splitlines()[0].removeprefix("#!").split()
    assert int(run(built, *python, "-c", code)) > 1000


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


@pytest.mark.usefixtures("built")  # most of which need not be built again
def test_image_for_platforms_is_an_index_and_building_again_adds_nothing_to_it(
    workshop: Workshop, source: Clone
) -> None:
    for _ in range(2):
        workshop.make(source, "docker-buildx", "sked:index", "PLATFORMS=linux/amd64")
        index: Any = fetch_json(workshop.registry, "/v2/sked/manifests/index", accept=INDEX)
        (entry,) = index["manifests"]
        assert (entry["platform"]["os"], entry["platform"]["architecture"]) == ("linux", "amd64")
        assert fetch_manifest(workshop.registry, "sked", entry["digest"])["layers"]


def record(folder: Path, version: str, fail_on: str = "nothing") -> tuple[Path, Path]:
    """A stand-in that says which tool it is and writes down how it is called; of no target's interest what it does."""
    log = folder / "calls"
    tool = write_program(
        folder / "tool",
        f'[ "$1" != --version ] || {{ echo "{version}"; exit; }}\n'
        f'echo "$*" >>{shlex.quote(str(log))}\n'
        f'case "$*" in *"{fail_on}"*) exit 3 ;; esac',
    )
    return tool, log


def calls(log: Path) -> list[str]:
    """What the stand-in was called with; a builder's name ends with a number of no meaning."""
    return [
        " ".join(w.rstrip("0123456789") if "builder-" in w else w for w in c.split())
        for c in log.read_text().splitlines()
    ]


def test_docker_builds_for_all_platforms_with_a_builder_that_goes_again(clone: Clone, tmp_path: Path) -> None:
    tool, log = record(tmp_path, "Docker version 27.5.1, build 9f9e405")
    clone.make(None, "docker-buildx", f"IMG={IMAGE}", f"CONTAINER_TOOL={tool}", "BASE=mirror.internal/python")
    platforms = "--platform linux/arm64,linux/amd64"
    expected = [
        "buildx version",
        "buildx create --name sked-builder-",
        f"buildx build --builder sked-builder- {platforms} --push --tag {IMAGE} {OPTIONS}"
        " --build-arg BASE=mirror.internal/python .",
        "buildx rm sked-builder-",
    ]
    assert calls(log) == expected


@pytest.mark.parametrize("version", ["podman version 5.4.2", "buildah version 1.39.3 (image-spec 1.1.0)"])
def test_podman_makes_an_index_and_pushes_all_of_it(clone: Clone, tmp_path: Path, version: str) -> None:
    tool, log = record(tmp_path, version)
    clone.make(None, "docker-buildx", f"IMG={IMAGE}", f"CONTAINER_TOOL={tool}", "PLATFORMS=linux/amd64")
    assert calls(log) == [
        f"manifest exists {IMAGE}",
        f"manifest rm {IMAGE}",
        f"build --platform linux/amd64 --manifest {IMAGE} {OPTIONS} .",
        f"manifest push --all {IMAGE} docker://{IMAGE}",
    ]


def test_failed_build_fails_and_leaves_no_builder(clone: Clone, tmp_path: Path) -> None:
    tool, log = record(tmp_path, "Docker version 27.5.1", fail_on="buildx build")
    assert clone.make(None, "docker-buildx", f"CONTAINER_TOOL={tool}", check=False).code != 0
    assert calls(log)[-1] == "buildx rm sked-builder-"


def test_docker_without_buildx_is_told(clone: Clone, tmp_path: Path) -> None:
    tool, _ = record(tmp_path, "Docker version 27.5.1", fail_on="buildx version")
    done = clone.make(None, "docker-buildx", f"CONTAINER_TOOL={tool}", check=False)
    assert "has no buildx\nhint: install docker's buildx plugin" in done.stderr
