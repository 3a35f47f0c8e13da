"""The Python images that the operator's image is built on: Debian's packages, and nothing of this host."""

from lab import images, paths, rooms
from lab.schedulers import SOURCES, read_texts
from lab.sked_image import PACKAGES, Platform
from lab.store import Artefact, Build
from lab.wheels import Target, wheels
from release.debian import TRIXIE

ARM64 = "linux/arm64"
PYTHON = "python3,python3-venv,ca-certificates"
RECIPES = read_texts(SOURCES / "images/base.Containerfile", paths.RECIPES / "images.sh")


def _copy_root(build: Build) -> None:
    build.run(["rm", "-rf", build.work / "root"])
    build.run(["cp", "-a", "--reflink=auto", build.need(TRIXIE.root), build.work / "root"])


def _build_amd64(build: Build) -> None:
    _copy_root(build)
    rooms.install_packages(build, build.work / "root", images.PYTHON_PACKAGES)
    rooms.forget_packages(build, build.work / "root")
    images.build_base(build, "python", build.work / "root")


def _build_arm64(build: Build) -> None:
    """A root that is unpacked and not configured, which would run its programs: Python needs no more."""
    first, root = build.work / "first", build.work / "root"
    build.run(["rm", "-rf", first, root])
    options = ["--variant=minbase", "--foreign", "--arch=arm64", f"--include={PYTHON}"]
    own = [*rooms.OWN_MOUNTS, *rooms.OWN_PIDS]
    build.run([*own, "debootstrap", *options, TRIXIE.name, first, rooms.read_mirror()])
    packages = (first / "var/cache/apt/archives").glob("*.deb")
    root.mkdir()
    # The links from /lib to /usr/lib first, so that nothing makes a folder in their place.
    for package in sorted(packages, key=lambda path: (not path.name.startswith("base-files_"), path.name)):
        build.run(["dpkg-deb", "--extract", package, root])
    # What a package's script would make of its parts: all authorities in one file.
    bundle = rooms.CERTIFICATES
    build.run(["install", "-D", "-m", "644", build.need(TRIXIE.root) / bundle, root / bundle])
    images.build_base(build, "python", root, platform=ARM64)


def _build_qemu(build: Build) -> None:
    _copy_root(build)
    rooms.install_packages(build, build.work / "root", ["qemu-user"])
    build.run(["cp", build.work / "root/usr/bin/qemu-aarch64", build.out])


BASE_AMD64 = Artefact(
    "release-python-amd64",
    RECIPES,
    _build_amd64,
    needs=(rooms.TOOLS, TRIXIE.root),
    on_demand=True,
    seconds=30,
    adds_mb=110,
    peak_mb=900,
)
BASE_ARM64 = Artefact(
    "release-python-arm64",
    (PYTHON, *RECIPES),
    _build_arm64,
    needs=(rooms.TOOLS, TRIXIE.root),
    on_demand=True,
    seconds=60,
    adds_mb=110,
    peak_mb=900,
)
# qemu-aarch64, which is linked statically: it runs in any root.
QEMU = Artefact(
    "release-qemu", ("1",), _build_qemu, needs=(TRIXIE.root,), on_demand=True, seconds=20, adds_mb=20, peak_mb=700
)
_WHEELS_ARM64 = wheels("release-wheels-arm64", *PACKAGES, megabytes=10, target=Target("3.13", (2, 41), "aarch64"))

# By architecture, as images call it.
PLATFORMS = {
    "amd64": Platform(base=BASE_AMD64),
    "arm64": Platform(ARM64, _WHEELS_ARM64, BASE_ARM64, QEMU),
}
ARTEFACTS = (BASE_AMD64, BASE_ARM64, QEMU, _WHEELS_ARM64)
