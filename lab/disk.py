"""The disk of the lab's machine: Debian with container runtimes, a registry, cosign, systemd, schedctl's packages."""

from collections.abc import Iterator

from lab.images import FIXTURE_IMAGES
from lab.kernels import PACKAGED
from lab.paths import FILES, RECIPES
from lab.rooms import BASE, TOOLS, forget_packages, install_packages, run_script
from lab.schedulers import FIXTURES
from lab.sked_image import BASE as SKED_BASE
from lab.store import Artefact, Build
from lab.wheels import SCHEDCTL

PACKAGES = (
    *("kmod", "iproute2", "nftables", "iptables", "procps", "dropbear-bin", "python3", "bpftool"),
    *("containerd", "runc", "pigz"),  # containerd and docker have it decompress layers, in a third of their own time
    *("docker.io", "docker-cli"),
    *("podman", "crun", "conmon", "netavark", "aardvark-dns", "catatonit"),
    *("docker-registry", "cosign"),
    *("systemd", "dbus"),
)
BLANK = "blank.img"  # stands in for a layer
LAYER_MB = 512  # the size of every layer, a blank one too: a saved machine knows the size of its devices
_RECIPE = RECIPES / "disk.sh"
_FILES = FILES / "node"


def _build(build: Build) -> None:
    root = build.work / "node"
    if not (build.work / "installed").exists():
        build.run(["rm", "-rf", root])
        build.run(["cp", "-a", "--reflink=auto", build.need(BASE), root])
        install_packages(build, root, PACKAGES)
        forget_packages(build, root)
        (build.work / "installed").touch()
    if not (build.work / "key").exists():
        build.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "schedkit-lab", "-f", build.work / "key"])
    run_script(
        build,
        build.need(TOOLS),
        _RECIPE,
        binds={
            root: "/node",
            FILES: "/lab-files",
            build.need(FIXTURE_IMAGES): "/images",
            build.need(SKED_BASE) / "bases/sked": "/sked",
            build.need(FIXTURES): "/fixtures",
            build.need(SCHEDCTL): "/packages",
            **{build.need(kernel.artefact) / "modules": f"/modules/{kernel.name}" for kernel in PACKAGED},
        },
        env={"LAYER_MB": str(LAYER_MB)},
    )


def _read_files() -> Iterator[str]:
    for path in sorted(path for path in _FILES.rglob("*") if path.is_file()):
        yield str(path.relative_to(_FILES))
        yield path.read_text()


DISK = Artefact(
    "disk",
    (*PACKAGES, str(LAYER_MB), _RECIPE.read_text(), *_read_files()),
    _build,
    needs=(BASE, TOOLS, FIXTURES, FIXTURE_IMAGES, SKED_BASE, SCHEDCTL, *(kernel.artefact for kernel in PACKAGED)),
    seconds=45,
    adds_mb=1300,
    peak_mb=2500,
)
