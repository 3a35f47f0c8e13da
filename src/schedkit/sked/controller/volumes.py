"""What of the cluster and the host a scheduler's container sees as folders."""

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from schedkit.sked.api.container_rules import STATISTICS_FOLDER
from schedkit.sked.api.workloads import ResolvedWorkload
from schedkit.sked.controller.objects import ConfigMapVolume, HostPathVolume, Volume, VolumeMount

CONFIG, STATISTICS = "scx-config", "scx-stats"
DEFAULT_MODE = 0o644  # what Kubernetes makes of an absent mode of a ConfigMap's files

Named = TypeVar("Named", Volume, VolumeMount)


def make_volumes(workload: ResolvedWorkload) -> tuple[tuple[Volume, ...], tuple[VolumeMount, ...]]:
    """The volumes that a workload asks for, and where they are mounted."""
    volumes, mounts = [], []
    if source := workload.config_from:
        volumes.append(Volume(name=CONFIG, config_map=ConfigMapVolume(name=source.config_map)))
        mounts.append(VolumeMount(name=CONFIG, mount_path=source.mount_path, read_only=True))
    if workload.host_stats:
        folder = HostPathVolume(path=STATISTICS_FOLDER, type="DirectoryOrCreate")
        volumes.append(Volume(name=STATISTICS, host_path=folder))
        mounts.append(VolumeMount(name=STATISTICS, mount_path=STATISTICS_FOLDER))
    return tuple(volumes), tuple(mounts)


def complete_volumes(volumes: Iterable[Volume]) -> tuple[Volume, ...]:
    """The volumes that may be ours, with what Kubernetes fills in."""
    return tuple(_complete(volume) for volume in select_own(volumes))


def select_own(items: Iterable[Named]) -> tuple[Named, ...]:
    """Of volumes or mounts those that may be ours, in one order: what others add to these lists is theirs."""
    return tuple(sorted((item for item in items if item.name in (CONFIG, STATISTICS)), key=lambda item: item.name))


def _complete(volume: Volume) -> Volume:
    source = volume.config_map
    if source is None or source.default_mode is not None:
        return volume
    return msgspec.structs.replace(volume, config_map=msgspec.structs.replace(source, default_mode=DEFAULT_MODE))
