"""Layers: what a machine can have beyond its own disk, each on a read-only disk that it mounts when it starts.

Every machine has the same devices, so one saved machine serves with any choice of layers; the device of a layer that is
left out is blank.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.disk import LAYER_MB
from lab.images import IMAGES
from lab.kube import KUBE
from lab.paths import RECIPES
from lab.rooms import COMPILE, TOOLS, run_script
from lab.store import Artefact, Build

FILE = "layer.img"
_PACK = RECIPES / "layer.sh"
_NODE = RECIPES / "layer-node.sh"


@dataclass(frozen=True)
class Layer:
    """A layer and the device on which the machine finds it."""

    name: str
    device: str
    artefact: Artefact


def _pack(build: Build, content: Path) -> None:
    run_script(build, build.need(TOOLS), _PACK, binds={content: "/content"}, env={"SIZE_MB": str(LAYER_MB)})


def _build_schedulers(build: Build) -> None:
    content = build.work / "content"
    build.run(["rm", "-rf", content])
    build.run(["mkdir", content])
    build.run(["cp", "-a", build.need(IMAGES) / "registry", content])
    _pack(build, content)


def _build_node(build: Build) -> None:
    run_script(build, build.need(COMPILE), _NODE, binds={build.need(KUBE) / "bin": "/kube"})
    _pack(build, build.work / "content")


def _layer(
    name: str, build: Callable[[Build], None], inputs: tuple[str, ...], needs: tuple[Artefact, ...], *, adds_mb: int
) -> Artefact:
    return Artefact(
        f"layer-{name}",
        (_PACK.read_text(), str(LAYER_MB), *inputs),
        build,
        needs=needs,
        seconds=3,
        adds_mb=adds_mb,
        peak_mb=3 * adds_mb,
    )


# Images of real schedulers, for the machine's registry.
SCHEDULERS = Layer("schedulers", "vdb", _layer("schedulers", _build_schedulers, (), (TOOLS, IMAGES), adds_mb=35))
# What makes a machine a node: kubelet, and the plugins of CNI.
NODE = Layer("node", "vdc", _layer("node", _build_node, (_NODE.read_text(),), (TOOLS, COMPILE, KUBE), adds_mb=150))
LAYERS = (SCHEDULERS, NODE)
