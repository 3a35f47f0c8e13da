"""Everything of a release, from a commit into a folder: the same commit gives the same bytes."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from lab import kube
from lab.errors import BuildError
from lab.store import Store
from release.chart import build_chart
from release.debian import SUITES, build_deb
from release.images import build_image
from schedkit import __version__
from schedkit.errors import NotFoundError, UsageError

REPOSITORY = "ghcr.io/schedkit/sked"
SUMS = "SHA256SUMS"
COMMIT = "# commit "  # sha256sum --check passes over it


def build_release(store: Store, project: Path, out: Path, image: str, architectures: Sequence[str]) -> list[Path]:
    """Write all artefacts and SHA256SUMS to `out`, and return their paths."""
    revision = read_revision(project)
    epoch = int(_git(project, "show", "--no-patch", "--format=%ct", "HEAD"))
    out.mkdir(parents=True, exist_ok=True)
    remove_release(out)
    store.root.joinpath("run").mkdir(parents=True, exist_ok=True)
    with store.progress.step("wheel and source"):
        made = build_python(project, out, epoch)
    wheel = next(path for path in made if path.suffix == ".whl")
    for suite in SUITES:
        with store.progress.step(f"Debian package for {suite.name}"):
            made.append(build_deb(store, suite, project, wheel, out, epoch))
    archive, digest = build_image(store, image, out, architectures, version=__version__, revision=revision, epoch=epoch)
    made.append(archive)
    made.append(build_chart(project, out, version=__version__, image=image, digest=digest, epoch=epoch))
    with store.progress.step("install.yaml"):
        made.append(build_installer(store, project, out, f"{image}@{digest}"))
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(made))
    (out / SUMS).write_text("".join([f"{COMMIT}{revision}\n", *lines]))
    return [*sorted(made), out / SUMS]


def read_release(out: Path) -> tuple[str, list[str]]:
    """The commit that the release in a folder was made from, and the names of its files; NotFoundError without one."""
    try:
        first, *lines = (out / SUMS).read_text().splitlines()
    except FileNotFoundError as error:
        raise NotFoundError(f"{out} has no release", hint="make package") from error
    return first.removeprefix(COMMIT), [line.partition("  ")[2] for line in lines]


def remove_release(out: Path) -> None:
    """Delete the files of the release that was in a folder before, which may be of another version."""
    with suppress(NotFoundError):
        for name in (*read_release(out)[1], SUMS):
            (out / name).unlink(missing_ok=True)


def read_revision(project: Path) -> str:
    """The commit that is checked out; an error if there are changes that are not in it."""
    if changed := _git(project, "status", "--porcelain").splitlines():
        shown = ", ".join(line[3:] for line in changed[:3])
        raise UsageError(
            f"not committed: {shown}", hint="a release is made from a commit: commit or stash your changes"
        )
    return _git(project, "rev-parse", "HEAD")


def build_python(project: Path, out: Path, epoch: int) -> list[Path]:
    """The wheel and the source distribution."""
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(epoch)}
    # Not in a virtual environment of the build's own: hatchling is locked and installed here.
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(out)]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"hatchling failed: {done.stderr.strip()[-2000:]}")
    return [out / f"schedkit-{__version__}-py3-none-any.whl", out / f"schedkit-{__version__}.tar.gz"]


def build_installer(store: Store, project: Path, out: Path, image: str) -> Path:
    """The whole installation of the operator as one file."""
    kubectl = kube.binaries(store, kube.read_assets()).kubectl
    environment = os.environ | {"IMG": image, "KUBECTL": str(kubectl)}
    command = [str(project / "scripts/deploy"), "build-installer"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"install.yaml was not made: {done.stderr.strip()}")
    path = out / "install.yaml"
    (project / "dist/install.yaml").replace(path)
    return path


def _git(project: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(project), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(
            f"git {words[0]} failed: {done.stderr.strip()}", hint="make package needs a clone of the repository"
        )
    return done.stdout.strip("\n")
