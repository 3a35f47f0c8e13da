"""`python -m release package|check`."""

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from lab.catalogue import EVERYTHING
from lab.host import check_host
from lab.paths import lab_dir
from lab.progress import Progress
from lab.store import Store
from lab.wheels import PROJECT
from release import bases
from release.check import WHEELS, check_deb, check_pipx, check_python, check_same_bytes, check_uv, open_root
from release.check_cluster import check_image, check_manifests, check_publishing
from release.check_machine import check_machine
from release.debian import SUITES, TRIXIE
from release.package import REPOSITORY, build_release, read_release, read_revision
from schedkit import __version__
from schedkit.cli import run_program
from schedkit.errors import UsageError

IMAGE = f"{REPOSITORY}:{__version__}"
OURS = (
    *(artefact for one in SUITES for artefact in (one.root, one.builder, one.packages, WHEELS[one.name])),
    *bases.ARTEFACTS,
)


@click.group()
def release() -> None:
    """Make a release, and prove that it installs."""


@release.command()
@click.option("--out", type=click.Path(path_type=Path), default=PROJECT / "dist", help="Where to write it.")
@click.option("--image", default=IMAGE, help="Under which name the operator's image is published.")
@click.option(
    "--architecture",
    "architectures",
    type=click.Choice(list(bases.PLATFORMS)),
    multiple=True,
    default=list(bases.PLATFORMS),
    help="For which the operator's image is built; may be given several times [default: all].",
)
def package(out: Path, image: str, architectures: tuple[str, ...]) -> None:
    """Write all artefacts of the commit that is checked out."""
    for path in build_release(open_store(), PROJECT, out.absolute(), image, architectures):
        click.echo(f"{path.stat().st_size:>11,}  {path.name}")


@release.command()
@click.option("--out", type=click.Path(path_type=Path), default=PROJECT / "dist", help="Where the release is.")
@click.option("--image", default=IMAGE, help="The image's name, as given to `package`.")
def check(out: Path, image: str) -> None:
    """Install each artefact into clean Debian roots and on a machine, run and remove it; build it again and compare."""
    store, out = open_store(), out.absolute()
    if read_release(out)[0] != read_revision(PROJECT):
        raise UsageError(f"the release in {out} is of another commit", hint="make package")
    for suite in SUITES:
        with open_root(store, suite, out, PROJECT) as root:
            steps = {"apt": partial(check_deb, root, suite, out), "pip": partial(check_python, root)}
            steps |= {"uv": partial(check_uv, root)}
            steps |= {"pipx": partial(check_pipx, root)} if suite is TRIXIE else {}  # bookworm's has no --global
            for name, step in steps.items():
                with store.progress.step(f"{suite.name}: {name}"):
                    step()
    with store.progress.step("a machine with sched_ext: dpkg"), TemporaryDirectory(dir=store.root / "run") as folder:
        check_machine(store, out, Path(folder) / "machine")
    with store.progress.step("image, chart and install.yaml"), TemporaryDirectory(dir=store.root / "run") as folder:
        digest, architectures = check_image(store, out, PROJECT, Path(folder))
        check_publishing(store, out, digest, Path(folder))
        check_manifests(store, out, image, digest)
    with store.progress.step("the same bytes again"):
        check_same_bytes(store, PROJECT, out, image, architectures)


def open_store() -> Store:
    """The lab's cache, with what releases add to it."""
    check_host()
    return Store(lab_dir(), (*EVERYTHING, *OURS), Progress())


if __name__ == "__main__":
    run_program(release, "release")
