"""The two kernels the lab boots: the oldest supported series and the newest packaged one."""

from dataclasses import dataclass

from lab.paths import FILES, RECIPES
from lab.rooms import COMPILE, TOOLS, run_script
from lab.store import Artefact, Build
from schedkit.errors import UsageError

_CONFIG = FILES / "kernel-6.12.config"
_RECIPE_612 = RECIPES / "kernel-6.12.sh"
_RECIPE_NEWEST = RECIPES / "kernel-newest.sh"


@dataclass(frozen=True)
class Kernel:
    """A kernel by the name people choose it by; its artefact holds `vmlinuz`, `config` and perhaps `initrd`."""

    name: str
    artefact: Artefact
    initrd: bool
    append: str


def _build_612(build: Build) -> None:
    run_script(build, build.need(COMPILE), _RECIPE_612, binds={FILES: "/lab-files"})


def _build_newest(build: Build) -> None:
    run_script(build, build.need(COMPILE), _RECIPE_NEWEST, binds={build.need(TOOLS) / "usr/bin": "/tools"})


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
NEWEST = Kernel(
    "newest",
    Artefact(
        "kernel-newest",
        (_RECIPE_NEWEST.read_text(),),
        _build_newest,
        needs=(COMPILE, TOOLS),
        seconds=10,
        adds_mb=75,
        peak_mb=250,
    ),
    initrd=True,
    append="",
)
KERNELS = {kernel.name: kernel for kernel in (OLDEST, NEWEST)}


def find_kernel(name: str) -> Kernel:
    """The kernel of that name."""
    try:
        return KERNELS[name]
    except KeyError:
        raise UsageError(f"no kernel is named {name!r}", hint=f"choose one of {', '.join(KERNELS)}") from None
