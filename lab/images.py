"""Container images without a container engine: the lab's own, and any Containerfile a test or a demo brings."""

import http.client
import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from lab import paths, rooms
from lab.errors import BuildError, LabError, tail
from lab.process import Daemon
from lab.schedulers import FIXTURES, SCHEDULERS, SOURCES, VERSIONS, read_texts
from lab.store import Artefact, Build, Store, remove_tree
from lab.waiting import wait_for

BASES = "schedkit-lab"  # local base images are named schedkit-lab/NAME
CATALOG = Path(__file__).parents[1] / "catalog"
PYTHON_PACKAGES = ("python3", "python3-venv")
START_SECONDS = 20.0
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
REGISTRY_SETTINGS: dict[str, Any] = {
    "version": "0.1",
    "log": {"accesslog": {"disabled": True}},
    "storage": {
        "filesystem": {"rootdirectory": "/storage"},
        "delete": {"enabled": True},
        "maintenance": {"uploadpurging": {"enabled": False}},  # the folder may be a finished artefact
    },
    "http": {"addr": "127.0.0.1:0"},
}


@dataclass(frozen=True)
class Image:
    """One image of the lab; the first tag is its version."""

    name: str
    tags: tuple[str, ...]
    source: Artefact

    @property
    def containerfile(self) -> Path:
        """The fixtures' own, or the catalog's."""
        if self.source is SCHEDULERS:
            return CATALOG / self.name / "Containerfile"
        return SOURCES / "images" / f"{self.name}.Containerfile"

    @property
    def build_args(self) -> dict[str, str]:
        made = {"BASE": f"{BASES}/runtime", "BUILT": f"{BASES}/built"} if self.source is SCHEDULERS else {}
        return made | {"VERSION": self.tags[0]}


ALL = (
    Image("scx_fifo", ("v1",), FIXTURES),
    Image("scx_fifo", ("v2",), FIXTURES),
    Image("scx_stall", ("v1",), FIXTURES),
    Image("scx_reject", ("v1",), FIXTURES),
    Image("scx_idle", ("v1",), FIXTURES),
    Image("scx_stubborn", ("v1",), FIXTURES),
    Image("scx_mortal", ("v1",), FIXTURES),
    *(Image(name, (version, "latest"), SCHEDULERS) for name, version in VERSIONS.items()),
    Image("pause", ("1",), FIXTURES),
)


class Registry:
    """A registry on this host's loopback that serves a storage folder for as long as the block runs.

    `settings` are sections of docker-registry's configuration beside ours (auth, http …), and `files` what they name
    under /config.
    """

    def __init__(
        self,
        store: Store,
        storage: Path,
        *,
        settings: Mapping[str, Mapping[str, object]] | None = None,
        files: Mapping[str, str] | None = None,
    ) -> None:
        self._store = store
        self._storage = storage
        self._settings = settings or {}
        self._files = files or {}
        self._ending = ExitStack()
        self.address = ""  # ADDRESS:PORT while it runs

    def __enter__(self) -> Self:
        self._store.ensure(rooms.TOOLS)
        self._storage.mkdir(parents=True, exist_ok=True)
        with ExitStack() as started:
            folder = started.enter_context(_folder(self._store, "registry-"))
            added = {name: {**REGISTRY_SETTINGS.get(name, {}), **section} for name, section in self._settings.items()}
            (folder / "config.yml").write_text(json.dumps(REGISTRY_SETTINGS | added))
            for name, text in self._files.items():
                (folder / name).write_text(text)
            daemon = Daemon("registry", folder)
            started.callback(daemon.stop)
            daemon.start(
                rooms.enter(
                    self._store.path(rooms.TOOLS),
                    ["docker-registry", "serve", "/config/config.yml"],
                    binds={folder: "/config", self._storage: "/storage"},
                    own_pids=False,
                )
            )
            probe = partial(_read_address, daemon)
            self.address = wait_for("the registry to listen", probe, START_SECONDS, interval=0.02)
            self._ending = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()


def _read_address(daemon: Daemon) -> str:
    """Where a registry that was told to take any free port listens; empty as long as its log does not say."""
    daemon.check()
    found = re.search(r"listening on ([\d.]+:\d+)", daemon.log.read_text(errors="replace"))
    return found[1] if found else ""


def fetch_digest(registry: str, name: str, tag: str) -> str:
    """By which digest a registry on loopback knows a tag."""
    connection = http.client.HTTPConnection(registry, timeout=START_SECONDS)
    try:
        connection.request("HEAD", f"/v2/{name}/manifests/{tag}", headers={"Accept": MANIFEST})
        digest = connection.getresponse().headers["Docker-Content-Digest"]
    except OSError as error:
        raise LabError(f"the registry {registry} does not respond: {error}") from error
    finally:
        connection.close()
    if not digest:
        raise LabError(f"the registry {registry} has no {name}:{tag}")
    return digest


def build(
    store: Store,
    containerfile: Path,
    context: Path,
    tag: str,
    *,
    registry: str,
    others: Sequence[str] = (),
    build_args: Mapping[str, str] | None = None,
    bases: Mapping[str, Artefact] | None = None,
    platform: str = "",
    qemu: Artefact | None = None,
) -> str:
    """Build a Containerfile, push it as `registry`/`tag`, and to `others`; return the digest that they know it by.

    `schedkit-lab/runtime`, `/debian` and `/python` may be named as bases, in FROM or in a build argument; `bases` adds
    others, or replaces these. For a platform that is not this host's, `qemu` has the program that runs its programs.
    """
    for one in (registry, *others):
        if one.rpartition(":")[0] not in ("127.0.0.1", "localhost"):
            raise LabError(f"{one} is not a registry on loopback", hint="the lab pushes over plain HTTP only there")
    arguments = dict(build_args or {})
    text = "\n".join([containerfile.read_text(), *arguments.values()])
    known = {"runtime": IMAGES, "debian": DEBIAN, "python": PYTHON} | dict(bases or {})
    used = {name: artefact for name, artefact in known.items() if f"{BASES}/{name}" in text}
    store.ensure(rooms.TOOLS, *used.values(), *([qemu] if qemu else []))
    with _folder(store, "image-") as folder:
        command = _command(
            store,
            folder,
            containerfile=containerfile,
            context=context,
            destinations=[f"docker://{one}/{tag}" for one in (registry, *others)],
            bases={name: store.path(artefact) / "bases" / name for name, artefact in used.items()},
            build_args=arguments,
            platform=platform,
            qemu=store.path(qemu) if qemu else None,
        )
        log = folder / "log"
        with log.open("wb") as output:
            code = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False
            ).returncode
        if code:
            raise BuildError(f"building {tag} from {containerfile} failed:\n{tail(log)}")
        return (folder / "digest").read_text().strip()


def copy(store: Store, tag: str, *, source: str, destination: str, new_tag: str = "") -> None:
    """Copy an image from one registry on loopback to another, or to another name."""
    words = ["skopeo", "copy", "--quiet", "--src-tls-verify=false", "--dest-tls-verify=false"]
    words += [f"docker://{source}/{tag}", f"docker://{destination}/{new_tag or tag}"]
    done = subprocess.run(rooms.enter(store.path(rooms.TOOLS), words), capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"copying {tag} failed: {done.stderr.strip()}")


def _command(
    store: Store,
    folder: Path,
    *,
    containerfile: Path,
    context: Path,
    destinations: Sequence[str],
    bases: Mapping[str, Path] | None = None,
    build_args: Mapping[str, str] | None = None,
    out: Path | None = None,
    target: str = "",
    platform: str = "",
    qemu: Path | None = None,
) -> list[str]:
    """The command line of one build; `folder` holds buildah's storage and the result, `out` is /out inside."""
    (folder / "storage").mkdir(exist_ok=True)
    (folder / "Containerfile").write_text(containerfile.read_text())  # wherever it lies, be it in the context
    binds = {
        folder: "/build",
        folder / "storage": "/var/lib/containers",
        paths.RECIPES: "/recipes",
        context.absolute(): "/context",
    }
    binds |= {path: f"/bases/{name}" for name, path in (bases or {}).items()}
    if out:
        binds[out] = "/out"
    options = [f"--build-arg={name}={value}" for name, value in (build_args or {}).items()]
    options += [f"--target={target}"] if target else []
    options += [f"--platform={platform}"] if platform else []
    script = ["bash", "-euo", "pipefail", "/recipes/images.sh"]
    if qemu:
        binds[qemu] = "/qemu"
        script = ["bash", "-euo", "pipefail", "/recipes/emulate.sh", *script]
    arguments = [" ".join(destinations), " ".join(bases or {}), *options]
    command = rooms.enter(store.path(rooms.TOOLS), [*script, *arguments], binds=binds)
    # A namespace of users cannot be made in a room: a chroot may have none.
    return ["bash", "-euo", "pipefail", str(paths.RECIPES / "own-users.sh"), *command] if qemu else command


@contextmanager
def _folder(store: Store, prefix: str) -> Iterator[Path]:
    """A folder for the time of a block; under the lab's own, since /tmp may be small or in memory."""
    parent = store.root / "run"
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        yield folder
    finally:
        remove_tree(folder)


def build_base(
    work: Build,
    name: str,
    context: Path,
    *,
    containerfile: Path = SOURCES / "images/base.Containerfile",
    bases: Mapping[str, Path] | None = None,
    build_args: Mapping[str, str] | None = None,
    target: str = "",
    platform: str = "",
) -> None:
    """A base image, as an OCI layout: one that holds just a root folder, or what a Containerfile's stage makes."""
    (work.out / "bases").mkdir(exist_ok=True)
    with _folder(work.store, "image-") as folder:
        work.run(
            _command(
                work.store,
                folder,
                containerfile=containerfile,
                context=context,
                destinations=[f"oci:/out/bases/{name}"],
                bases=bases,
                build_args=build_args,
                out=work.out,
                target=target,
                platform=platform,
            )
        )


def _build_fixtures(work: Build) -> None:
    with Registry(work.store, work.out / "registry") as registry:
        _push(work, registry, FIXTURES, {})
        copy = ["skopeo", "copy", "--quiet", "--src-tls-verify=false", f"docker://{registry.address}/pause:1"]
        archive = "docker-archive:/out/pause.tar:localhost:5000/pause:1"
        work.run(rooms.enter(work.need(rooms.TOOLS), [*copy, archive], binds={work.out: "/out"}))


def _build_images(work: Build) -> None:
    work.run(["cp", "-a", work.need(FIXTURE_IMAGES) / "registry", work.out])
    build_base(work, "runtime", work.need(SCHEDULERS) / "runtime")
    # Where the catalog's recipes look for programs that are compiled already.
    built = work.work / "built"
    work.run(["rm", "-rf", built])
    work.run(["install", "-D", "-t", built / "opt/bin", *sorted((work.need(SCHEDULERS) / "bin").iterdir())])
    build_base(work, "built", built)
    bases = {name: work.out / "bases" / name for name in ("runtime", "built")}
    with Registry(work.store, work.out / "registry") as registry:
        _push(work, registry, SCHEDULERS, bases)


def _push(work: Build, registry: Registry, source: Artefact, bases: Mapping[str, Path]) -> None:
    """Build all images made of one artefact, and push them."""
    for image in (image for image in ALL if image.source is source):
        with _folder(work.store, "image-") as folder:
            work.run(
                _command(
                    work.store,
                    folder,
                    containerfile=image.containerfile,
                    context=work.need(source),
                    destinations=[f"docker://{registry.address}/{image.name}:{tag}" for tag in image.tags],
                    bases=bases,
                    build_args=image.build_args,
                )
            )


def _build_python(work: Build) -> None:
    root = work.work / "root"
    work.run(["rm", "-rf", root])
    work.run(["cp", "-a", "--reflink=auto", work.need(rooms.BASE), root])
    rooms.install_packages(work, root, PYTHON_PACKAGES)
    rooms.forget_packages(work, root)
    build_base(work, "python", root)


def _images(name: str, source: Artefact, build: Callable[[Build], None], *needs: Artefact, seconds: float) -> Artefact:
    made = [image for image in ALL if image.source is source]
    return Artefact(
        name,
        (
            *(f"{image.name}:{','.join(image.tags)}" for image in made),
            *read_texts(*(image.containerfile for image in made), paths.RECIPES / "images.sh"),
        ),
        build,
        needs=(rooms.TOOLS, source, *needs),
        seconds=seconds,
        adds_mb=20,
        peak_mb=150,
    )


# registry/: a registry's storage folder with the fixtures' images; pause.tar: the sandbox image, to be imported.
FIXTURE_IMAGES = _images("fixture-images", FIXTURES, _build_fixtures, seconds=8)

# registry/: the same with all images; bases/runtime: the base of the real schedulers' images.
IMAGES = _images("images", SCHEDULERS, _build_images, FIXTURE_IMAGES, seconds=6)

# bases/debian: a Debian root as a base image, for what needs a shell or packages.
DEBIAN = Artefact(
    "image-debian",
    read_texts(SOURCES / "images/base.Containerfile", paths.RECIPES / "images.sh"),
    lambda work: build_base(work, "debian", work.need(rooms.BASE)),
    needs=(rooms.TOOLS, rooms.BASE),
    seconds=15,
    adds_mb=85,
    peak_mb=700,
)

# bases/python: the same with Python and the means to make a virtual environment, for images of Python programs.
PYTHON = Artefact(
    "image-python",
    (*PYTHON_PACKAGES, *read_texts(SOURCES / "images/base.Containerfile", paths.RECIPES / "images.sh")),
    _build_python,
    needs=(rooms.TOOLS, rooms.BASE),
    seconds=15,
    adds_mb=110,
    peak_mb=900,
)
