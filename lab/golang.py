"""Go programs, compiled from their modules: all with one set of versions, so that what they share is compiled once."""

from collections.abc import Mapping
from pathlib import Path

from lab import paths, rooms
from lab.store import Artefact, Build

KUBE_VERSION = "v1.36.3"
KWOK_VERSION = "v0.8.0"
HELM_VERSION = "v4.3.1"
SIGSTORE_GO_VERSION = "v1.2.2"
REKOR_VERSION = "v2.3.0"
# One module requires them all: Go then takes the newest version that any of them asks for, of each package.
MODULES = {
    "k8s.io/kubernetes": KUBE_VERSION,
    "sigs.k8s.io/kwok": KWOK_VERSION,
    "helm.sh/helm/v4": HELM_VERSION,
    "github.com/sigstore/sigstore-go": SIGSTORE_GO_VERSION,
    "github.com/sigstore/rekor-tiles/v2": REKOR_VERSION,
}
LANE = "go"  # side by side they would compile the same packages twice

# The module cache and the compiler's live among the downloads: an interrupted build goes on where it was, the second of
# these artefacts finds the first one's packages compiled, and the store deletes them when nothing is missing any more.
ENVIRONMENT = {
    "PATH": f"/usr/lib/go-1.26/bin:{rooms.PATH}",
    "CGO_ENABLED": "0",
    "GOTOOLCHAIN": "local",
    "GOMODCACHE": "/downloads/go/mod",
    "GOCACHE": "/downloads/go/build",
    "GOTMPDIR": "/build",  # a room's /tmp is memory
    # Without debugging information, which is stripped anyway, and with garbage collected less often: a fifth less time.
    "GOFLAGS": "-mod=mod -modcacherw -buildvcs=false -gcflags=all=-dwarf=false",
    "GOGC": "400",
    "MODULES": " ".join(f"{module}@{version}" for module, version in MODULES.items()),
}
_MODULE = paths.RECIPES / "go-module.sh"


def compiled(
    name: str,
    version: str,
    *,
    recipe: str = "",
    seconds: float,
    adds_mb: int,
    peak_mb: int,
    binds: Mapping[Path, str] | None = None,
    inputs: tuple[str, ...] = (),
    **settings: tuple[str, ...],
) -> Artefact:
    """A Go program as an artefact, by the recipe of its name; settings reach the recipe as environment."""
    script = paths.RECIPES / f"{recipe or name}.sh"
    told = {"VERSION": version} | {key.upper(): " ".join(words) for key, words in settings.items()}
    environment = ENVIRONMENT | told

    def build(build: Build) -> None:
        rooms.run_script(build, build.need(rooms.COMPILE), script, binds=binds, env=environment)

    texts = (script.read_text(), _MODULE.read_text(), *inputs)
    return Artefact(
        name,
        (*texts, *(f"{key}={value}" for key, value in sorted(environment.items()))),
        build,
        needs=(rooms.COMPILE,),
        lane=LANE,
        seconds=seconds,
        adds_mb=adds_mb,
        peak_mb=peak_mb,
    )
