"""Programs taken out of Debian's packages: that saves compiling them, and installs nothing on this host."""

from collections.abc import Sequence

from lab import paths, rooms
from lab.schedulers import read_texts
from lab.store import Artefact, Build

RECIPE = paths.RECIPES / "debian.sh"


def unpacked(
    name: str,
    *packages: str,
    programs: Sequence[str] = (),
    suite: str = rooms.SUITE,
    series: str,
    seconds: float,
    adds_mb: int,
    peak_mb: int,
) -> Artefact:
    """Programs of packages whose versions begin with `series`, as bin/PROGRAM; by default named like the packages."""
    environment = {
        "PACKAGES": " ".join(packages),
        "PROGRAMS": " ".join(programs or packages),
        "SUITE": suite,
        "SERIES": series,
    }

    def build(build: Build) -> None:
        rooms.run_script(build, build.need(rooms.TOOLS), RECIPE, env=environment)

    return Artefact(
        name,
        (*read_texts(RECIPE), *(f"{key}={value}" for key, value in environment.items())),
        build,
        needs=(rooms.TOOLS,),
        seconds=seconds,
        adds_mb=adds_mb,
        peak_mb=peak_mb,
    )
