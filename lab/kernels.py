"""The kernels the lab boots: the oldest supported series, compiled, and two that Debian packages."""

from dataclasses import dataclass

from lab.paths import FILES, RECIPES
from lab.rooms import COMPILE, TOOLS, run_script
from lab.store import Artefact, Build
from schedkit.errors import UsageError

_CONFIG = FILES / "kernel-6.12.config"
_RECIPE_612 = RECIPES / "kernel-6.12.sh"
_RECIPE_PACKAGED = RECIPES / "kernel-packaged.sh"


@dataclass(frozen=True)
class Kernel:
    """A kernel by the name people choose it by; its artefact holds `vmlinuz`, `config` and perhaps `initrd`."""

    name: str
    artefact: Artefact
    initrd: bool
    append: str


def _build_612(build: Build) -> None:
    run_script(build, build.need(COMPILE), _RECIPE_612, binds={FILES: "/lab-files"})


def _make_packaged(name: str, series: str) -> Kernel:
    """The newest of Debian's cloud kernels whose version begins with `series`."""

    def build(build: Build) -> None:
        binds = {build.need(TOOLS) / "usr/bin": "/tools"}
        run_script(build, build.need(COMPILE), _RECIPE_PACKAGED, binds=binds, env={"SERIES": series})

    artefact = Artefact(
        f"kernel-{name}",
        (_RECIPE_PACKAGED.read_text(), series),
        build,
        needs=(COMPILE, TOOLS),
        seconds=10,
        adds_mb=75,
        peak_mb=250,
    )
    return Kernel(name, artefact, initrd=True, append="")


OLDEST = Kernel(
    "6.12",
    Artefact(
        "kernel-6.12",
        (_RECIPE_612.read_text(), _CONFIG.read_text()),
        _build_612,
        needs=(COMPILE,),
        seconds=480,
        adds_mb=7,
        peak_mb=3000,
    ),
    initrd=False,
    append="root=/dev/vda rw init=/sbin/lab-init",
)
# A longterm series, and the last of Debian's on which scx_rusty loads: of its later kernels the BTF is malformed.
LONGTERM = _make_packaged("6.18", "6.18.")
NEWEST = _make_packaged("newest", "")
PACKAGED = (LONGTERM, NEWEST)
KERNELS = {kernel.name: kernel for kernel in (OLDEST, *PACKAGED)}


def find_kernel(name: str) -> Kernel:
    """The kernel of that name."""
    try:
        return KERNELS[name]
    except KeyError:
        raise UsageError(f"no kernel is named {name!r}", hint=f"choose one of {', '.join(KERNELS)}") from None
