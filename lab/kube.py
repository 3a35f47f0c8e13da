"""A Kubernetes control plane and KWOK, compiled from their Go modules, and Debian's etcd; or what the user has."""

import os
from dataclasses import dataclass
from pathlib import Path

from lab.debian import unpacked
from lab.golang import KUBE_VERSION, KWOK_VERSION, compiled
from lab.store import Artefact, Store

KUBE_API_COMMANDS = ("kube-apiserver", "kubectl")  # what users of envtest have, with etcd
KUBE_COMMANDS = ("kube-controller-manager", "kube-scheduler", "kubelet")
KWOK_STAGES = ("node/fast", "node/heartbeat-with-lease", "pod/fast")

# Peaks hold the caches, which grow from the first of these to the last.
ETCD = unpacked("etcd", "etcd-server", programs=("etcd",), series="3.5.", seconds=6, adds_mb=30, peak_mb=60)
KUBE_API = compiled(
    "kube-api", KUBE_VERSION, recipe="kube", commands=KUBE_API_COMMANDS, seconds=300, adds_mb=3000, peak_mb=3300
)
KUBE = compiled("kube", KUBE_VERSION, commands=KUBE_COMMANDS, seconds=120, adds_mb=1050, peak_mb=1300)
KWOK = compiled("kwok", KWOK_VERSION, stages=KWOK_STAGES, seconds=30, adds_mb=760, peak_mb=900)


@dataclass(frozen=True)
class Binaries:
    """The programs of a control plane and of a node."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kube_scheduler: Path
    kubectl: Path
    kubelet: Path


def artefacts(assets: Path | None) -> tuple[Artefact, ...]:
    """What must be compiled on this host when `assets` (see read_assets) holds some of the programs already."""
    etcd = () if _has(assets, "etcd") else (ETCD,)
    kube_api = () if all(_has(assets, name) for name in KUBE_API_COMMANDS) else (KUBE_API,)
    return (*etcd, *kube_api, KUBE)


def read_assets() -> Path | None:
    """The folder in which users of envtest keep etcd, kube-apiserver and kubectl: KUBEBUILDER_ASSETS."""
    chosen = os.environ.get("KUBEBUILDER_ASSETS")
    return Path(chosen).absolute() if chosen else None


def binaries(store: Store, assets: Path | None = None) -> Binaries:
    """All programs: those in `assets` (see read_assets) are taken from there, the others compiled if need be."""
    store.ensure(*artefacts(assets))
    commands = {"etcd": ETCD} | dict.fromkeys(KUBE_API_COMMANDS, KUBE_API) | dict.fromkeys(KUBE_COMMANDS, KUBE)
    paths_found = {name: store.path(artefact) / "bin" / name for name, artefact in commands.items()}
    if assets:
        taken = {name: assets / name for name in commands if _has(assets, name)}
        store.progress.say(f"{', '.join(taken) or 'nothing'} taken from {assets} (KUBEBUILDER_ASSETS)")
        paths_found |= taken
    return Binaries(**{name.replace("-", "_"): path for name, path in paths_found.items()})


def _has(assets: Path | None, name: str) -> bool:
    return assets is not None and os.access(assets / name, os.X_OK)
