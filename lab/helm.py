"""helm, compiled from its Go module: it installs the project's chart into the lab's cluster."""

from lab import kube, paths, rooms
from lab.store import Artefact, Build

HELM_VERSION = "v4.3.1"
SCRIPT = paths.RECIPES / "helm.sh"
ENVIRONMENT = kube.GO_ENVIRONMENT | {"VERSION": HELM_VERSION}


def _build(build: Build) -> None:
    rooms.run_script(build, build.need(rooms.COMPILE), SCRIPT, env=ENVIRONMENT)


HELM = Artefact(
    "helm",
    (SCRIPT.read_text(), *(f"{key}={value}" for key, value in sorted(ENVIRONMENT.items()))),
    _build,
    needs=(rooms.COMPILE,),
    adds_mb=1900,
    peak_mb=3100,
)
